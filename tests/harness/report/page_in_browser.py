#!/usr/bin/env python3
"""usage: page_in_browser.py KVGOLD

Opens pages that `kvgold check` and `kvgold report` write in a headless Chromium, by ChromeDriver, and checks what a
reader finds there: by structure and by keyboard, no pixels. What a page must show is counted from its result file.
Each check then has to fail on a page that is broken on purpose. Prints a line per check that fails; the last line is
"N passed, N failed". Exit status: 0 all passed, 1 otherwise.
"""
import collections
import functools
import json
import operator
import os
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


class Page:
    """An open report, and the cases of its result file."""

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

    def eventually(self, holds):
        """Within two seconds: Chart.js notices a new width by and by."""
        end = time.monotonic() + 2
        while not holds() and time.monotonic() < end:
            time.sleep(0.05)
        assert holds()

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


def check_phone(page):
    """On a phone nothing is wider than the screen, but for tables that scroll by themselves, and plots name each bar."""
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                 {"width": PHONE, "height": 740, "deviceScaleFactor": 1, "mobile": True})
    try:
        page.eventually(lambda: page.run("return document.documentElement.scrollWidth") <= PHONE)
        page.eventually(lambda: page.run("""return charts.filter((chart) => chart.data.labels?.length &&
            chart.scales.x.ticks.length !== chart.data.labels.length).length""") == 0)
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def check_dark(page):
    """A dark scheme makes the page dark, and the plots' text bright, with that of their axes; lines get its colour."""
    looks = {"dark": ["rgb(20, 23, 27)", "#e6e9ed", []], "light": ["rgb(255, 255, 255)", "#1c2128", []]}
    for scheme, look in looks.items():
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                     {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        page.eventually(lambda: page.run("""return [getComputedStyle(document.body).backgroundColor,
            Chart.defaults.color, charts.flatMap((chart) => Object.values(chart.scales).map((scale) => scale.options))
                .filter(({ticks, title, grid}) => ticks.color !== Chart.defaults.color || title.color !== ticks.color ||
                    grid.color !== getComputedStyle(document.documentElement).getPropertyValue("--line").trim())
                .map(({ticks, title, grid}) => [ticks.color, title.color, grid.color])]""") == look)


CHECKS = [check_silence, check_sections, check_head, check_causes, check_printed, check_maps, check_words, check_sources, check_search, check_more,
          check_filter, check_plots, check_coverage, check_phone, check_dark]

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

# The same of a page with plots of many formats.
BROKEN_PLOTS = [("x: { ticks: { autoSkip: false } }, y: axis", "y: axis", check_phone)]


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
        for page, results in (wrong, right, text, hostile):
            for check in CHECKS:
                expect(True, check, Page(browser, page, results))
        broken = os.path.join(folder, "broken.html")
        for (path, results), changes in ((hostile, BROKEN), (right, BROKEN_PLOTS)):
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
