#!/usr/bin/env python3
"""Makes the figures of the docs. Their bytes, and the places of bytes, are the program's own output.

usage: make_figures.py [--check] KVGOLD

--check compares with the files that are there and exits with 1 where one differs.
"""
import json
import os
import re
import struct
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
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        ' font-family="monospace" font-size="13">',
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


INK, LINE, PALE, WHITE = "#1f2328", "#57606a", "#f6f8fa", "#ffffff"
BLUE, ORANGE, GREEN, YELLOW = "#ddf4ff", "#ffe2c6", "#dafbe1", "#fff8c5"
MONO, BOLD, SMALL = ' font-family="monospace"', ' font-weight="bold"', ' font-size="12"'


class Drawing:
    """An SVG on a white ground. Places and sizes are pixels; a text's y is its base line."""

    def __init__(self, title, width, height):
        self.svg = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            f' role="img" font-family="Helvetica, Arial, sans-serif" font-size="13" fill="{INK}">',
            f"<title>{escape(title)}</title>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8"'
            f' orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{LINE}"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="{WHITE}"/>',
        ]

    def text(self, x, y, words, anchor="start", style=""):
        """`style`: further attributes, each with a space before it."""
        self.svg.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{style}>{escape(words)}</text>')

    def box(self, x, y, width, height, lines=(), fill=PALE, style="", dashed=False):
        """A rectangle with its lines in the middle, the first one bold where there are several."""
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        rect = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3"'
        self.svg.append(f'{rect} fill="{fill}" stroke="{LINE}"{dashes}/>')
        for number, line in enumerate(lines):
            bold = BOLD if number == 0 and len(lines) > 1 else ""
            middle = y + height / 2 + 5 + 17 * (number - (len(lines) - 1) / 2)
            self.text(x + width / 2, middle, line, "middle", bold + style)

    def line(self, *points, arrow=True, dashed=False):
        """A line through the points, with its arrow's head at the last one."""
        places = " ".join(f"{x:g},{y:g}" for x, y in points)
        more = (' marker-end="url(#head)"' if arrow else "") + (' stroke-dasharray="5 4"' if dashed else "")
        self.svg.append(f'<polyline points="{places}" fill="none" stroke="{LINE}" stroke-width="1.5"{more}/>')

    def done(self):
        return "\n".join(self.svg + ["</svg>", ""])


def probe(kvgold, case, files=()):
    """What `kvgold probe` says of every token and head of a case: {(token, head, "K codes"): (pool, byte, bytes)}."""
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "figure.json"
        config.write_text(json.dumps({"kvgold": 1, "name": "figure", "seed": "0x1", "cases": [case]}), encoding="utf-8")
        for name, content in files:
            (Path(folder) / name).write_bytes(content)
        for token in range(case["tokens"]):
            for head in range(case["kv_heads"]):
                command = [kvgold, "probe", config, "--token", str(token), "--head", str(head)]
                text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                for part, pool, byte, found in re.findall(r"(?m)^([KV] \w+) +(\w+) +byte +(\d+): (.*)$", text):
                    rows[token, head, part] = (pool, int(byte), bytes.fromhex(found))
    return rows


