#!/usr/bin/env python3
"""usage: ci/peers.py --packs DIR --out DIR [--kvgold PROGRAM] [--quick] [--only REGEX] [--seconds N]
       ci/peers.py --plan [--only REGEX]
       ci/peers.py --check --packs DIR

Times attention kernels of other projects (FlashAttention-3, FlashInfer and its XQA, FlashMLA), packed by `ci/peers
gpu`, on the first GPU and without a network, and kvgold's before and after them (PROGRAM: a command, in one word if it
has several).
Every row: a cold, clean L2 (four times its size is read before), work queued ahead of the GPU, medians between two
events, a plain read of the same bytes in turn with the peer. Where a peer takes several layouts or modes, all are timed
and the fastest counts. Its output is compared with a float64 reference on a sample of rows: relative error, the largest
of the sample; NaN or more than 0.15 is WRONG. What fails is listed as NOT RUN with the last line of its error and stops
nothing else.

Sections: A price of invariance in decode; B prefill of the last tokens of 32 Ki; C several query tokens; D decode of
three models; E decode of rows that K and V share. --only keeps the rows whose id (--plan prints them) matches.
--quick: five runs, one layout. --seconds: no row starts later than that (480). Writes peers.json, peers.md (a page of
docs/results), peers.log and what kvgold measured into the folder of --out. --plan prints rows, bytes and memory, and needs no GPU; --check loads every library of the packs. Exit status:
0; 1 a row is WRONG; 2 usage; 3 no packs, or no row could run.
"""
import argparse
import collections
import json
import os
import queue
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONFIG = os.path.join(ROOT, "configs", "bench_gpu_peers.json")
KERNELS = os.path.join(ROOT, "ci", "peers_kernels.py")
PYTHON = (3, 12)  # of the machine with the GPU
PACKS = "fa3.tar.xz", "flashinfer.tar.xz", "flashmla.tar.xz"
PAGE, MLA_PAGE = 16, 64  # FlashMLA takes no other
KI = 1024
FATAL = 9  # exit status of a process whose device is broken
START_SECONDS, ROW_SECONDS = 180, 60  # until a worker is held to hang
NO_TIME = "no time left"

Geometry = collections.namedtuple("Geometry", "name query_heads kv_heads head_dim sinks")
LLAMA_8B = Geometry("llama-3-8b", 32, 8, 128, False)
LLAMA_70B = Geometry("llama-3-70b", 64, 8, 128, False)
GPT_OSS = Geometry("gpt-oss", 64, 8, 64, True)
MLA_DIM, MLA_V_DIM = 576, 512  # of a row that K and V share, the first elements are V
MLA = [Geometry(f"mla-{heads}", heads, 1, MLA_DIM, False) for heads in (16, 64, 128)]

Peer = collections.namedtuple("Peer", "kind format splits contiguous")
PEERS = {
    "fa3 bf16": Peer("fa3", "bf16", "auto", False),
    "fa3 bf16 1 split": Peer("fa3", "bf16", "none", False),
    "fa3 bf16 contiguous": Peer("fa3", "bf16", "auto", True),
    "fa3 e4m3": Peer("fa3", "e4m3", "auto", False),
    "fi bf16": Peer("fi-fa2", "bf16", "auto", False),
    "fi bf16 fixed split": Peer("fi-fa2", "bf16", "fixed", False),
    "fi bf16 no split": Peer("fi-fa2", "bf16", "none", False),
    "fi e4m3": Peer("fi-fa2", "e4m3", "auto", False),
    "fi nvfp4": Peer("fi-fa2", "nvfp4", "auto", False),
    "fi-fa3 bf16": Peer("fi-fa3", "bf16", "auto", False),
    "fi-fa3 e4m3": Peer("fi-fa3", "e4m3", "auto", False),
    "xqa bf16": Peer("xqa", "bf16", "auto", False),
    "xqa e4m3": Peer("xqa", "e4m3", "auto", False),
    "flashmla bf16": Peer("flashmla", "bf16", "auto", False),
}
BYTES = {"bf16": 2.0, "e4m3": 1.0, "nvfp4": 0.5625}  # of an element, scales included
DECODE_PEERS = ["fa3 bf16", "fa3 bf16 contiguous", "fi bf16", "xqa bf16", "fa3 e4m3", "fi e4m3", "xqa e4m3", "fi nvfp4"]

