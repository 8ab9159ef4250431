#!/usr/bin/env python3
"""usage: page_in_browser.py KVGOLD

Opens pages that `kvgold check` and `kvgold report` write in a headless Chromium, by ChromeDriver, and checks what a
reader finds there: by structure and by keyboard, no pixels. What a page must show is counted from its result file.
Each check then has to fail on a page that is broken on purpose. Prints a line per check that fails; the last line is
"N passed, N failed". Exit status: 0 all passed, 1 otherwise.
"""
import collections
import contextlib
import functools
import json
import operator
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

WIDTH, PHONE = 1240, 360
BACKGROUNDS = {"dark": "rgb(20, 23, 27)", "light": "rgb(255, 255, 255)"}


class Page:
    """An open report, and the cases of its result file."""

    formats = 0  # that kvgold has

    def __init__(self, browser, path, results):
        self.browser = browser
        with open(results, encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines]
        finished = {r["id"]: r for r in records if r["type"] == "case"}
        started = {r["id"]: r for r in records if r["type"] == "start"}
        self.cases = list({**started, **finished}.values())
        browser.set_window_size(WIDTH, 900)
        browser.get("file://" + path)

    def all(self, css):
        return self.browser.find_elements(By.CSS_SELECTOR, css)

    def texts(self, css):
        return [e.get_attribute("textContent") for e in self.all(css)]

    def run(self, script):
        return self.browser.execute_script(script)

    def key(self, *keys):
        self.browser.switch_to.active_element.send_keys(*keys)

    def eventually(self, holds, why=lambda: ""):
        """Within two seconds: Chart.js notices a new width by and by."""
        end = time.monotonic() + 2
        while not holds() and time.monotonic() < end:
            time.sleep(0.05)
        assert holds(), why()

    def rows(self):
        return self.texts("#table tbody tr")


def status(case):
    return case.get("status", "UNFINISHED")


def told(case):
    """The page says why the case did not pass. What a candidate does not claim stands in one line of the totals."""
    return status(case) != "PASS" and "unclaimed" not in case


def check_silence(page):
    """The page loads nothing, and its script ends without an error."""
    assert page.run("return performance.getEntriesByType('resource').length") == 0
    assert page.browser.get_log("browser") == []
    assert page.run("return window.hacked") is None


def check_sections(page):
    """Each section has a heading and content, and each link of the page leads to a place on it."""
    assert page.all("main section")
    for section in page.all("main section"):
        assert len(section.find_elements(By.CSS_SELECTOR, ":scope > :not(h2)")) > 0, section.get_attribute("id")
    targets = [a.get_attribute("href").split("#")[1] for a in page.all("a")]
    assert len(targets) >= len(page.all("main section"))
    for target in targets:
        assert page.run(f"return document.getElementById({json.dumps(target)}) !== null"), target


def check_head(page):
    """The headline has the counts; what did not pass comes before everything else, if anything did not."""
    count = sum(status(c) == "PASS" for c in page.cases)
    assert f"{count} passed" in page.texts("#headline")[0], page.texts("#headline")
    first = page.all("main section")[0].get_attribute("id")
    assert (first == "causes") == any(map(told, page.cases)), first


def check_causes(page):
    """Every status but PASS is among the causes, FAIL first, and each cause has a command to paste."""
    statuses = page.texts("#causes article strong")
    assert set(statuses) == {status(c) for c in page.cases if told(c)}, statuses
    assert "FAIL" not in statuses or statuses[0] == "FAIL"
    repros = {c["repro"] for c in page.cases}
    assert len(page.all("#causes article")) == len(statuses)
    for repro in page.texts("#causes article .command pre"):
        assert repro in repros, repro


def check_printed(page):
    """A cause shows what the candidate printed in its first case, a line as a line."""
    firsts = page.run("return summary.causes.map((cause) => cases[cause.first].printed ?? [])")
    assert page.texts("#causes article .printed") == ["\n".join(lines) for lines in firsts if lines]


