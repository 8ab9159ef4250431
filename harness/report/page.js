"use strict";
// Makes the page from its data: `summary` is what C says of the run (harness/report/report_html.c), `cases` are the lines
// of the result files (docs/reference/results.md). Text of a result file only ever becomes text of an element.

const find = (id) => document.getElementById(id);
const summary = JSON.parse(find("summary").textContent);
const cases = find("lines").textContent.trim().split("\n").filter((line) => line).map((line) => JSON.parse(line));

// Fields that are numbers stand as text where JSON has no number for them.
const number = (x) => x === "inf" ? Infinity : x === "-inf" ? -Infinity : typeof x === "number" ? x : NaN;

function element(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children);
  return e;
}

// A cell is a text, or {text, kind, title}, or an element.
function cell(content) {
  if (content instanceof Node) return element("td", {}, content);
  const { text, kind, title } = typeof content === "object" ? content : { text: content };
  return element("td", { ...kind && { class: kind }, ...title && { title } }, text ?? "");
}

function table(headings, rows, left = 1) {
  const aligned = (e, i) => { if (i > 0 && i < left) e.classList.add("left"); return e; };
  const row = (cells) => element("tr", {}, ...cells.map(cell).map(aligned));
  const wide = element("div", { class: "wide", tabindex: 0 }, element("table", {},
    element("thead", {}, element("tr", {}, ...headings.map((h) => element("th", { scope: "col" }, h)).map(aligned))),
    element("tbody", {}, ...rows.map(row))));
  widths.observe(wide);
  return wide;
}

// A table that is wider than its place says so (page.css).
const widths = new ResizeObserver((entries) => entries.forEach(({ target }) =>
  target.classList.toggle("cut", target.querySelector("table").offsetWidth > target.clientWidth)));

// How much of a list is shown, where it is not all: " 3 of 5 tensors are shown."
const shownOf = (shown, all, what) => shown < all ? ` ${shown} of ${all} ${what} are shown.` : "";

const fixed = (x, digits) => Number.isFinite(number(x)) ? number(x).toFixed(digits) : x ?? "";
const short = (x) => Number.isFinite(number(x)) ? String(Number(number(x).toPrecision(3))) : x ?? "";

// --- cases ---

const status = (c) => c.type === "case" ? c.status : "UNFINISHED";
const fails = (c) => c.type !== "case" || summary.failing.includes(c.status);
const kindOf = (c) => status(c) === "PASS" ? "good" : fails(c) ? "bad" : "warn";
// "nvfp4.canonical" of each case, "int8.canonical+nvfp4.vllm" where K and V differ: the cases stand in order of groups.
const storages = summary.groups.flatMap((g) => Array(g.cases).fill(g.storage));
cases.forEach((c, i) => { c.storage = storages[i]; });
const modeOf = (c) => c.mode
  ? c.mode.fell_back ? `${c.mode.effective} (fell back from ${c.mode.requested}: ${c.mode.reason})` : c.mode.effective
  : "";

// A command with a button that copies it.
function command(text) {
  const button = element("button", { type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  });
  return element("div", { class: "command" }, element("pre", {}, text), button);
}

function describe(c) {
  const parts = [element("code", {}, c.id)];
  if (c.detail) parts.push(element("div", { class: "dim" }, c.detail));
  if (c.printed) parts.push(element("pre", { class: "printed" }, c.printed.join("\n")));
  if (modeOf(c)) parts.push(element("div", { class: c.mode.fell_back ? "warn" : "dim" }, `mode: ${modeOf(c)}`));
  if (status(c) !== "PASS" && c.repro) parts.push(command(c.repro));
  return element("div", {}, ...parts);
}

function caseRow(c) {
  const trip = (t) => [short(t?.relative_l2), fixed(t?.worst_ratio, 3)];
  return [{ text: status(c), kind: kindOf(c) }, describe(c), c.impl, fixed(c.ms, 1) + (c.slow ? " slow" : ""), c.compared,
    { text: c.mismatched, kind: c.mismatched ? "bad" : "" }, c.steps, ...trip(c.k), ...trip(c.v)];
}