def spine(_):
    """The way of a case through the processes."""
    d = Drawing("The spine of a check: from the config to the reports", 880, 444)
    lanes = ((12, 112, 18, "parent"), (136, 192, 18, "judge"), (340, 92, 300, "candidate's process"))
    for y, height, x, name in lanes:
        d.box(8, y, 864, height, fill=WHITE)
        d.text(x, y + 20, name, style=BOLD)
    d.box(20, 44, 122, 66, ["config", "JSON: axes and", "their values"])
    d.box(164, 44, 122, 66, ["cases", "one of each", "combination"])
    d.box(594, 44, 122, 66, ["results.jsonl", "one line", "for each case"], GREEN)
    d.box(738, 44, 122, 66, ["reports", "table, HTML,", "JUnit"], GREEN)
    steps = [
        (["question", "inputs by seed", "and case id;", "outputs as noise"], BLUE),
        (["answers", "copied; guards", "and inputs", "compared"], BLUE),
        (["truth", "the reference;", "for op decode", "exact numbers"], YELLOW),
        (["verdict", "bytes compared,", "values held to", "their bound"], YELLOW),
        (["known-wrong", "answers: none", "may pass, else", "MISTRUSTED"], YELLOW),
        (["result line", "verdict, detail,", "controls,", "repro line"], GREEN),
    ]
    left = [20 + 143.6 * number for number in range(len(steps))]
    for x, (lines, fill) in zip(left, steps):
        d.box(x, 204, 122, 84, lines, fill)
    for x in left[1:-1]:
        d.line((x + 122, 246), (x + 143.6, 246))
    d.line((142, 77), (164, 77))
    d.line((225, 110), (225, 180), (81, 180), (81, 204))
    d.line((799, 204), (799, 148), (655, 148), (655, 110))
    d.line((716, 77), (738, 77))
    d.box(20, 356, 266, 60, ["candidate", "the implementation under test"], ORANGE)
    d.line((81, 288), (81, 356))
    d.line((225, 356), (225, 288))
    d.line((204, 288), (204, 312), (102, 312), (102, 288), dashed=True)
    d.text(300, 386, "The judge forks it before it computes anything.")
    d.text(300, 408, "Tensors go there and back as copies in shared memory.")
    d.text(300, 318, "Dashed: relations ask the same question in other ways.")
    d.line((296, 156), (296, 298), arrow=False)
    d.text(304, 170, "The right answer is computed only after all answers")
    d.text(304, 188, "of the case have been copied.")
    return d.done()


