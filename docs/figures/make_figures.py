#!/usr/bin/env python3
"""Makes the figures of the docs from the program's own output.

usage: make_figures.py [--check] KVGOLD

--check compares with the files that are there and exits with 1 where one differs.
"""
import os
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

COLUMNS = 92
RUN = "check configs/ci_quick.json --backend defect:v_scales_of_k --no-html"
COLOURS = {"1;31": "#ff7b72", "32": "#7ee787", "0": "#c9d1d9"}


def on_terminal(command):
    """What `command` writes on a terminal of COLUMNS columns, without lines of progress."""
    shell = f"stty cols {COLUMNS}; TERM=xterm {command}"
    text = subprocess.run(["script", "-qec", shell, "/dev/null"], capture_output=True, text=True, check=False).stdout
    return re.sub(r"[^\n]*\x1b\[K", "", text.replace("\r\n", "\n"))


def wrapped(line):
    """Rows of COLUMNS characters, each a list of (colour, text)."""
    rows, row, used, colour = [], [], 0, COLOURS["0"]
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b"):
            colour = COLOURS[part[2:-1]]
            continue
        while part:
            piece, part = part[: COLUMNS - used], part[COLUMNS - used :]
            row.append((colour, piece))
            used += len(piece)
            if used == COLUMNS and part:
                rows, row, used = rows + [row], [], 0
    return rows + [row]


def terminal(lines):
    """An SVG of a terminal."""
    rows = [row for line in lines for row in wrapped(line)]
    width, height = 8 * COLUMNS + 32, 18 * len(rows) + 32
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="monospace" font-size="13">',
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
    ]
    for number, row in enumerate(rows):
        spans = "".join(f'<tspan fill="{colour}">{escape(piece)}</tspan>' for colour, piece in row)
        length = 8 * sum(len(piece) for _, piece in row)
        fit = f' textLength="{length}" lengthAdjust="spacingAndGlyphs"' if length else ""
        svg.append(f'<text x="16" y="{18 * number + 30}" xml:space="preserve"{fit}>{spans}</text>')
    return "\n".join(svg + ["</svg>", ""])


def failing_report(kvgold):
    """The end of a failing run: its first cause, and the counts."""
    with tempfile.TemporaryDirectory() as folder:
        lines = on_terminal(f"{kvgold} {RUN} -o {folder}").split("\n")
    first, second = [number for number, line in enumerate(lines) if re.match(r"\d+ cases \S*[A-Z]", line)][:2]
    counts = next(number for number, line in enumerate(lines) if re.search(r"\d+ passed, \d+ failed", line))
    return terminal([f"$ kvgold {RUN}", "..."] + lines[first:second] + ["..."] + lines[counts - 1 : counts + 1])


def main(arguments):
    check = "--check" in arguments
    kvgold = Path(arguments[-1]).resolve()
    os.chdir(Path(__file__).parents[2])
    stale = 0
    for name, figure in {"failing_report.svg": failing_report}.items():
        path = Path("docs/figures") / name
        text = figure(kvgold)
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path}: not what the program prints: make it with docs/figures/make_figures.py {arguments[-1]}")
            stale += 1
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