Row = collections.namedtuple("Row", "section geometry batch tokens queries peer")


def row_id(row):
    return f"{row.section}/{row.geometry.name}/{row.batch}x{row.tokens}/q{row.queries}/{row.peer}"


def all_rows():
    """Those of one case side by side, and in it those of one format, which share their inputs."""
    cases = []
    for tokens in (4 * KI, 32 * KI, 128 * KI):
        for batch in (1, 4, 16, 64):
            cases.append(("A", LLAMA_70B, batch, tokens, 1,
                          ["fa3 bf16", "fa3 bf16 1 split", "fi bf16", "fi bf16 fixed split", "fi bf16 no split"]))
    for tokens, queries in ((4 * KI, 4 * KI), (32 * KI, 2 * KI), (32 * KI, 8 * KI)):
        cases.append(("B", LLAMA_70B, 1, tokens, queries,
                      ["fa3 bf16", "fa3 bf16 contiguous", "fa3 bf16 1 split", "fi-fa3 bf16", "fi bf16",
                       "fi bf16 fixed split", "fi bf16 no split", "fa3 e4m3", "fi-fa3 e4m3", "fi e4m3", "fi nvfp4"]))
    for queries in (1, 2, 4, 8):
        cases.append(("C", LLAMA_70B, 16, 32 * KI, queries,
                      ["fa3 bf16", "fa3 bf16 1 split", "fi bf16", "fi bf16 fixed split", "fi-fa3 bf16", "xqa bf16",
                       "fa3 e4m3", "fi e4m3", "xqa e4m3", "fi nvfp4"]))
    for geometry in (LLAMA_8B, LLAMA_70B, GPT_OSS):
        for batch, tokens in ((1, 4 * KI), (1, 32 * KI), (16, 32 * KI), (64, 32 * KI)):
            cases.append(("D", geometry, batch, tokens, 1, DECODE_PEERS))
    for geometry in MLA:
        cases.append(("E", geometry, 16, 32 * KI, 1, ["flashmla bf16"]))
    rows = []
    for section, geometry, batch, tokens, queries, peers in cases:
        for kind in BYTES:
            rows += [Row(section, geometry, batch, tokens, queries, p) for p in peers if PEERS[p].format == kind]
    return rows


def visible_pairs(row):
    """Pairs of query and key that are seen, of one head of one sequence: the queries are the last tokens."""
    before = row.tokens - row.queries
    return row.queries * before + row.queries * (row.queries + 1) // 2


def row_flops(row):
    return 4 * row.geometry.head_dim * row.geometry.query_heads * visible_pairs(row) * row.batch


def row_bytes(row):
    """K and V and their scales, once."""
    sides = 1 if row.geometry in MLA else 2
    elements = sides * row.batch * row.tokens * row.geometry.kv_heads * row.geometry.head_dim
    return int(elements * BYTES[PEERS[row.peer].format])


def has_sinks(row):
    return row.geometry.sinks and PEERS[row.peer].format != "nvfp4"  # no library of the packs does both