function drawCases() {
  const STEP = 200;
  const chosen = find("status"), search = find("search");
  let limit = STEP;
  const count = (name) => cases.filter((c) => status(c) === name).length;
  const names = [...new Set(cases.map(status))];
  const failed = cases.filter((c) => kindOf(c) === "bad").length;
  chosen.append(element("option", { value: "all" }, `all (${cases.length})`));
  if (failed) chosen.append(element("option", { value: "bad", selected: "" }, `did not pass (${failed})`));
  for (const name of names) chosen.append(element("option", { value: name }, `${name} (${count(name)})`));
  const headings = ["status", "case", "implementation", "ms", "bytes", "wrong", "steps", "rel. L2 K", "error/ bound K",
    "rel. L2 V", "error/ bound V"];

  function draw() {
    const words = search.value.toLowerCase().split(/\s+/).filter((word) => word);
    const wanted = cases.filter((c) => {
      const value = chosen.value;
      const text = `${c.id} ${c.detail ?? ""} ${c.impl ?? ""} ${modeOf(c)}`.toLowerCase();
      return (value === "all" || status(c) === value || kindOf(c) === value) && words.every((w) => text.includes(w));
    });
    const list = table(headings, wanted.slice(0, limit).map(caseRow), 3);
    for (const td of list.querySelectorAll("td:nth-child(2)")) td.classList.add("long");
    find("table").replaceChildren(list);
    find("shown").textContent = `${Math.min(limit, wanted.length)} of ${wanted.length} shown`;
    find("more").hidden = wanted.length <= limit;
  }
  const again = () => { limit = STEP; draw(); };
  chosen.addEventListener("change", again);
  search.addEventListener("input", again);
  find("filter").addEventListener("submit", (event) => event.preventDefault());
  find("more").addEventListener("click", () => { limit += STEP; draw(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== search) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && document.activeElement === search) {
      search.value = "";
      again();
    }
  });
  draw();
}

// --- lists ---

const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];

// [[key, members], ...] in the order of the keys' first members.
function groupBy(list, key) {
  const groups = new Map();
  for (const x of list) groups.has(key(x)) ? groups.get(key(x)).push(x) : groups.set(key(x), [x]);
  return [...groups];
}

const largestFirst = (groups) => groups.sort((a, b) => b[1].length - a[1].length);

// --- codes ---

const hasCode = (set, code) => parseInt(set.substr(2 * (code >> 3), 2), 16) >> (code & 7) & 1;
const countCodes = (set) => [...Array(256).keys()].filter((code) => hasCode(set, code)).length;
const hex = (code) => code.toString(16).toUpperCase().padStart(2, "0");

// --- head and causes ---

// Words that the page explains are links to where it does; what they mean shows under the pointer, too.
function withWords(text) {
  const words = [...document.querySelectorAll("#words dt[id]")].map((dt) => dt.textContent);
  return text.split(new RegExp(`\\b(${words.join("|")})\\b`)).map((part, i) => {
    if (i % 2 === 0) return part;
    const id = `word-${part.replace(" ", "-")}`, title = find(id).nextElementSibling.textContent.replace(/\s+/g, " ");
    return element("a", { href: `#${id}`, title, class: "word" }, part);
  });
}

function drawHead() {
  document.title = `kvgold: ${summary.name}`;
  document.querySelector("h1").textContent = `kvgold report: ${summary.name}`;
  const kinds = { PASSED: "good", "NOTHING WAS CHECKED": "warn" };
  find("headline").classList.add(kinds[summary.headline] ?? "bad");
  find("headline").replaceChildren(`${summary.headline}: `, ...withWords(summary.counts));
  find("proof").textContent = summary.proof;
  const facts = [["config", summary.config], ["seed", summary.seed], ["kvgold", summary.version],
    ["shards", `${summary.shards} of ${summary.shard_count}`], ...summary.totals];
  for (const [what, text] of facts) {
    find("totals").append(element("dt", {}, ...withWords(what)), element("dd", what === "note" ? { class: "warn" } : {}, text));
  }
}