def nvfp4_block(kvgold):
    """Block A of docs/spec/formats.md section 10, in a capture that the program quantises."""
    values = [0.25, -0.25, 0.75, -0.75, 1.25, 1.75, 2.5, -3.5, 5, 6, -6, 0.0, -0.0, 0.5, -0.125, 4]
    data = b"".join(struct.pack("<f", value) for value in values)
    tensor = {"dtype": "F32", "shape": [1, 1, 16], "data_offsets": [0, 64]}
    header = json.dumps({"k": tensor, "v": {**tensor, "data_offsets": [64, 128]}}).encode()
    capture = struct.pack("<Q", len(header)) + header + data + data
    case = {
        "op": "append", "format": "nvfp4", "layout": "contiguous", "dtype": "bf16", "kv_heads": 1, "head_dim": 16,
        "tokens": 1, "block_tokens": 1, "blocks": 1, "sequences": 1, "scale": {"k": 20 / 448, "v": 20 / 448},
        "fill": {"capture": "capture.safetensors", "k": "k", "v": "v"},
    }
    rows = probe(kvgold, case, [("capture.safetensors", capture)])
    codes, scale = rows[0, 0, "K codes"][2], rows[0, 0, "K scales"][2][0]
    block_scale = (1 + scale % 8 / 8) * 2.0 ** (scale // 8 - 7)
    tensor_scale = struct.unpack("<f", struct.pack("<f", 20 / 448))[0]
    magnitudes = [0, 0.5, 1, 1.5, 2, 3, 4, 6]

    d = Drawing("One block of nvfp4: 16 values, 8 code bytes, a block scale and the tensor scale", 880, 332)
    left, width = 112, 47
    for y, name in ((40, "value"), (86, "code"), (106, "code's value"), (160, "code byte"), (270, "decoded")):
        d.text(12, y, name, style=BOLD)
    for j, byte in enumerate(codes):
        for odd, code in enumerate((byte & 15, byte >> 4)):
            i = 2 * j + odd
            middle, fill = left + width * i + width / 2, ORANGE if odd else BLUE
            element = (-1 if code & 8 else 1) * float(magnitudes[code & 7])
            d.text(middle, 20, f"{i}", "middle", SMALL)
            d.text(middle, 40, f"{values[i]:g}", "middle", MONO + SMALL)
            d.line((middle, 46), (middle, 66))
            d.box(middle - 15, 68, 30, 24, [f"{code:X}"], fill, MONO)
            d.text(middle, 108, f"{element:g}", "middle", MONO)
            x = left + width * (2 * j + 1) + (-26 if odd else 0)
            d.line((middle, 114), (x + 13, 140))
            d.box(x, 142, 26, 26, [f"{code:X}"], fill, MONO)
            d.text(middle, 270, f"{element * block_scale * tensor_scale:.3g}", "middle", MONO + SMALL)
        d.text(left + width * (2 * j + 1), 186, f"byte {j}", "middle", SMALL)
    d.text(12, 226, "block scale", style=BOLD)
    d.box(left, 208, 40, 26, [f"{scale:02X}"], GREEN, MONO)
    d.text(left + 50, 226, f"E4M3 byte: {block_scale:g}")
    d.text(330, 226, "tensor scale", style=BOLD)
    d.box(430, 208, 110, 26, [f"{tensor_scale:.7f}"], YELLOW, MONO)
    d.text(550, 226, "FP32, one for all of K, and one for all of V")
    d.box(left, 288, 14, 14, fill=ORANGE)
    d.text(left + 20, 300, "odd element: high nibble")
    d.box(left + 200, 288, 14, 14, fill=BLUE)
    d.text(left + 220, 300, "even element: low nibble")
    d.text(left + 420, 300, "byte j = code(2j+1) << 4 | code(2j)", style=MONO)
    d.text(left, 322, "decoded = code's value \u00d7 block scale \u00d7 tensor scale, here to three digits")
    return d.done()


def layouts(kvgold):
    """One block of each layout; layouts that put all rows at the same places share a line."""
    lines = {}
    for name in "turbomind turbomind:int4 trtllm nhd slot hnd contiguous ring vllm vllm_hnd mla".split():
        layout, _, other = name.partition(":")
        case = {
            "op": "flatten", "format": other or "nvfp4", "layout": layout, "dtype": "bf16", "kv_heads": 2,
            "head_dim": 32, "tokens": 2, "block_tokens": 2, "blocks": 1, "layers": 1, "sequences": 1, "fill": "random",
        }
        if layout == "mla":
            case.update(kv_heads=1, shared_kv={"v_first": 0, "v_dim": 16})
        rows = probe(kvgold, case)
        places = tuple(sorted((pool, byte, part, token, head) for (token, head, part), (pool, byte, _) in rows.items()))
        lines.setdefault(places, []).append(f"{layout} ({other})" if other else layout)
        if name == "nhd":
            sizes = {part: len(found) for (_, _, part), (_, _, found) in rows.items()}

    d = Drawing("The rows of one block in each paged layout", 880, 72 + 92 * len(lines))
    codes, scales = sizes["K codes"], sizes["K scales"]
    d.text(12, 24, "One block of one layer: 2 tokens (t0, t1), 2 heads (h0, h1), D = 32. "
           f"A row of nvfp4 has {codes} code bytes and {scales} scale bytes.")
    fills = {"K codes": BLUE, "K scales": GREEN, "V codes": ORANGE, "V scales": YELLOW}
    for number, (part, fill) in enumerate(fills.items()):
        d.box(12 + 100 * number, 38, 14, 14, fill=fill)
        d.text(32 + 100 * number, 50, part)
    d.text(420, 50, "Below each row: its first byte in its pool. Widths are not to scale.")
    for number, (places, names) in enumerate(lines.items()):
        y, x, last = 84 + 92 * number, 12, None
        d.text(12, y, ", ".join(names), style=BOLD)
        for pool, byte, part, token, head in places:
            if pool != last:
                x += 10 if last else 0
                d.text(x, y + 18, pool, style=MONO + SMALL)
                last = pool
            d.box(x, y + 24, 51, 26, [f"t{token} h{head}"], fills[part], MONO)
            d.text(x + 25, y + 64, f"{byte}", "middle", MONO + SMALL)
            x += 51
    return d.done()


def decode_tree(_):
    """Tiles, leaves and nodes of a sequence; the sizes are those that the contract states for mma16816.v1."""
    page = Path("docs/spec/decode-contract.md").read_text(encoding="utf-8")
    leaf = int(re.search(r"`mma16816.v1` \| (\d+) positions", page).group(1))
    tile = int(re.search(r"\*tile\* is positions (\d+)i", page).group(1))
    length = 1100
    leaves = (length + leaf - 1) // leaf
    levels = (leaves - 1).bit_length()

    d = Drawing(f"The sums of the decode contract for a row that sees {length} positions", 880, 300 + 74 * levels)
    d.text(12, 24, f"A row that sees positions 0 to {length - 1}. merge(left, right): left has the smaller positions.")
    top, width, gap = 44, 150, 172

    def place(level, node):
        """Middle of the node's box, and its upper edge."""
        first, last = node << level, min(leaves, node + 1 << level) - 1
        return 12 + width / 2 + gap * (first + last) / 2, top + 74 * (levels - level)

    for level in range(levels, -1, -1):
        for node in range((leaves - 1 >> level) + 1):
            x, y = place(level, node)
            children = [child for child in (2 * node, 2 * node + 1) if level and child << level - 1 < leaves]
            for child in children:
                d.line(place(level - 1, child), (x, y + 44))
            positions = f"{leaf * node} to {min(length, leaf * (node + 1)) - 1}"
            how, fill = ((positions, BLUE), ("its only child", PALE), ("merge(left, right)", GREEN))[len(children)]
            what = "root" if level == levels else f"node {node} of level {level}" if level else f"leaf {node}"
            d.box(x - width / 2, y, width, 44, [what, how], fill)

    y = place(0, 0)[1] + 44
    number = leaves - 1
    first, x = leaf * number // tile, 118
    middle = place(0, number)[0]
    d.line((middle, y + 30), (middle, y))
    d.box(12, y + 30, 856, 170, fill=WHITE, dashed=True)
    d.text(24, y + 52, f"Leaf {number}: its tiles of {tile} positions, in order, from the state EMPTY", style=BOLD)
    d.box(24, y + 80, 72, 44, ["EMPTY"])
    for i in range(first, (length - 1) // tile + 1):
        d.line((x - 22, y + 102), (x, y + 102))
        d.box(x, y + 62, 188, 80, [f"tile {i}", f"{tile * i} to {min(length, tile * (i + 1)) - 1}", ""], BLUE)
        for half in (0, 1):
            d.box(x + 8 + 88 * half, y + 114, 84, 22, [f"sum of {tile // 2}"], WHITE)
        x += 210
    d.line((x - 22, y + 102), (x, y + 102))
    d.box(x, y + 80, 96, 44, ["state", "m, l, o"], GREEN)
    words = f"A tile: the largest of its {tile} scores, then m, l and o rescaled where the contract asks for it, "
    d.text(24, y + 166, words + "then for l and each o[d]")
    d.text(24, y + 186, f"two sums of {tile // 2} products in turn. Tiles that no row sees change nothing.")
    return d.done()


def containment(_):
    """Who reads what while a candidate runs, in namespaces."""
    d = Drawing("How a candidate is contained", 880, 426)
    d.box(540, 12, 328, 402, fill=WHITE, dashed=True)
    d.text(554, 36, "user, pid and mount namespaces", style=BOLD)
    gone = ("no capabilities, and no way to get one", "sight of its own processes alone", "empty /dev/shm",
            "/dev/null in the place of results.jsonl")
    for row, words in enumerate(gone):
        d.text(554, 60 + 21 * row, words)
    d.box(12, 12, 250, 98, ["parent", "reads the config,", "writes results.jsonl,", "never opens a library"])
    judge = ["judge", "makes the inputs,", "copies the answers,", "then computes what is right",
             "in memory of its own,", "never opens a library"]
    d.box(12, 190, 250, 144, judge, YELLOW)
    d.box(330, 190, 170, 62, ["shared memory", "tensors of one case"], BLUE)
    d.box(330, 272, 170, 62, ["socket", "calls and replies"], BLUE)
    candidate = ["candidate's process", "opens the library and runs it;", "its tensors lie between",
                 "unmapped pages, at addresses", "that are new in each case"]
    d.box(567, 190, 274, 144, candidate, ORANGE)
    d.line((60, 110), (60, 190))
    d.text(68, 154, "starts")
    d.line((200, 190), (200, 110))
    d.text(192, 154, "result lines", "end")
    d.line((235, 190), (235, 160), (704, 160), (704, 190))
    d.text(275, 152, "forks it before it computes anything")
    for y in (221, 303):
        for middle, left, right in ((296, 262, 330), (534, 500, 567)):
            d.line((middle, y), (left, y))
            d.line((middle, y), (right, y))
    d.text(554, 362, "It reads the files of its user and uses the GPU.")
    d.text(554, 384, "What it prints goes to its own log.")
    d.text(12, 368, "The candidate can neither read nor write the memory of judge")
    d.text(12, 388, "and parent, nor use their descriptors, nor signal them.")
    return d.done()


def company(_):
    """One row, at home and in the company of axes of docs/spec/invariance.md. A cell is a token."""
    d = Drawing("One row, asked in other company", 880, 330)
    cell, gap = 17, 23
    own, other, row, blind = (BLUE, ""), (PALE, ""), (ORANGE, ""), (WHITE, "x")

    def tokens(x, y, cells):
        for i, (fill, mark) in enumerate(cells):
            d.box(x + cell * i, y, cell, cell, [mark] if mark else (), fill, SMALL)

    home = [own] * 7 + [row]
    panels = (
        ("home", [home], "alone, one query token"),
        ("batch", [home] * 3, "more requests"),
        ("neighbours", [home, [other] * 3, [other] * 12], "others of other lengths"),
        ("queries", [[own] * 3 + [row] * 5], "a prefill computes all rows at once"),
        ("chunks", [[own] * 4, [own] * 2, [own, row]], "a prefill, cut"),
        ("pages", [[(BLUE, n) for n in "56"] + [other] * 2 + [(BLUE, n) for n in "1234"] + [other, (BLUE, "7"), (ORANGE, "8")]],
         "its tokens lie elsewhere"),
        ("hidden", [[*home, blind, blind, blind]], "tokens that it does not see"),
        ("unowned", [[*home, *[(YELLOW, "?")] * 4]], "garbage in the rest of a page"),
    )
    for number, (name, rows, words) in enumerate(panels):
        x, y = 16 + 216 * (number % 4), 24 + 140 * (number // 4)
        d.text(x, y, name, style=BOLD)
        for line, cells in enumerate(rows):
            before = sum(map(len, rows[:line])) if name == "chunks" else 0
            tokens(x + cell * before, y + 10 + gap * line, cells)
        d.text(x, y + 100, words, style=SMALL)
    d.box(16, 296, cell, cell, fill=ORANGE)
    d.text(42, 310, "the row's own token", style=SMALL)
    d.box(216, 296, cell, cell, fill=BLUE)
    d.text(242, 310, "tokens that it sees", style=SMALL)
    d.box(416, 296, cell, cell, fill=PALE)
    d.text(442, 310, "company. Its bits must be the same in every panel", style=SMALL)
    return d.done()


FIGURES = (failing_report, spine, nvfp4_block, layouts, decode_tree, containment, company)


def main(arguments):
    check = "--check" in arguments
    kvgold = Path(arguments[-1]).resolve()
    os.chdir(Path(__file__).parents[2])
    stale = 0
    for figure in FIGURES:
        path = Path("docs/figures") / f"{figure.__name__}.svg"
        text = figure(kvgold)
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path}: not what the program prints: make it with docs/figures/make_figures.py {arguments[-1]}")
            stale += 1
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
