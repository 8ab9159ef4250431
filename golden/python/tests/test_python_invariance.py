"""kvgold.invariance: attention in numpy that is right, and one that is wrong along each axis."""

import contextlib
import itertools
import json
import math
import os
import subprocess
import sys
import types

import numpy as np
import pytest

import kvgold
from kvgold.adapters import invariance
from kvgold.bound_numpy import out_bound
from kvgold.company import Arrays
from kvgold.formats_numpy import load
from kvgold.invariant import AXES, _tokens
from kvgold.program import run_program

SIZES = {"heads": 2, "kv_heads": 1, "head_dim": 8, "longest": 200, "times": 3}


def tile_sums(scores, values, tiles):
    """A softmax of heads [heads, keys] by tiles, whose sums are added in that order. Within a tile numbers are added one by
    one from the last key on, by cumsum: numpy's own sums follow the length."""
    top = scores.max(1, keepdims=True)
    out, total = np.zeros((len(scores), values.shape[1]), np.float32), np.zeros((len(scores), 1), np.float32)
    for keys in (tile[::-1] for tile in tiles):
        weight = np.exp(scores[:, keys] - top)
        out = out + np.cumsum(weight[:, :, None] * values[keys], 1)[:, -1]
        total = total + np.cumsum(weight, 1)[:, -1:]
    return out / total, (top + np.log(total))[:, 0]