// Where in a page bytes are wrong, for cases whose pages have one size. A tensor that is no pool is one page.
function pageMap(tensor, bytes, list) {
  const cells = Math.min(256, bytes), what = /_(data|pool)$/.test(tensor) ? `A page of ${tensor}` : tensor;
  const map = element("div", { class: "map", role: "img", "aria-label": `Wrong bytes of ${tensor}` });
  for (let i = 0; i < cells; i++) {
    const wrong = list.filter((c) => hasCode(c.page.cells, i)).length;
    const first = Math.ceil(i * bytes / cells), last = Math.ceil((i + 1) * bytes / cells) - 1;
    map.append(element("span", { style: `--share:${wrong / list.length}`, ...wrong && { class: "wrong" },
      title: `bytes ${first} to ${last}: wrong in ${wrong} of ${list.length} cases` }));
  }
  return element("figure", {}, map, element("figcaption", { class: "dim" },
    `${what}, ${bytes} bytes, from the upper left corner on. The more of ${list.length} cases have a wrong byte in a cell, ` +
    "the redder is the cell."));
}

// For the tensors that are wrong most often, a map of the pages of the size that most cases have; and what is left out.
function pageMaps(list) {
  const MOST = 3, tensors = largestFirst(groupBy(list.filter((c) => c.page), (c) => c.page.tensor));
  const sizes = tensors.slice(0, MOST).map(([tensor, mine]) =>
    [tensor, mine.length, largestFirst(groupBy(mine, (c) => c.page.bytes))[0]]);
  const left = shownOf(sizes.length, tensors.length, "tensors") + sizes.map(([tensor, all, [, mine]]) =>
    shownOf(mine.length, all, `cases of ${tensor}, those with the commonest size,`)).join("");
  return [element("div", { class: "maps" }, ...sizes.map(([tensor, , [bytes, mine]]) => pageMap(tensor, bytes, mine))),
    element("p", { class: "dim left-out" }, left)];
}

function drawCauses() {
  const MOST = 6;
  for (const cause of summary.causes) {
    const mine = cases.filter((_, i) => summary.cause_of[i] === cause.id), first = cases[cause.first];
    const words = (what, of) => {
      const all = [...new Set(mine.map(of))];
      return `${what} ${all.slice(0, MOST).join(", ")}${all.length > MOST ? ` and ${all.length - MOST} others` : ""}`;
    };
    const head = element("div", {}, element("strong", { class: kindOf(first) }, status(first)));
    if (mine.length > 1) head.prepend(`${mine.length} cases `);
    if (cause.explained) {
      head.append(": the answers equal those of ", element("a", { href: `#control-${cause.explained}` }, cause.explained));
      if (summary.meanings[cause.explained]) head.append(`, ${summary.meanings[cause.explained]}`);
    }
    if (cause.consequence) head.append(`: ${cause.consequence}`);
    const article = element("article", { class: kindOf(first) }, head);
    if (mine.length > 1) {
      article.append(element("div", { class: "dim" },
        [words("op", (c) => c.op), words("layout", (c) => c.layout), words("format", (c) => c.storage)].join("; ")));
    }
    article.append(describe(first), ...pageMaps(mine));
    find("causes").append(article);
  }
  return summary.causes.length;
}

// --- tables ---

function drawFormats() {
  find("formats").append(table(summary.columns, summary.groups.map((g) => g.cells)));
  return summary.groups.length;
}

function drawLayouts() {
  find("layouts").append(table(["layout", "op", "cases", "passed", "bytes compared", "bytes wrong"],
    summary.layouts.map((l) => [l.layout, l.op, l.cases, { text: l.passed, kind: l.failed ? "bad" : "" }, l.compared,
      { text: l.mismatched, kind: l.mismatched ? "bad" : "" }]), 2));
  return summary.layouts.length;
}