def check_maps(page):
    """A cause whose cases have wrong bytes has maps, with as many coloured cells as have a wrong byte in any case."""
    causes = page.run("return summary.causes.map((cause) => cases.filter((_, i) => summary.cause_of[i] === cause.id))")
    wanted = []
    for mine in causes:
        sizes = collections.defaultdict(lambda: collections.defaultdict(list))
        for case in mine:
            if "page" in case:
                sizes[case["page"]["tensor"]][case["page"]["bytes"]].append(int(case["page"]["cells"], 16))
        tensors = sorted(sizes.values(), key=lambda by_size: -sum(map(len, by_size.values())))
        wanted += [functools.reduce(operator.or_, max(by_size.values(), key=len)).bit_count() for by_size in tensors[:3]]
    shown = page.run("""return [...document.querySelectorAll("#causes .map")].map((map) =>
        map.querySelectorAll(".wrong").length)""")
    assert shown == wanted, (shown, wanted)


def check_words(page):
    """Words of the head that the page explains say under the pointer what the place says to which they lead."""
    words = page.run("""return [...document.querySelectorAll("header a.word")].map((a) => [a.textContent, a.title,
        document.querySelector(a.getAttribute("href")).nextElementSibling.textContent])""")
    assert {"cells", "public seed", "controls"} <= {word for word, _, _ in words}, words
    assert all(title and title == " ".join(text.split()) for _, title, text in words), words


def check_sources(page):
    """A plot over groups of captured and of random data says which is which."""
    for label, names in page.run("""return charts.map((chart) => [chart.canvas.getAttribute("aria-label"),
            chart.data.labels?.length ? chart.data.labels : chart.scales.y.ticks.map((tick) => tick.label)])"""):
        if label not in ("Relative L2 error", "SQNR of K and V"):
            continue
        key = "relative_l2" if label.startswith("Rel") else "sqnr_db"
        shown = page.run(f"""return summary.groups.filter((g) => ["k", "v"].some((side) => {"number(g.relative_l2[side]) > 0"
            if key == "relative_l2" else "g.plain && Number.isFinite(number(g.sqnr_db[side]))"})).map((g) => g.data)""")
        for data in set(shown):
            count = sum(f"({data})" in name for name in names)
            assert count == (shown.count(data) if len(set(shown)) > 1 else 0), (label, data, names)


def check_search(page):
    """`/` goes to the search, words choose the cases that have them all, Escape shows all again."""
    Select(page.all("#status")[0]).select_by_value("all")
    word, other = page.cases[-1]["op"], page.cases[-1]["k_format"]
    page.all("h1")[0].click()
    page.key("/")
    page.key(f"{word} {other}")
    wanted = [c for c in page.cases if all(w in f"{c['id']} {c.get('detail', '')} {c.get('impl', '')}".lower()
                                            for w in (word, other))]
    assert page.texts("#shown") == [f"{min(200, len(wanted))} of {len(wanted)} shown"], page.texts("#shown")
    assert all(word in row and other in row for row in page.rows())
    page.key(Keys.ESCAPE)
    assert page.texts("#shown")[0].endswith(f" of {len(page.cases)} shown"), page.texts("#shown")


def check_more(page):
    """The button shows further cases until there are no more."""
    Select(page.all("#status")[0]).select_by_value("all")
    for _ in range(0, len(page.cases), 200):
        if page.all("#more")[0].is_displayed():
            page.all("#more")[0].send_keys(Keys.ENTER)
    assert len(page.rows()) == len(page.cases), len(page.rows())


def check_filter(page):
    """The list of statuses, moved by keys, shows the cases of one status."""
    statuses = Select(page.all("#status")[0])
    assert {o.get_attribute("value") for o in statuses.options} - {"all", "bad"} == {status(c) for c in page.cases}
    page.all("#status")[0].send_keys(Keys.END)
    chosen = statuses.first_selected_option.get_attribute("value")
    count = sum(status(c) == chosen for c in page.cases)
    assert page.texts("#shown")[0].endswith(f" of {count} shown"), (chosen, page.texts("#shown"))