class Kernel:
    """Attention whose tiles of 32 begin at a row's first key; and what a `fault` makes of it."""

    def __init__(self, fault=""):
        self.fault, self.calls = fault, 0
        self.workspace, self.meanwhile = np.zeros((300, 2, 8), np.float32), None

    def order(self, first, keys, batch, request, row):
        """The keys of a row, tile by tile. `first` is the position of the first one."""
        size, start, turned = 32, 0, False
        match self.fault:
            case "repeat": turned = self.calls % 5 == 4
            case "batch": turned = len(batch.lengths) > 8
            case "place": turned = request > 4
            case "neighbours": turned = 1 in batch.lengths[1:]
            case "queries": size = 96 if batch.query_lengths[request] == 1 else 192
            case "tokens": turned = row % 32 >= 16 and batch.query_lengths[request] > 1
            case "chunks": turned = row % 7 == 3 and batch.query_lengths[request] == 7
            case "pages": turned = int(batch.block_table[request, 0]) % 2 == 1
            case "page_size": size = batch.page_size
            case "prefix": turned = len({*batch.block_table[:, 0].tolist()}) < len(batch.lengths)
            case "before": start = -first % 32
            case "process": turned = os.getpid() != int(os.environ["KVGOLD_TEST_PROCESS"])
        edges = sorted({0, *range(start, keys, size), keys})
        tiles = [np.arange(a, b) for a, b in zip(edges, edges[1:])]
        return tiles[::-1] if turned else tiles

    def sequence(self, batch, i, paged):
        if not paged:
            return batch.k[i], batch.v[i]
        pages = batch.block_table[i][:-(-batch.lengths[i] // batch.page_size)]
        return tuple(x[pages].reshape(-1, *x.shape[2:]) for x in (batch.k_pages, batch.v_pages))

    def __call__(self, batch, turned=False):
        self.calls += 1
        outs, lses, at = [], [], 0
        paged = self.fault in ("pages", "page_size", "prefix", "unowned", "right pages")
        for i, (length, rows) in enumerate(zip(batch.lengths, batch.query_lengths)):
            k, v = self.sequence(batch, i, paged)
            for row in range(rows):
                end = length - rows + row + 1
                first = max(0, end - batch.window) if batch.window else 0
                order = self.order(first, end - first, batch, i, row)[::-1 if turned else 1]
                q = batch.q[at + row][:, :, None]
                scores = (q * k[first:end].transpose(1, 2, 0)).sum(1, dtype=np.float32) / np.float32(math.sqrt(q.shape[1]))
                out, lse = tile_sums(scores, v[first:end, 0], order)
                wasted = v[{"unowned": length, "hidden": end}.get(self.fault, len(v)):, 0]
                outs.append(out + (0 * wasted).sum(0))
                lses.append(lse)
            at += rows
        out = self.workspace[:len(outs)] if self.fault == "streams" else np.zeros_like(outs)
        out[:] = outs
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile:
            meanwhile()
        return out.copy(), np.stack(lses)


def interleave(monkeypatch, kernel):
    """A device whose streams take turns: another call is answered before a call has read its workspace."""
    def beside(arrays, ours, other):
        kernel.meanwhile = other
        return ours()
    monkeypatch.setattr(Arrays, "streams", True)
    monkeypatch.setattr(Arrays, "beside", beside)


FAULTS = {"right": set(), "right pages": set(), "batch": {"batch"}, "place": {"place"}, "neighbours": {"neighbours"},
          "queries": {"queries"}, "chunks": {"chunks"}, "pages": {"pages"}, "page_size": {"page_size"}, "prefix": {"prefix"},
          "unowned": {"unowned"}, "hidden": {"hidden"}, "before": {"before"}, "options": {"options"},
          "streams": {"streams"}}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(fault, monkeypatch):
    """Each fault is seen along its own axis, and along no other."""
    kernel = Kernel(fault)
    interleave(monkeypatch, kernel)
    options = {"turned": [False, True]} if fault == "options" else {}
    window = 100 if fault in ("before", "right") else 0
    report = kvgold.invariance(kernel, window=window, options=options, **SIZES)
    findings = report.findings.values()
    assert {f.axis for f in findings if f.differing} == FAULTS[fault], str(report)
    assert all(f.holds for f in findings if not f.reason and f.axis not in FAULTS[fault]), str(report)
    asked = {f.axis for f in findings if not f.reason}
    assert ({"pages", "page_size", "prefix", "unowned"} <= asked) == ("page" in fault or fault in ("prefix", "unowned"))
    assert ("before" in asked) == (window > 0) and bool(report) == (not FAULTS[fault]) and "streams" in asked


def test_tiles():
    """A decode with tiles of 96 beside a prefill with tiles of 192 parts from key 97 on, where the report sees a tile's end."""
    finding = kvgold.invariance(Kernel("queries"), axes=["queries"], **SIZES)["queries"]
    assert (finding.first, finding.agrees, finding.tile) == (97, 96, 96)
    assert 0 < finding.worst < 1e-5 and 1 <= finding.worst_units < 20 and finding.heads == {0, 1}
    assert 0 < finding.worst_bounds < 1 and not any("two bounds" in note for note in finding.notes(2))


def test_streams_of_no_device():
    report = kvgold.invariance(Kernel(), axes=["streams"], **SIZES)
    assert report["streams"].reason == "the device has no streams" and not report["streams"].rows


def test_beside():
    """Both calls are launched on streams of their own, which wait for the same gate, and nothing is read before the device
    is done."""
    log, current = [], ["default"]

    class Stream:
        def __init__(self, device):
            self.number = next(numbers)

        def wait_stream(self, other):
            log.append(("waits", self.number, other.number))

    @contextlib.contextmanager
    def stream(given):
        current.append(given.number)
        yield
        current.pop()

    numbers = itertools.count()
    cuda = types.SimpleNamespace(synchronize=lambda: log.append("wait"), stream=stream, Stream=Stream,
                                 _sleep=lambda cycles: log.append(("gate", current[-1])))
    arrays = Arrays(np.float32, "cuda")
    assert not arrays.streams
    arrays.torch = types.SimpleNamespace(cuda=cuda)
    assert arrays.streams and arrays.beside(lambda: log.append(("ours", current[-1])) or 7,
                                            lambda: log.append(("other", current[-1]))) == 7
    assert log == ["wait", ("gate", 0), ("waits", 1, 0), ("waits", 2, 0), *[("other", 1)] * 4, ("ours", 2), "wait"]


def test_tokens():
    """The query tokens that differ have names, unless all do from some token on."""
    finding = kvgold.invariance(Kernel("tokens"), axes=["queries"], **SIZES)["queries"]
    assert "query tokens 16 to 31 of each 32 alone" in finding.notes(2), finding.notes(2)
    finding = kvgold.invariance(Kernel("chunks"), axes=["chunks"], **SIZES)["chunks"]
    assert finding.tokens == {3} and "query tokens 3 alone" in finding.notes(2)


@pytest.mark.parametrize("differing,text", [
    (range(96, 200), ""), ([], ""), (range(200), ""), ([5, 6, 7, 20, 190], "5 to 7, 20, 190"), (range(0, 200, 3), ""),
    (range(1, 200, 2), "1 of each 2"), (range(3, 200, 8), "3 of each 8"), (range(199), "0 to 198"),
    ([t for t in range(200) if t % 64 >= 32 and t % 7], "32 to 63 of each 64")])
def test_names_of_tokens(differing, text):
    assert _tokens(set(differing), set(range(200))) == text


@pytest.mark.parametrize("keys", [16, 200])
def test_wrong_beside_right(keys):
    """A row that lacks its newest key in a large batch is wrong, and others are summed in another order."""
    def attention(batch):
        large = len(batch.lengths) > 4
        if large and batch.lengths[0] == keys:
            batch.k, batch.v = ([x[[*range(keys - 1), 0]] for x in rows] for rows in (batch.k, batch.v))
        return Kernel()(batch, turned=large)
    finding = kvgold.invariance(attention, axes=["batch"], **SIZES)["batch"]
    assert finding.worst_bounds > 2 and any("outside of the bound" in note for note in finding.notes(2))


def test_wrong_behind_right():
    """Two units in the last place of a short row are more than what a long row is wrong by, and within two bounds."""
    def attention(batch):
        out, size = Kernel()(batch)[0].astype(np.float16), batch.lengths[0]
        if len(batch.lengths) == 1:
            return out
        if size < 3:
            return np.nextafter(np.nextafter(out, np.float16(9)), np.float16(9))
        return out + np.float16(0.0015) if size == 200 else out
    finding = kvgold.invariance(attention, axes=["batch"], dtype=np.float16, **SIZES)["batch"]
    assert finding.worst == 2 ** -9 and 2 < finding.worst_bounds < 5 and finding.first == 1


CACHE = {"op": "decode", "layout": "contiguous", "kv_heads": 2, "head_dim": 64, "tokens": 300, "block_tokens": 300,
         "fill": "random", "group": 2, "queries": 3}


@pytest.mark.parametrize("fmt,dtype", [("bf16", "bfloat16"), ("f16", "float16")])
def test_bound(fmt, dtype, tmp_path):
    """The bound of class plain is the program's."""
    config = {"kvgold_golden": 1, "name": "bound", "version": "1.0.0", "licence": "Apache-2.0", "seed": "0x1",
              "comment": "", "notes": {"rows": "Rows of a chunk."},
              "groups": [{"flags": ["rows"], "cases": [{**CACHE, "format": fmt, "dtype": fmt}]}]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    run_program("golden", "make", str(tmp_path / "config.json"), "-o", str(tmp_path / "pack"))
    case, = kvgold.load(tmp_path / "pack")
    given, compared = case.inputs, 0
    q, row = case.floats("q").astype(np.float64), 0
    shape = case.problem.layers, case.problem.blocks, 2, 300, 64
    codes = [given[f"{side}_data"].view("<u2").reshape(shape)[case.problem.layer] for side in "kv"]
    for block, length, count in zip(given["block_table"][:, 0], given["lengths"], given["query_lengths"]):
        for end in range(length - count + 1, length + 1):
            for head in range(4) if end > 0 and 0 <= block < case.problem.blocks else ():
                k, v = (load(fmt, x[block, head // 2, :end]).astype(np.float64) for x in codes)
                expected = case.expected["out.bound"][row, head]
                given_bound = out_bound(q[row, head], k, v, dtype, rounded_sum=False)
                np.testing.assert_allclose(given_bound, expected, rtol=1e-12)
                compared += 1
            row += 1
    assert compared > 8 and row == len(q)


def test_bound_of_rounded_sums():
    """Half an ulp of f16 is h = 2^-11. Keys of equal weight with V 2 and 0 give 1. Rounding the first weight moves this
    by h, and rounding out by h more; the second weight moves it by h / 2 through the sum. One key with V 2 gives 2
    whatever its weight; a sum of weights that is h too small makes the error of the first weight, 2 h, larger by its
    part h. Scores of 2^24 may each be off by more than 1. Then the answer may lie 1 away, and the sum of weights moves
    that by h."""
    h, q, k = 2 ** -11, np.zeros(16), np.zeros((2, 16))
    for rounded_sum, units in ((False, 2), (True, 2.5)):
        assert out_bound(q, k, np.array([[2.0], [0.0]]), "float16", rounded_sum) / h == pytest.approx(units, rel=0.03)
    apart, together = (out_bound(q, k[:1], np.array([[2.0]]), "float16", which)[0] for which in (False, True))
    assert together - apart == pytest.approx(2 * h * h, rel=0.03)
    apart, together = (out_bound(q + 2.0 ** 11, k + 2.0 ** 11, np.array([[2.0], [0.0]]), "float16", which)[0]
                       for which in (False, True))
    assert 1 < apart < 1.01 and together - apart == pytest.approx(h, rel=0.03)


def test_bisection():
    """A length between those that are asked is found."""
    def attention(batch):
        out, lse = Kernel()(batch)
        return np.nextafter(out, 2) if len(batch.lengths) > 2 and batch.lengths[0] > 141 else out
    finding = kvgold.invariance(attention, axes=["batch"], **SIZES)["batch"]
    assert (finding.first, finding.agrees, finding.tile) == (142, 141, None)
    assert "a batch of 3" in finding.companies and "a batch of 2" not in finding.companies


def test_bisection_ends():
    """A company that no shorter row can have is not looked for."""
    def attention(batch):
        out, lse = Kernel()(batch)
        return np.nextafter(out, 2) if batch.query_lengths[0] == 9 else out
    finding = kvgold.invariance(attention, axes=["queries"], **SIZES)["queries"]
    assert finding.companies == {"9 query tokens": 9} and finding.agrees == 8


def test_unsteady():
    """Where the same call gives other bits, nothing else is asked."""
    noise = np.random.default_rng(0)

    def attention(batch):
        out, lse = Kernel()(batch)
        return out * np.float32(1 + 1e-3 * noise.random()), lse
    report = kvgold.invariance(attention, **SIZES)
    assert report["repeat"].differing and not report and {f.rows for f in report.findings.values() if f.axis != "repeat"} == {0}
    assert report["batch"].reason == "the same call gives other bits" and "repeat" in repr(report)


def test_zeros_and_nan():
    """+0 is not -0; NaN is NaN, whatever its bits; a NaN beside a number counts."""
    def attention(batch):
        many = len(batch.lengths) > 1
        out = np.full((sum(batch.query_lengths), 2, 8), -np.nan if many else np.nan, np.float32)
        out[:, 0] = 0.0
        if many and batch.lengths[0] > 96:
            out[:, 0] = -0.0
        return out
    finding = kvgold.invariance(attention, axes=["batch"], **SIZES)["batch"]
    assert finding.differing and finding.first == 97 and finding.heads == {0} and finding.nan == 0
    assert "only signs of zeros differ" in finding.notes(2)


@pytest.mark.parametrize("home,other,lost", [(1, np.inf, True), (np.inf, -np.inf, True), (np.inf, np.nan, True),
                                             (np.inf, np.inf, False)])
def test_infinities(home, other, lost):
    """An infinity beside another number counts, and is no sign of a zero."""
    def attention(batch):
        return np.full((sum(batch.query_lengths), 2, 8), other if len(batch.lengths) > 1 else home, np.float32)
    finding = kvgold.invariance(attention, axes=["batch"], **SIZES)["batch"]
    assert finding.nan == 16 * finding.differing and bool(finding.differing) == lost
    assert "only signs of zeros differ" not in finding.notes(2) and finding.worst == 0


def answer_of(batch, rows=None, dtype=np.float32):
    return np.zeros((rows or sum(batch.query_lengths), 2, 8), dtype)


def raises_at(batch, length):
    if max(batch.lengths) > length:
        raise MemoryError("no memory for it")
    return answer_of(batch)


@pytest.mark.parametrize("attention,reason", [
    (lambda batch: answer_of(batch, 3), "out has shape [3, 2, 8], not [1, 2, 8]"),
    (lambda batch: answer_of(batch, dtype=np.float64), "out is float64, not float32"),
    (lambda batch: (answer_of(batch), np.zeros(5, np.float32)), "lse has shape [5]"),
    (lambda batch: answer_of(batch, dtype=np.int32), "int32 is given"),
    (lambda batch: None, "object is given"),
    (lambda batch: batch.k[0].fill(0), "read-only"),
    (lambda batch: raises_at(batch, 150), "MemoryError: no memory for it")])
def test_no_answer(attention, reason):
    """Without an answer no axis holds, and the reason is told."""
    report = kvgold.invariance(attention, axes=["batch", "queries"], **SIZES)
    assert not report and not report["queries"].holds
    assert any(reason in why for why in report["queries"].unanswered), str(report)


@pytest.mark.parametrize("wrong,text", [({"axes": ["bach"]}, "did you mean 'batch'"), ({"heads": 3, "kv_heads": 2}, "multiple"),
                                        ({"longest": 0}, "positive")])
def test_usage(wrong, text):
    with pytest.raises(ValueError, match=text):
        kvgold.invariance(Kernel(), **{**SIZES, **wrong})


def test_command(tmp_path):
    """As text a callable is asked in another process, too; the command's status says whether all holds."""
    folder = os.path.dirname(os.path.abspath(__file__))
    (tmp_path / "engine.py").write_text(f"import sys; sys.path.insert(0, {folder!r})\n"
                                        "from test_python_invariance import Kernel\n"
                                        "right, unsteady = Kernel(), Kernel('process')\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    for name, status in (("right", 0), ("unsteady", 1), ("absent", 2)):
        script = f"import os, sys; os.environ['KVGOLD_TEST_PROCESS'] = str(os.getpid()); " \
                 f"from kvgold.adapters.invariance import main; sys.exit(main())"
        done = subprocess.run([sys.executable, "-c", f"if __name__ == '__main__': exec({script!r})", f"engine:{name}", "--heads=2",
                               "--kv-heads=1", "--head-dim=8", "--longest=200", "--axes=process", f"--json={tmp_path}/report"],
                              capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == status, done.stdout + done.stderr
        assert ("process" in done.stdout) == (status < 2) and ("absent" in done.stderr) == (status == 2)
    assert '"axis"' not in (tmp_path / "report").read_text() and '"process"' in (tmp_path / "report").read_text()


@pytest.mark.parametrize("wrong,axes", [("", "process,page_size,hidden"), ("pages", "pages"), ("prefix", "prefix")])
def test_plug_in(wrong, axes, monkeypatch, capsys):
    """A plug-in is asked by its library's path. This one's bits depend on the company that the variable names."""
    library = os.path.join(os.path.dirname(os.environ.get("KVGOLD", "")), "libkvgold_company.so")
    if not os.path.isfile(library):
        pytest.skip("no libkvgold_company.so lies beside $KVGOLD")
    monkeypatch.setenv("KVGOLD_COMPANY", wrong)
    status = invariance.main([library, "--dtype=float16", "--heads=2", "--kv-heads=1", "--head-dim=16", "--longest=130",
                              "--times=1", f"--axes={axes}"])
    text = capsys.readouterr().out
    assert status == (1 if wrong else 0), text
    assert ("a tile or a split ends at key 96" in text) == bool(wrong) and "not asked" not in text, text


def test_every_axis_has_a_fault():
    """repeat and process have tests of their own."""
    assert {axis for axes in FAULTS.values() for axis in axes} == {*AXES} - {"repeat", "process"}