// A strip of `codes` cells. Where they are many, one cell stands for each run of equal ones.
function strip(set, codes) {
  const apart = codes <= 16;
  const e = element("div", { class: apart ? "strip apart" : "strip", role: "img",
    "aria-label": `${countCodes(set)} of ${codes} seen` });
  for (let first = 0, next; first < codes; first = next) {
    const hit = hasCode(set, first);
    for (next = first + 1; !apart && next < codes && hasCode(set, next) === hit; next++);
    const range = next - first > 1 ? `${hex(first)} to ${hex(next - 1)}` : hex(first);
    e.append(element("span", { class: hit ? "hit" : "miss", style: `flex-grow:${next - first}`,
      title: `${range}: ${hit ? "seen" : "never seen"}` }));
  }
  return e;
}

function drawCoverage() {
  const MET = { ties: "ties", saturations: "saturations", zero_blocks: "zero blocks", negative_zeros: "negative zeros",
    subnormals: "subnormals", specials: "NaN or Inf", scale_underflows: "scales that became 0" };
  const groups = summary.groups.filter((g) => g.reach);
  const codes = groups.map(({ storage, reach }) => {
    const seen = countCodes(reach.code_set), scales = countCodes(reach.scale_set);
    return [storage, strip(reach.code_set, reach.codes_of <= 16 ? reach.codes_of : 256), `${seen}/${reach.codes_of}`,
      scales ? strip(reach.scale_set, 256) : "", scales || ""];
  });
  find("coverage").append(
    table(["format.dialect", "element codes, 0 at the left", "seen", "scale bytes, 00 to FF", "seen"], codes),
    element("h3", {}, "Situations met"),
    table(["format.dialect", ...Object.values(MET)], groups.map(({ storage, reach }) =>
      [storage, ...Object.keys(MET).map((key) => ({ text: reach[key], kind: reach[key] ? "" : "dim" }))])));
  return groups.length;
}

function drawControls() {
  const names = new Set(summary.groups.flatMap((g) => Object.values(g.controls).flatMap((counts) => Object.keys(counts))));
  const sum = (kind, name) => summary.groups.reduce((total, g) => total + (g.controls[kind][name] ?? 0), 0);
  const rows = [...names].map((name) => {
    const blind = summary.groups.filter((g) => !g.controls.rejected[name] &&
      (g.controls.unreached[name] || g.controls.accepted[name])).map((g) => g.storage);
    const accepted = sum("accepted", name);
    return [element("span", { id: `control-${name}` }, name), summary.meanings[name] ?? "", sum("rejected", name),
      sum("unreached", name), { text: accepted, kind: accepted ? "bad" : "" }, { text: blind.join(", "), kind: "warn" }];
  });
  const list = table(["known-wrong answer", "what is wrong", "rejected", "unreached", "accepted", "rejected by no case of"],
    rows, 2);
  for (const td of list.querySelectorAll("td:nth-child(2), td:last-child")) td.classList.add("long");
  find("controls").append(list);
  return rows.length;
}

// --- plots ---

const K_COLOUR = "#2a7de1", V_COLOUR = "#e07b00", BAD_COLOUR = "#d62728";
// The looks of series that stand in one plot: each has a colour and a shape of its own, so that none is told by its
// colour alone. The colours have a contrast of 3 at least on the bright and on the dark page.
const CLOSED = [["circle", 0], ["rect", 0], ["rectRot", 0], ["triangle", 0], ["triangle", 180], ["triangle", 90],
  ["triangle", 270]];
const OPEN = [["cross", 0], ["crossRot", 0], ["star", 0], ["line", 90], ["line", 45]];
const SHAPES = [...CLOSED.map((shape) => [...shape, true]), ...OPEN.map((shape) => [...shape, false]),
  ...CLOSED.map((shape) => [...shape, false])];
const LOOKS = ["#046bac", "#e7711b", "#037817", "#e560c5", "#7a650f", "#638efc", "#c31f65", "#22a583", "#684fd8", "#aa9118",
  "#1b736b", "#fc5879", "#a336ae", "#19aa2b", "#b34200", "#04a0c4", "#6b6b6b", "#b274fe", "#959595"].map((colour, i) => {
  const [pointStyle, rotation, filled] = SHAPES[i];
  return { borderColor: colour, backgroundColor: filled ? colour : "transparent", pointStyle, rotation, pointRadius: 5,
    borderWidth: 1.5, pointBorderWidth: 1.5, borderDash: filled ? [] : [6, 3] };
});
const look = (i) => LOOKS[i % LOOKS.length];
const charts = [];