def last_line(error):
    """The last line of an error; of one of CUDA's, which go on with advice, the line that says so."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    cuda = [line for line in lines if "CUDA error" in line or "CUDA out of memory" in line]
    return f"{type(error).__name__}: {(cuda + lines[-1:] + [''])[0][:200]}"


# --- The run: kvgold, workers, kvgold -----------------------------------------------------------------------------

def unpack(packs, folder):
    """The packs that are there, unpacked into folder."""
    names = [n for n in (os.path.join(packs, p) for p in PACKS) if os.path.isfile(n)]
    for name in names:
        with tarfile.open(name, "r:xz") as archive:
            archive.extractall(folder, filter="data")
    return names


def environment(folder):
    """Of processes that import the packs: FlashInfer must compile nothing and fetch nothing."""
    paths = [os.path.join(folder, "site"), os.environ.get("PYTHONPATH", "")]
    return dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in paths if p),
                FLASHINFER_DISABLE_JIT="1", FLASHINFER_CUDA_ARCH_LIST="9.0a", FLASHINFER_WORKSPACE_BASE=folder,
                FLASHINFER_LOGGING_LEVEL="warning", FLASHINFER_DISABLE_VERSION_CHECK="1", PYTHONUNBUFFERED="1",
                TRITON_CACHE_DIR=os.path.join(folder, "triton"))


def start_worker(numbers, folder, quick, log):
    """The process and a queue of its lines; None is its end."""
    command = [sys.executable, KERNELS, folder] + (["--quick"] if quick else [])
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                               env=environment(folder))
    process.stdin.write(json.dumps(numbers))
    process.stdin.close()
    lines = queue.Queue()

    def read():
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return process, lines


def follow_worker(lines, deadline, take):
    """Gives take() every line, until it says that it was the last; else why there are no more."""
    patience = START_SECONDS
    while True:
        if time.monotonic() > deadline:
            return NO_TIME
        try:
            line = lines.get(timeout=max(1, min(patience, deadline + 5 - time.monotonic())))
        except queue.Empty:
            return NO_TIME if time.monotonic() > deadline else f"no answer within {patience} s"
        if line is None:
            time.sleep(1)  # until its status is known
            return "the process ended"
        patience = ROW_SECONDS
        if take(*json.loads(line)):
            return None


def run_workers(rows, numbers, folder, quick, log, deadline):
    """{number: result} and what a worker says of the machine. A worker that dies or hangs is replaced; a peer that did
    that to two is not tried again."""
    results, about, left, blame = {}, {}, list(numbers), collections.Counter()

    def take(number, result):
        if number < 0:
            about.update(result)
            return False
        results[number] = result
        left.remove(number)
        print(f"{row_id(rows[number]):52} {show(rows[number], result)}", file=log, flush=True)
        return not left  # it was the last

    def give_up(number, why):
        results[number] = {"status": "NOT RUN", "why": why}
        left.remove(number)

    while left:
        before = len(results)
        process, lines = start_worker(left, folder, quick, log)
        why = follow_worker(lines, deadline, take)
        ended = process.poll()
        process.kill()
        process.wait()
        if why is None or why == NO_TIME:
            break
        if not about:  # it would not start the next time either
            for number in list(left):
                give_up(number, f"the worker could not start: {why}, see peers.log")
            break
        broken = list(results)[-1] if ended == FATAL and len(results) > before else left[0]
        if broken in left:
            give_up(broken, why if ended is None else f"{why} with status {ended}")
        blame[rows[broken].peer] += 1
        if blame[rows[broken].peer] > 1:
            for number in [n for n in left if rows[n].peer == rows[broken].peer]:
                give_up(number, f"it broke two processes: {results[broken]['why']}")
    for number in list(left):
        give_up(number, NO_TIME)
    return results, about


def run_kvgold(program, path, quick, log):
    """What kvgold measures: a list of cases, empty if it could not."""
    command = shlex.split(program) + ["bench", CONFIG, "--json", path] + (["--quick"] if quick else [])
    print("+ " + shlex.join(command), file=log, flush=True)
    try:
        status = subprocess.run(command, stdout=log, stderr=log, timeout=150).returncode
        if status:
            print(f"peers: kvgold ended with status {status}, see peers.log")
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        print(f"peers: nothing of kvgold: {last_line(error)}")
        return []


def kvgold_cell(row, cases):
    """What kvgold measured on the case of `row`, by format: {"nvfp4": [before, after], ...}, each (us, share)."""
    g, found = row.geometry, collections.defaultdict(list)
    for c in cases:
        if c.get("status") != "TIMED" or c.get("op") != "decode" or c.get("window") or c["sinks"] != g.sinks:
            continue
        if (c["query_heads"], c["kv_heads"], c["head_dim"]) != (g.query_heads, g.kv_heads, g.head_dim):
            continue
        if (c["batch"], c["tokens"], c.get("queries", 1)) == (row.batch, row.tokens, row.queries):
            found[c["format"]].append((c["cold"]["median_us"], c["share_of_plain"]))
    return found


# --- Tables ---------------------------------------------------------------------------------------------------------

def number(us):
    return f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def rate(row, result):
    """TFLOP/s of a prefill, else the share of a plain read."""
    us = result["us"]
    return f"{row_flops(row) / us / 1e6:.0f} T" if row.section == "B" else f"{100 * result['plain_us'] / us:.0f} %"


def show(row, result):
    if result["status"] != "TIMED":
        return f"{result['status']}: {result['why']}"
    return (f"{number(result['us'])} us, {rate(row, result)}, error {result['error']:.1e}, "
            f"plain {number(result['plain_us'])} us, {result['way']}")


def cell(row, result):
    if result is None:
        return ""
    if result["status"] != "TIMED":
        return result["status"].lower()
    return f"{number(result['us'])} ({rate(row, result)})"


def kvgold_text(row, runs):
    times = "/".join(number(us) for us, _ in runs)
    return times if row.section == "B" else f"{times} ({100 * runs[0][1]:.0f} %)"


TITLES = {"A": "Decode, and the price of invariance", "B": "Prefill of the last tokens",
          "C": "Several query tokens", "D": "Decode of three models",
          "E": "Decode of rows that K and V share (MLA)"}
UNITS = {"B": "us (T: TFLOP/s; a product counts if its key is seen)"}
UNIT = "us (share of a plain read of the same bytes)"


def table(heads, lines):
    return ["| " + " | ".join(line) + " |" for line in [heads, ["---"] * len(heads), *lines]]


def section_table(section, chosen, results, kvgold):
    """Cases one below another: every peer, kvgold before and after the peers, and the best of both sides."""
    names = [p for p in PEERS if any(r.peer == p for _, r in chosen)]
    cases = list(dict.fromkeys(r._replace(peer="") for _, r in chosen))
    by_case = {(r._replace(peer=""), r.peer): n for n, r in chosen}
    own = {c: kvgold_cell(c, kvgold) for c in cases}
    formats = [f for f in BYTES if any(f in o for o in own.values())]
    lines = []
    for c in cases:
        timed = {p: results[by_case[c, p]] for p in names if (c, p) in by_case}
        cells = [cell(c._replace(peer=p), timed.get(p)) for p in names]
        cells += [kvgold_text(c, own[c][f]) if f in own[c] else "" for f in formats]
        peers = [(r["us"], p) for p, r in timed.items() if r["status"] == "TIMED"]
        ours = [(max(runs)[0], f) for f, runs in own[c].items()]
        if peers and ours:
            (theirs, peer), (us, kind) = min(peers), min(ours)
            cells.append(f"{peer} / {kind}: {theirs / us:.2f}")
        else:
            cells.append("")
        lines.append([f"{c.geometry.name} {c.batch} × {c.tokens // KI} Ki, q {c.queries}"] + cells)
    return table(["case"] + names + [f"kvgold {f}" for f in formats] + ["fastest peer / fastest kvgold"], lines)


def peer_table(chosen, results):
    """What is known of each peer beside its times."""
    lines = []
    for p in PEERS:
        timed = [results[n] for n, r in chosen if r.peer == p and results[n]["status"] == "TIMED"]
        if timed:
            asked = sum(r.get("tokens_alone", 0) for r in timed)
            differ = sum(r.get("tokens_alone_differ", 0) for r in timed)
            lines.append([p, f"{max(r['error'] for r in timed):.1e}", f"{differ} of {asked}" if asked else ""])
    return table(["peer", "largest relative error", "query tokens with other bits when asked alone"], lines)


# Of the sections in which query tokens are asked alone: what the table of bits and speed shows.
SHOWN = [("A", 1, 128 * KI, 1), ("C", 16, 32 * KI, 1), ("C", 16, 32 * KI, 8), ("B", 1, 32 * KI, 2 * KI)]


def bits_table(rows, results, kvgold):
    """Kernels one below another: whether a query token's bits depend on what is asked beside it, and what that costs."""
    cases = [(r.section, r.batch, r.tokens, r.queries) for r in rows]
    shown = [[n for n in results if cases[n] == c] for c in SHOWN]
    if not all(shown):
        return []
    lines = []
    for p in PEERS:
        alone = [results[n] for n in results if rows[n].peer == p and rows[n].section in "ABC"]
        asked = sum(r.get("tokens_alone", 0) for r in alone)
        if asked:
            differ = sum(r.get("tokens_alone_differ", 0) for r in alone)
            times = [[cell(rows[n], results[n]) for n in case if rows[n].peer == p] for case in shown]
            lines.append([p, f"{differ} of {asked}"] + [t[0] if t else "" for t in times])
    own = [(rows[case[0]], kvgold_cell(rows[case[0]], kvgold)) for case in shown]
    for f in BYTES:
        if any(f in found for _, found in own):
            lines.append([f"kvgold {f}", "0: all bits are the reference's"] +
                         [kvgold_text(row, found[f]) if f in found else "" for row, found in own])
    heads = [f"{batch} × {tokens // KI} Ki, q {queries}" for _, batch, tokens, queries in SHOWN]
    return ["## Bits and speed", "Llama-3-70B, in us (share of a plain read; T: TFLOP/s); kvgold before/after the peers.", "",
            *table(["kernel", "query tokens with other bits when asked alone, A to C", *heads], lines), ""]


