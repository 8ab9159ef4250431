"""kvgold.invariance: attention in numpy that is right, and one that is wrong along each axis."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest

import kvgold
from kvgold.invariant import AXES

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

    def order(self, first, keys, batch, request, row):
        """The keys of a row, tile by tile. `first` is the position of the first one."""
        size, start, turned = 32, 0, False
        match self.fault:
            case "repeat": turned = self.calls % 5 == 4
            case "batch": turned = len(batch.lengths) > 8
            case "place": turned = request > 4
            case "neighbours": turned = 1 in batch.lengths[1:]
            case "queries": size = 96 if batch.query_lengths[request] == 1 else 192
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
        return np.stack(outs), np.stack(lses)


FAULTS = {"right": set(), "right pages": set(), "batch": {"batch"}, "place": {"place"}, "neighbours": {"neighbours"},
          "queries": {"queries"}, "chunks": {"chunks"}, "pages": {"pages"}, "page_size": {"page_size"}, "prefix": {"prefix"},
          "unowned": {"unowned"}, "hidden": {"hidden"}, "before": {"before"}, "options": {"options"}}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(fault):
    """Each fault is seen along its own axis, and along no other."""
    options = {"turned": [False, True]} if fault == "options" else {}
    window = 100 if fault in ("before", "right") else 0
    report = kvgold.invariance(Kernel(fault), window=window, options=options, **SIZES)
    findings = report.findings.values()
    assert {f.axis for f in findings if f.differing} == FAULTS[fault], str(report)
    assert all(f.holds for f in findings if not f.reason and f.axis not in FAULTS[fault]), str(report)
    asked = {f.axis for f in findings if not f.reason}
    assert ({"pages", "page_size", "prefix", "unowned"} <= asked) == ("page" in fault or fault in ("prefix", "unowned"))
    assert ("before" in asked) == (window > 0) and bool(report) == (not FAULTS[fault])


def test_tiles():
    """A decode with tiles of 96 beside a prefill with tiles of 192 parts from key 97 on, where the report sees a tile's end."""
    finding = kvgold.invariance(Kernel("queries"), axes=["queries"], **SIZES)["queries"]
    assert (finding.first, finding.agrees, finding.tile) == (97, 96, 96)
    assert 0 < finding.worst < 1e-5 and 1 <= finding.worst_units < 20 and finding.heads == {0, 1}


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


def test_every_axis_has_a_fault():
    """repeat and process have tests of their own."""
    assert {axis for axes in FAULTS.values() for axis in axes} == {*AXES} - {"repeat", "process"}