// `config` is Chart.js's. `names` are those of a plot with rows.
function plot(section, title, caption, config, names = []) {
  const canvas = element("canvas", { role: "img", "aria-label": title });
  const height = names.length ? `calc(110px + ${names.length} * var(--${beside(names) ? "row" : "named-row"}))` : "";
  const box = element("div", { class: "plot", style: height && `height:${height}` }, canvas);
  find(section).append(element("figure", {}, element("figcaption", {}, element("h3", {}, title),
    element("p", { class: "dim" }, caption)), box));
  config.options = { animation: false, maintainAspectRatio: false, ...config.options };
  config.options.plugins = { legend: { labels: { usePointStyle: true } }, ...config.options.plugins };
  charts.push(new Chart(canvas, config));
}

// Chart.js draws on a canvas, so the colours of the page are handed to it; again when the page turns dark or bright.
function colourCharts() {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  Chart.defaults.color = colour("--fg");
  for (const chart of charts) {
    for (const scale of Object.values(chart.options.scales)) {
      scale.ticks.color = scale.title.color = colour("--fg");
      scale.grid.color = colour("--line");
    }
    chart.update();
  }
}

const axis = (text, more = {}) => ({ title: { display: true, text }, ...more });
const LOGARITHMIC = { type: "logarithmic", ticks: { maxRotation: 0 } };
const points = (label, colour, data, more = {}) =>
  ({ label, data, showLine: false, borderColor: colour, backgroundColor: colour, pointRadius: 4, ...more });
// Where the names of rows stand: beside the rows, but on a phone long ones stand above them.
const phone = matchMedia("(max-width: 40rem)");
const beside = (names) => Math.max(...names.map((name) => name.length)) <= 16;
// The text, without its middle if it is wider than `room`.
function fitted(text, room, context) {
  const fits = (kept) => context.measureText(kept).width <= room;
  let kept = text;
  for (let n = text.length - 1; n > 1 && !fits(kept); n--) kept = `${text.slice(0, n >> 1)}\u2026${text.slice(-(n - (n >> 1)))}`;
  return kept;
}
// A scale whose whole numbers are the rows of `names`, the first at the top.
function rowScale(names) {
  const above = () => phone.matches && !beside(names), MARGIN = 60;
  return { type: "linear", min: -0.6, max: names.length - 0.4, reverse: true,
    ticks: { stepSize: 1, autoSkip: false, mirror: above, labelOffset: () => above() ? -12 : 0,
      callback(y) {
        const { ctx, width } = this.chart;
        ctx.font = Chart.helpers.toFont(Chart.defaults.font).string;
        return fitted(names[y] ?? "", (above() ? width : width / 2) - MARGIN, ctx);
      } },
    afterBuildTicks: (scale) => { scale.ticks = names.map((_, value) => ({ value })); } };
}
const named = (names) => ({ tooltip: { callbacks: { label: (p) => `${names[Math.round(p.parsed.y)]}: ${p.parsed.x}` } } });

// What the figures of a group were measured on is part of its name where groups differ in it.
function namesOf(groups, name) {
  const mixed = new Set(groups.map((g) => g.data)).size > 1;
  return groups.map((g) => mixed && g.data ? `${name(g)} (${g.data})` : name(g));
}

function plotError() {
  const rows = summary.groups.filter((g) => number(g.relative_l2.k) > 0 || number(g.relative_l2.v) > 0)
    .sort((a, b) => (number(b.bits) || 0) - (number(a.bits) || 0));
  if (!rows.length) return;
  const names = namesOf(rows, (g) => `${g.storage}  ${fixed(g.bits, 2)} bits`);
  const side = (key) => rows.map((g, y) => ({ x: number(g.relative_l2[key]), y })).filter((p) => p.x > 0);
  plot("plots", "Relative L2 error", "Median over the cases on captured data, or on random data where there is none: a name " +
    "says which if the plot has both. One row per format and dialect, largest storage first. Left is better. Exact formats have no row.", {
    type: "scatter",
    data: { datasets: [points("K", K_COLOUR, side("k")),
      points("V", V_COLOUR, side("v"), { pointStyle: "rectRot", pointRadius: 5, backgroundColor: "transparent" })] },
    options: { plugins: named(names), scales: { y: rowScale(names),
      x: axis("relative L2 error (logarithmic)", LOGARITHMIC) } },
  }, names);
}