def check_plots(page):
    """Measured round trips have plots: each format has a dot with its error."""
    groups = page.run("return summary.groups")
    lossy = [g for g in groups if isinstance(g["relative_l2"]["k"], (int, float)) and g["relative_l2"]["k"] > 0]
    data = page.run("""return charts.map((chart) => [chart.canvas.getAttribute("aria-label"),
        chart.data.datasets.map((set) => set.data.length)])""")
    sizes = dict(data)
    assert bool(lossy) == ("Relative L2 error" in sizes), sizes
    if lossy:
        assert sizes["Relative L2 error"][0] == len(lossy), (sizes, len(lossy))
    assert all(sum(counts) > 0 for counts in sizes.values()), sizes


def check_coverage(page):
    """A strip has as many blue cells as codes were seen."""
    for group in page.run("return summary.groups.filter((g) => g.reach && g.reach.codes_of <= 16)")[:3]:
        seen = bin(int(group["reach"]["code_set"], 16)).count("1")
        strips = page.run(f"""return [...document.querySelectorAll("#coverage tr")]
            .filter((tr) => tr.cells[0].textContent === {json.dumps(group["storage"])} && tr.querySelector(".strip"))
            .map((tr) => tr.querySelector(".strip").querySelectorAll(".hit").length)""")
        assert strips == [seen], (group["storage"], strips, seen)


def check_looks(page):
    """There is a look for each format. Each has its colour, which can be told on both backgrounds, and its shape; series
    of one plot have different shapes, and the legend shows them."""
    def light(colour):
        parts = bytes.fromhex(colour[1:]) if colour[0] == "#" else [int(x) for x in re.findall(r"\d+", colour)]
        return sum(w * (x / 3294.6 if x <= 10 else ((x / 255 + 0.055) / 1.055) ** 2.4)
                   for w, x in zip((0.2126, 0.7152, 0.0722), parts))

    shape = "(set) => [set.pointStyle ?? 'circle', set.rotation ?? 0, set.backgroundColor === 'transparent']"
    looks = page.run(f"return LOOKS.map((look) => [look.borderColor, ({shape})(look)])")
    assert len(looks) >= Page.formats, len(looks)
    for of in (0, 1):
        assert len({str(look[of]) for look in looks}) == len(looks), of
    for colour, _ in looks:
        for background in BACKGROUNDS.values():
            dark, bright = sorted((light(colour), light(background)))
            assert (bright + 0.05) / (dark + 0.05) >= 2.95, (colour, background)  # 3, and the rounding of a colour
    for label, sets, legend in page.run(f"""return charts.filter((chart) => chart.config.type === "scatter").map((chart) =>
            [chart.canvas.getAttribute("aria-label"), chart.data.datasets.filter((set) => set.pointRadius).map({shape}),
             chart.legend.legendItems.filter((item) => chart.data.datasets[item.datasetIndex].pointRadius)
                 .sort((a, b) => a.datasetIndex - b.datasetIndex)
                 .map((item) => [item.pointStyle ?? "circle", item.rotation ?? 0, item.fillStyle === "transparent"])])"""):
        assert len(set(map(str, sets))) == len(sets), (label, sets)
        assert legend == sets, (label, legend, sets)