def tables(rows, results, kvgold):
    lines = bits_table(rows, results, kvgold)
    for section, title in TITLES.items():
        chosen = [(n, rows[n]) for n in sorted(results) if rows[n].section == section]
        if chosen:
            lines += [f"## {section}. {title}", f"In {UNITS.get(section, UNIT)}; kvgold before/after the peers.", ""]
            lines += section_table(section, chosen, results, kvgold) + [""] + peer_table(chosen, results) + [""]
    failed = collections.OrderedDict()
    for n in sorted(results):
        if results[n]["status"] != "TIMED":
            failed.setdefault((results[n]["status"], results[n]["why"]), []).append(row_id(rows[n]))
        elif "alone_not_run" in results[n]:
            failed.setdefault(("NOT ASKED ALONE", results[n]["alone_not_run"]), []).append(row_id(rows[n]))
    for (status, why), ids in failed.items():
        lines.append(f"* {status}: {len(ids)} rows, {ids[0]}{' to ' + ids[-1] if len(ids) > 1 else ''}: {why}")
    return lines


INTRODUCTION = """# kvgold beside other projects' kernels on an {gpu}, {date}

`ci/peers.py` made this page from one run. "fa3" is FlashAttention-3, "fi" is FlashInfer, "fi-fa3"
its backend of that name, "xqa" its XQA kernel, and "flashmla" FlashMLA as SGLang builds it. All
kernels get the same inputs, in pages of 16 tokens (MLA: 64) in random order where nothing else is
said. The L2 cache is cold and clean before each run.
Outputs of peers are compared with a float64 reference on a sample of rows. Outputs of kvgold are
compared with its reference bit for bit.

*Asked alone*: up to 8 query tokens of each case are asked again, each as a decode step of its
sequence alone. A kernel whose bits depend neither on the batch nor on the number of query tokens
gives the same bits.

<!-- not run: GPU -->

    ci/peers gpu --out DIR
    python3 ci/peers.py --packs DIR --kvgold build/cuda/bin/kvgold --out OUT{options}

* kvgold {kvgold}; PyTorch {torch}; driver {driver}; wheels
  {wheels}.
* SM clock {clocks} MHz. An empty kernel takes {empty:.1f} us.
* Plain reads above 2 GB: {plains} GB/s.
* {counts}, {seconds:.0f} s.
"""