function plotNoise() {
  const plain = summary.groups.filter((g) => g.plain), bars = plain.filter((g) =>
    (Number.isFinite(number(g.sqnr_db.k)) || Number.isFinite(number(g.sqnr_db.v))));
  if (!bars.length) return;
  const side = (label, colour, key) => ({ label, backgroundColor: colour, data: bars.map((g) => number(g.sqnr_db[key])) });
  plot("plots", "SQNR of K and V", "Median over the same cases, canonical dialects. Six dB are half the error." +
    (bars.length < plain.length
      ? `${shownOf(bars.length, plain.length, "formats")} The others are exact or have no round trip.` : ""), {
    type: "bar",
    data: { labels: namesOf(bars, (g) => g.storage.replace(".canonical", "")),
      datasets: [side("K", K_COLOUR, "k"), side("V", V_COLOUR, "v")] },
    options: { scales: { x: { ticks: { autoSkip: false, maxRotation: 90 } }, y: axis("SQNR (dB), more is better") } },
  });
}

// The largest error of a case as a share of its bound; NaN: it has no round trip, or its round trip must be exact.
const ratio = (c) => c.fill === "exact" || !(c.k || c.v) ? NaN
  : Math.max(...[c.k, c.v].filter((t) => t).map((t) => number(t.worst_ratio)));
const formatOf = (c) => c.storage.includes("+") ? "mixed" : c.k_format;

function plotBounds() {
  const MOST = 150, LANES = 7;
  const rows = groupBy(cases.filter((c) => !Number.isNaN(ratio(c))), formatOf);
  if (!rows.length) return;
  const names = rows.map(([name]) => name), dots = [], medians = [];
  const end = cases.some((c) => ratio(c) > 1) ? 1.3 : 1.1, all = rows.reduce((sum, [, mine]) => sum + mine.length, 0);
  rows.forEach(([, mine], y) => {
    const sorted = mine.map(ratio).sort((a, b) => a - b), shown = Math.min(sorted.length, MOST);
    for (let i = 0; i < shown; i++) {
      const x = sorted[shown > 1 ? Math.floor(i * (sorted.length - 1) / (shown - 1)) : 0];
      dots.push({ x: Math.min(x, end), y: y + 0.5 * ((i * 3 % LANES) / (LANES - 1) - 0.5) });
    }
    medians.push({ x: Math.min(median(sorted), end), y });
  });
  plot("plots", "Error against its bound", "The largest error of each case as a share of what the format allows. Each dot " +
    `is a case, at most ${MOST} per format.${shownOf(dots.length, all, "cases")} Right of the red line an answer is wrong. ` +
    `Cases of fill exact are left out.${end > 1.1 ? ` What is above ${end} stands at ${end}.` : ""}`, {
    type: "scatter",
    data: { datasets: [points("case", dots.map((p) => p.x > 1 ? BAD_COLOUR : "#9a9a9a"), dots, { pointRadius: 2 }),
      points("median", K_COLOUR, medians, { pointStyle: "line", rotation: 90, pointRadius: 9, borderWidth: 3, order: -1 }),
      points("bound", BAD_COLOUR, [{ x: 1, y: -0.6 }, { x: 1, y: names.length - 0.4 }],
        { showLine: true, pointRadius: 0, borderWidth: 1.5 })] },
    options: { plugins: named(names), scales: { y: rowScale(names), x: axis("largest error / bound of a case",
      { min: 0, max: end }) } },
  }, names);
}