def check_left_out(page):
    """Where a plot, a list or the maps of a cause are not all, a sentence says how many of how many are shown."""
    said = dict(page.run("""return charts.map((chart) => [chart.canvas.getAttribute("aria-label"),
        chart.canvas.closest("figure").querySelector("figcaption p").textContent])"""))
    shown = dict(page.run("""return charts.map((chart) => [chart.canvas.getAttribute("aria-label"),
        {sets: chart.data.datasets.length, dots: chart.data.datasets[0].data.length}])"""))
    measured = sum(c.get("fill") != "exact" and ("k" in c or "v" in c) for c in page.cases)
    texts, plain = sum("quality" in c for c in page.cases), page.run("return summary.groups.filter((g) => g.plain).length")
    captured = collections.defaultdict(set)
    for case in page.cases:
        for side in "kv":
            if (side in case and case["k_format"] == case["v_format"] and
                    case["k_dialect"] == case["v_dialect"] == "canonical"):
                captured[case.get(f"capture_{side}", "").split(".")[-1]].add(case["k_format"])
    wanted = {"Error against its bound": ("dots", measured, "cases"), "SQNR of K and V": ("dots", plain, "formats"),
              "KL divergence": ("dots", texts, "cases"), "KL divergence by context": ("sets", texts, "cases"),
              "KL divergence against memory": ("sets", texts, "cases"),
              "SQNR by layer: V": ("sets", len(captured["v"]), "formats"),
              "SQNR by layer: K before RoPE": ("sets", len(captured["k_pre"]), "formats"),
              "SQNR by layer: K after RoPE": ("sets", len(captured["k_post"] | captured["k"]), "formats")}
    for label in said.keys() & wanted.keys():
        of, count, noun = wanted[label]
        sentences = re.findall(r"(\d+) of (\d+) (\w+) are shown\.", said[label])
        assert sentences == ([(str(shown[label][of]), str(count), noun)] if shown[label][of] < count else []), (
            label, sentences, shown[label], count)
    for lists, ops, layouts, formats in page.run("""return summary.causes.map((cause, i) => {
            const mine = cases.filter((_, i) => summary.cause_of[i] === cause.id);
            return [document.querySelectorAll("#causes article")[i].querySelector(":scope > .dim")?.textContent,
                ...["op", "layout", "storage"].map((key) => new Set(mine.map((c) => c[key])).size)]; })"""):
        for part, count in zip((lists or "").split("; "), (ops, layouts, formats)):
            more = re.search(r" and (\d+) others$", part)
            assert not lists or part.count(", ") + 1 + int(more[1] if more else 0) == count, (part, count)
    for left, tensors, maps in page.run("""return summary.causes.map((cause, i) => {
            const mine = cases.filter((c, i) => summary.cause_of[i] === cause.id && c.page);
            const article = document.querySelectorAll("#causes article")[i];
            return [article.querySelector(".left-out").textContent, new Set(mine.map((c) => c.page.tensor)).size,
                article.querySelectorAll(".map").length]; })"""):
        assert (f"{maps} of {tensors} tensors are shown." in left) == (maps < tensors), (left, maps, tensors)


def check_tables(page):
    """A table that is wider than its place says so, on a phone and on a wide screen."""
    def holds():
        return page.run("""return [...document.querySelectorAll(".wide")].filter((wide) =>
            (wide.scrollWidth > wide.clientWidth) !== (getComputedStyle(wide, "::before").content !== "none")).length""") == 0
    page.eventually(holds)
    with phone(page):
        page.eventually(holds)


@contextlib.contextmanager
def phone(page):
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                 {"width": PHONE, "height": 740, "deviceScaleFactor": 1, "mobile": True})
    try:
        yield
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def check_phone(page):
    """On a phone nothing is wider than the screen, but for tables that scroll by themselves, and plots name each bar."""
    with phone(page):
        page.eventually(lambda: page.run("return document.documentElement.scrollWidth") <= PHONE)
        page.eventually(lambda: page.run("""return charts.filter((chart) => chart.data.labels?.length &&
            chart.scales.x.ticks.length !== chart.data.labels.length).length""") == 0)


def check_labels(page):
    """On a phone the labels of plots have room and do not overlap, the legend stands above the plot and within it, and
    half of the width is left for the plot itself."""
    script = """
        const bad = [];
        for (const chart of charts) {
          const { ctx, width, chartArea: area, legend } = chart, { x, y } = chart.scales;
          const say = (what) => bad.push([chart.canvas.getAttribute("aria-label"), what]);
          const wide = (scale) => {
            ctx.font = Chart.helpers.toFont(scale.options.ticks.font).string;
            return scale.ticks.map((tick) => ctx.measureText(tick.label).width);
          };
          const near = (scale) => {
            const at = scale.ticks.map((tick, i) => [tick.label, scale.getPixelForTick(i)]).filter(([label]) => label !== "");
            return Math.min(...at.slice(1).map(([, pixel], i) => Math.abs(pixel - at[i][1])));
          };
          const { mirror } = y.options.ticks;
          if (Math.max(...wide(y)) > (mirror ? width - y.right : y.width)) say("names are cut");
          if (near(y) < (mirror ? 30 : 12)) say("names overlap");
          const turned = Math.abs(Math.sin(x.labelRotation * Math.PI / 180));
          if (near(x) < (turned ? 11 / turned : Math.max(...wide(x)))) say("labels of x overlap");
          if (legend.legendHitBoxes.some((box) => box.left < 0 || box.left + box.width > width)) say("the legend is cut");
          if (legend.bottom > area.top) say("the legend covers the plot");
          if (area.right - area.left < width / 2) say("the plot is narrow");
          if (area.bottom - area.top < (y.options.afterBuildTicks ? 24 * y.ticks.length : 200)) say("the plot is low");
        }
        return bad;"""
    with phone(page):
        page.eventually(lambda: page.run(script) == [], lambda: page.run(script))