def span(values):
    return f"{min(values, default=0):.0f} to {max(values, default=0):.0f}"


def introduction(options, about, rows, results, seconds):
    """The page's words above its tables."""
    counts = collections.Counter(r["status"] for r in results.values())
    used = (" --quick" if options.quick else "") + (f" --only {shlex.quote(options.only)}" if options.only else "")
    doctor = shlex.split(options.kvgold or "false") + ["doctor"]
    lines = subprocess.run(doctor, stdout=subprocess.PIPE, text=True, check=False).stdout.splitlines()
    said = {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
    with open(os.path.join(options.packs, "packs.json"), encoding="utf-8") as f:
        wheels = ["-".join(name.split("-")[:2]) for name in json.load(f)["wheels"]]
    return INTRODUCTION.format(
        gpu=about.get("gpu", "unknown GPU"), date=time.strftime("%Y-%m-%d"), options=used,
        kvgold=said.get("kvgold", "was not run"), torch=about.get("torch", "?"), driver=said.get("driver", "?"),
        wheels=",\n  ".join(wheels), empty=about.get("empty_us", 0), seconds=seconds,
        clocks=span([r["sm_mhz"] for r in results.values() if r.get("sm_mhz")]),
        plains=span([row_bytes(rows[n]) / r["plain_us"] / 1e3 for n, r in results.items()
                     if r["status"] == "TIMED" and row_bytes(rows[n]) > 2e9]),
        counts=", ".join(f"{n} rows {s}" for s, n in sorted(counts.items())) or "no rows")


def plan(rows, chosen):
    total = 0.0
    for n in chosen:
        r = rows[n]
        floor = max(row_bytes(r) / 4.6e6, row_flops(r) / (1.6e9 if "fa3 e4m3" in r.peer else 8e8))
        total += floor
        print(f"{row_id(r):56} {row_bytes(r) / 1e6:9.1f} MB {row_flops(r) / 1e9:9.1f} GFLOP, at least {floor:8.1f} us")
    if not chosen:
        return
    most = max(row_bytes(rows[n]) for n in chosen)
    print(f"{len(chosen)} rows. Memory: {most / 1e9:.1f} GB of K and V, 5 GB beside it. One run of each takes "
          f"{total / 1e6:.2f} s at least.")


def check(packs):
    """Loads every library of the packs, as far as that needs no GPU."""
    with tempfile.TemporaryDirectory() as folder:
        if not unpack(packs, folder):
            print(f"peers: {packs} has no packs: run ci/peers gpu on a machine with a network", file=sys.stderr)
            return 3
        if sys.version_info[:2] != PYTHON:  # the pack's tvm-ffi is for the other machine's; here, the installed one
            shutil.rmtree(os.path.join(folder, "site", "tvm_ffi"), ignore_errors=True)
        return subprocess.run([sys.executable, KERNELS, folder, "--loads"], env=environment(folder)).returncode


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[0][len("usage: "):], add_help=True)
    for name in ("--packs", "--out", "--kvgold", "--only"):
        parser.add_argument(name)
    for name in ("--quick", "--plan", "--check"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--seconds", type=float, default=480)
    options = parser.parse_args()
    rows = all_rows()
    try:
        chosen = [n for n, r in enumerate(rows) if re.search(options.only or "", row_id(r))]
    except re.error as error:
        parser.error(f"--only: {error}")
    if options.plan:
        plan(rows, chosen)
        return 0
    if not options.packs or not (options.check or options.out):
        parser.error("--packs and --out are needed")
    if options.check:
        return check(options.packs)
    return run(rows, chosen, options)


def run(rows, chosen, options):
    begin = time.monotonic()
    os.makedirs(options.out, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kvgold-peers-") as folder, \
            open(os.path.join(options.out, "peers.log"), "w", encoding="utf-8") as log:
        names = unpack(options.packs, folder)
        if not names:
            print(f"peers: {options.packs} has no packs: run ci/peers gpu on a machine with a network", file=sys.stderr)
            return 3
        kvgold, after = [], 0.0
        if options.kvgold:
            start = time.monotonic()
            kvgold = run_kvgold(options.kvgold, os.path.join(options.out, "kvgold_before.json"), options.quick, log)
            after = 1.2 * (time.monotonic() - start)
        results, about = run_workers(rows, chosen, folder, options.quick, log, begin + options.seconds - after)
        if kvgold:
            kvgold += run_kvgold(options.kvgold, os.path.join(options.out, "kvgold_after.json"), options.quick, log)
    counts = collections.Counter(r["status"] for r in results.values())
    with open(os.path.join(options.out, "peers.json"), "w", encoding="utf-8") as f:
        made = [dict(results[n], id=row_id(rows[n]), bytes=row_bytes(rows[n]), flops=row_flops(rows[n]),
                     sinks=has_sinks(rows[n])) for n in sorted(results)]
        json.dump({"machine": about, "rows": made}, f, indent=1)
    text = "\n".join([introduction(options, about, rows, results, time.monotonic() - begin),
                      *tables(rows, results, kvgold)])
    with open(os.path.join(options.out, "peers.md"), "w", encoding="utf-8") as f:
        f.write(text.rstrip() + "\n")
    print(text)
    if not counts["TIMED"]:
        return 3
    return 1 if counts["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