// SQNR by layer of captured tensors: a plot per kind of tensor, a line per format, the best one first. Above MOST a format
// is all but exact: the error is 1/100000 of the tensor; its line would press the others together.
function plotLayers() {
  const KINDS = { k_pre: "K before RoPE", k_post: "K after RoPE", k: "K after RoPE", v: "V" }, MOST = 100;
  const formats = [...new Set(cases.map((c) => c.k_format))];
  const spots = cases.filter((c) => c.fill === "capture" && c.storage === `${c.k_format}.canonical`)
    .flatMap((c) => [[c, c.capture_k, c.k], [c, c.capture_v, c.v]]).map(([c, tensor, trip]) => {
      const [, layer, suffix] = /^layers\.(\d+)\.(\w+)$/.exec(tensor ?? "") ?? [];
      return { kind: KINDS[suffix], format: c.k_format, layer: Number(layer), sqnr: number(trip?.sqnr_db) };
    }).filter((spot) => spot.kind && !Number.isNaN(spot.sqnr));
  for (const [kind, mine] of groupBy(spots, (spot) => spot.kind)) {
    const best = (line) => median(line.map((spot) => spot.sqnr));
    const lines = groupBy(mine, (spot) => spot.format).sort((a, b) => best(b[1]) - best(a[1]));
    const shown = lines.filter(([, line]) => line.every((spot) => spot.sqnr <= MOST));
    const exact = lines.filter((line) => !shown.includes(line)).map(([format]) => format);
    if (!shown.length) continue;
    plot("plots", `SQNR by layer: ${kind}`, "Captured tensors of a real model, canonical dialects." +
      shownOf(shown.length, lines.length, "formats") + (exact.length ? ` Above ${MOST} dB: ${exact.join(", ")}.` : ""), {
      type: "scatter",
      data: { datasets: shown.map(([format, line]) => points(format, "", groupBy(line, (spot) => spot.layer)
        .map(([layer, values]) => ({ x: layer, y: median(values.map((spot) => spot.sqnr)) })).sort((a, b) => a.x - b.x),
      { ...look(formats.indexOf(format)), showLine: true })) },
      options: { scales: { x: axis("layer", { ticks: { stepSize: 1 } }), y: axis("SQNR (dB)") } },
    });
  }
}

function drawPlots() {
  plotError();
  plotNoise();
  plotBounds();
  plotLayers();
  return charts.length;
}

// --- op generate ---

// What tells the cases apart: "nvfp4.canonical bf16 P2 sliding cuda".
const nameOf = (c) => [c.storage, c.dtype, c.scale, c.layers === "all" ? "" : c.layers,
  c.quantise_k === "before_rope" ? c.quantise_k : "", c.backend === "reference" ? "" : c.backend].filter((w) => w).join(" ");

function drawGenerate() {
  const judged = cases.filter((c) => c.quality).sort((a, b) => number(a.quality.kl) - number(b.quality.kl));
  if (!judged.length) return 0;
  const mean = (q, key, show) => `${show(number(q[key]))} [${show(number(q[`${key}_low`]))}, ${show(number(q[`${key}_high`]))}]`;
  const kind = (bad) => bad ? "bad" : "";
  find("generate").append(table(["format.dialect", "bits/token", "loss, bits", "KL, bits", "KL p99", "KL worst", "top-1, %",
    "greedy: first difference", "rows wrong", "B/token", "B/request", "requests"], judged.map((c) => {
    const q = c.quality;
    return [nameOf(c), fixed(q.bits, 4),
      { text: mean(q, "loss", (x) => x.toFixed(5)), kind: kind(!(number(q.loss) <= number(q.max_loss))) },
      { text: mean(q, "kl", short), kind: kind(!(number(q.kl) <= number(q.max_kl))) }, short(q.kl_p99), short(q.kl_worst),
      { text: mean(q, "top1", (x) => (100 * x).toFixed(2)), kind: kind(!(number(q.top1) >= number(q.min_top1))) },
      q.greedy_tokens ? `${q.greedy_median} (${q.greedy_first}), ${q.greedy_same}/${q.greedy_texts} same` : "-",
      { text: `${q.differing_rows}/${q.compared_rows}`, kind: kind(q.differing_rows) }, q.token_bytes, q.request_bytes,
      q.budget ? q.requests : "-"];
  })));
  const planted = judged.flatMap((c) => c.quality.planted.map((p) => {
    const how = !p.applies ? "does not apply" : [p.by_bits && "bits", p.by_limits && "limits"].filter((x) => x).join(" and ");
    return [nameOf(c), p.id, !p.applies ? { text: how, kind: "dim" } : how ? { text: `rejected by ${how}`, kind: "good" }
      : { text: "ACCEPTED", kind: "bad" }, ...p.applies ? [`${p.differ} of ${p.rows}`, fixed(p.loss, 5), short(p.kl)]
      : ["", "", ""]];
  }));
  if (planted.length) {
    find("generate").append(element("h3", {}, "Planted defects"),
      table(["format.dialect", "defect", "outcome", "rows changed", "loss, bits", "KL, bits"], planted, 3));
  }
  plotGenerate(judged);
  return judged.length;
}