def check_dark(page):
    """A dark scheme makes the page dark, and the plots' text bright, with that of their axes; lines get its colour."""
    looks = {"dark": [BACKGROUNDS["dark"], "#e6e9ed", []], "light": [BACKGROUNDS["light"], "#1c2128", []]}
    for scheme, look in looks.items():
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                     {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        page.eventually(lambda: page.run("""return [getComputedStyle(document.body).backgroundColor,
            Chart.defaults.color, charts.flatMap((chart) => Object.values(chart.scales).map((scale) => scale.options))
                .filter(({ticks, title, grid}) => ticks.color !== Chart.defaults.color || title.color !== ticks.color ||
                    grid.color !== getComputedStyle(document.documentElement).getPropertyValue("--line").trim())
                .map(({ticks, title, grid}) => [ticks.color, title.color, grid.color])]""") == look)


CHECKS = [check_silence, check_sections, check_head, check_causes, check_printed, check_maps, check_words, check_sources,
          check_search, check_more, check_filter, check_plots, check_looks, check_left_out, check_coverage, check_tables, check_phone, check_labels,
          check_dark]

# Ways to break a page: a text of it, what stands there instead, and the check that must notice.
BROKEN = [
    ("// A section without content goes.", "new Image().src = 'file:///nowhere.png';", check_silence),
    ("if (draw() === 0) find(id).remove();", "if (draw() === 0) find(id).replaceChildren(element('h2', {}, id));",
     check_sections),
    ('<section id="causes">', '<section id="before"><h2>x</h2><p>x</p></section><section id="causes">', check_head),
    ("for (const cause of summary.causes) {", "for (const cause of summary.causes.slice(1)) {", check_causes),
    ('c.printed.join("\\n")', "c.printed[0]", check_printed),
    ("hasCode(c.page.cells, i)", "hasCode(c.page.cells, i) && i > 0", check_maps),
    ("title, class: ", 'title: "?", class: ', check_words),
    ("mixed && g.data ?", "false ?", check_sources),
    ("words.every(", "words.some(", check_search),
    ("limit += STEP; draw();", "draw();", check_more),
    ("|| status(c) === value ||", "|| status(c) !== value ||", check_filter),
    ('points("K", K_COLOUR, side("k"))', 'points("K", K_COLOUR, side("k").slice(1))', check_plots),
    ('class: hit ? "hit" : "miss"', 'class: "miss"', check_coverage),
    (".wide { overflow-x: auto }", "", check_phone),
    ('scale.grid.color = colour("--line");', "", check_dark),
    ('addEventListener("change", colourCharts)', 'addEventListener("change", () => 0)', check_dark),
]

BROKEN += [
    ("target.classList.toggle(", "0 && target.classList.toggle(", check_tables),
    ("` and ${all.length - MOST} others`", '" and others"', check_left_out),
    ('shownOf(sizes.length, tensors.length, "tensors")', '""', check_left_out),
]

# The same of a page with plots of many formats, of which the plot of bounds shows few cases.
FEW = ("MOST = 150", "MOST = 5")
BROKEN_PLOTS = [
    ("ticks: { autoSkip: false, maxRotation: 90 } }, y: axis", "}, y: axis", check_phone),
    ("autoSkip: false, maxRotation: 90", "autoSkip: false, maxRotation: 0", check_labels),
    ("mirror: above, labelOffset", "labelOffset", check_labels),
    ("? width : width / 2) - MARGIN", "? width : width / 2)", check_labels),
    ("--named-row: 36px", "--named-row: 20px", check_labels),
    ("usePointStyle: true", "usePointStyle: true, font: { size: 60 }", check_labels),
    ("36px; height: 520px", "36px; height: 220px", check_labels),
    ('"#046bac", "#e7711b"', '"#046bac", "#046bac"', check_looks),
    ('"#046bac", "#e7711b"', '"#046bac", "#f7f711"', check_looks),
    ('["rectRot", 0], ["triangle", 0], ', '["rect", 0], ["triangle", 0], ', check_looks),
    ('"#b274fe", "#959595"]', "]", check_looks),
    ("...look(formats.indexOf(format)), ", "borderColor: look(formats.indexOf(format)).borderColor, ", check_looks),
    ('${shownOf(dots.length, all, "cases")}', "", check_left_out),
    ('shownOf(shown.length, lines.length, "formats")', '""', check_left_out),
    ('${shownOf(bars.length, plain.length, "formats")}', "", check_left_out),
]

# The same of a page with generated text.
BROKEN_TEXT = [
    ('${shownOf(judged.length, all.length, "cases")}', "", check_left_out),
    ('shownOf(plain.length, all.length, "cases")', '""', check_left_out),
]


def main():
    kvgold, configs = os.path.abspath(sys.argv[1]), os.path.join(os.path.dirname(__file__), "../../../configs")
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    counts = {True: 0, False: 0}

    def expect(holds, check, page):
        """Whether the check holds on the page, or, of a broken page, fails."""
        try:
            check(page)
            why = ""
        except AssertionError as error:
            why = str(error) or "assertion"
        good = (why == "") == holds
        counts[good] += 1
        if not good:
            print(f"FAILED: {check.__name__} on {page.browser.current_url}: {why or 'a broken page passes'}")

    listed = subprocess.run([kvgold, "list", "formats"], capture_output=True, text=True, check=True).stdout
    Page.formats = len(listed.splitlines()) - 1  # without the headings
    with tempfile.TemporaryDirectory() as folder:
        def report(name, config, *words):
            subprocess.run([kvgold, "check", os.path.join(configs, config), *words, "-o", os.path.join(folder, name)],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            return os.path.join(folder, name, "report.html"), os.path.join(folder, name, "results.jsonl")

        wrong = report("wrong", "ci_quick.json", "--backend", "defect:nibbles_swapped")
        right = report("right", "ci_formats.json", "--backend", "reference", "--shard", "1/4")
        text = report("text", "ci_generate.json", "--backend", "reference")
        hostile = os.path.join(folder, "hostile.jsonl"), os.path.join(folder, "hostile")
        with open(wrong[1], encoding="utf-8") as lines, open(hostile[0], "w", encoding="utf-8") as out:
            for line in lines:  # a name that would run a script, break a selector, or end the element that it stands in
                line = line.replace('"slow":', r'"printed":["canonical <b>","2nd\u2028 line"],"slow":')
                out.write(line.replace("canonical", r"</script><script>hacked = 1<!--\"'&\u2028"))
        subprocess.run([kvgold, "report", hostile[0], "-o", hostile[1]], stdout=subprocess.DEVNULL, check=False)
        hostile = os.path.join(hostile[1], "report.html"), hostile[0]
        few = os.path.join(folder, "few.html"), right[1]
        with open(right[0], encoding="utf-8") as page, open(few[0], "w", encoding="utf-8") as out:
            out.write(page.read().replace(*FEW))
        for page, results in (wrong, right, few, text, hostile):
            for check in CHECKS:
                expect(True, check, Page(browser, page, results))
        broken = os.path.join(folder, "broken.html")
        for (path, results), changes in ((hostile, BROKEN), (few, BROKEN_PLOTS), (text, BROKEN_TEXT)):
            with open(path, encoding="utf-8") as page:
                good = page.read()
            for old, new, check in changes:
                assert good.count(old) == 1, old
                with open(broken, "w", encoding="utf-8") as page:
                    page.write(good.replace(old, new))
                expect(False, check, Page(browser, broken, results))
    browser.quit()
    print(f"{counts[True]} passed, {counts[False]} failed")
    return counts[False] > 0


if __name__ == "__main__":
    sys.exit(main())