function plotGenerate(all) {
  const judged = all.filter((c) => number(c.quality.kl) > 0);
  if (!judged.length) return;
  const names = judged.map(nameOf);
  const column = (key) => judged.map((c, y) => ({ x: number(c.quality[key]), y })).filter((p) => p.x > 0);
  plot("generate", "KL divergence", "Mean with its interval, 99th percentile and worst row. One row per case." +
    (judged.length < all.length ? `${shownOf(judged.length, all.length, "cases")} The others have a divergence of 0.` : ""), {
    type: "scatter",
    data: { datasets: [points("mean", K_COLOUR, column("kl")),
      points("95 % interval", K_COLOUR, [...column("kl_low"), ...column("kl_high")],
        { pointStyle: "line", rotation: 90, pointRadius: 6 }),
      points("p99", V_COLOUR, column("kl_p99"), { pointStyle: "rectRot" }),
      points("worst", BAD_COLOUR, column("kl_worst"), { pointStyle: "crossRot" })] },
    options: { plugins: named(names), scales: { y: rowScale(names),
      x: axis("KL divergence, bits (logarithmic)", LOGARITHMIC) } },
  }, names);
  const plain = judged.filter((c) => c.layers === "all" && c.quantise_k === "after_rope" && c.k_format === c.v_format &&
    c.k_dialect === "canonical" && c.v_dialect === "canonical").slice(0, LOOKS.length);
  if (!plain.length) return;
  const left = shownOf(plain.length, all.length, "cases");
  const label = (c) => nameOf(c).replace(".canonical", "");
  plot("generate", "KL divergence by context", "Mean over the rows of each span of positions. The first span, positions 0 " +
    `to 63, stands at 32. The nearest ${LOOKS.length} cases of canonical dialects over all layers have a line.${left}`, {
    type: "scatter",
    data: { datasets: plain.map((c, i) => points(label(c), "", c.quality.positions.map((p) =>
      ({ x: p.from || 32, y: number(p.kl) })), { ...look(i), showLine: true })) },
    options: { scales: { x: axis("position in the window", LOGARITHMIC),
      y: axis("KL divergence, bits", LOGARITHMIC) } },
  });
  plot("generate", "KL divergence against memory", `The same cases, by the bytes of a token in all layers.${left}`, {
    type: "scatter",
    data: { datasets: plain.map((c, i) => points(label(c), "",
      [{ x: c.quality.token_bytes, y: number(c.quality.kl) }], look(i))) },
    options: { scales: { x: axis("bytes of the cache per token", { min: 0 }),
      y: axis("KL divergence, bits", LOGARITHMIC) } },
  });
}

// --- the page ---

drawHead();
// A section without content goes.
const sections = { causes: drawCauses, plots: drawPlots, formats: drawFormats, generate: drawGenerate, layouts: drawLayouts,
  coverage: drawCoverage, controls: drawControls, cases: drawCases, words: () => 1 };
for (const [id, draw] of Object.entries(sections)) {
  if (draw() === 0) find(id).remove();
  else document.querySelector("nav").append(element("a", { href: `#${id}` }, find(id).querySelector("h2").textContent));
}
colourCharts();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", colourCharts);
