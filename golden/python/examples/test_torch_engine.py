"""How an engine tests itself by a pack:

    python -m pytest golden/python/examples                              # Engine passes
    KVGOLD_ENGINE=WrongEngine python -m pytest golden/python/examples    # WrongEngine fails

KVGOLD_PACK is the pack (default: the repository's), KVGOLD_DEVICE the torch device (default: cpu). Recipes need the
program kvgold (KVGOLD or the PATH); without it they are skipped."""

import os

import pytest

torch = pytest.importorskip("torch")
import kvgold  # noqa: E402
import torch_engine  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PACK = kvgold.load(os.environ.get("KVGOLD_PACK", os.path.join(HERE, "..", "..", "data", "packs", "hnd")))
DEVICE = os.environ.get("KVGOLD_DEVICE", "cpu")
make_engine = getattr(torch_engine, os.environ.get("KVGOLD_ENGINE", "Engine"))


def mine(case):
    """What the engine can do. The rest of the pack is not its business. NVFP4 is read alike in both dialects."""
    problem = case.problem
    return (problem.format in ("bf16", "nvfp4") and problem.dialect in ("canonical", "flashinfer-page")
            and problem.dtype == "bf16" and not problem.score_scale and not problem.sinks)


CASES = [case for case in PACK.select(op="decode", layout="hnd") if mine(case)]
assert CASES, f"pack {PACK.name} has no case for this engine"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_decode(case):
    problem = case.problem
    tensors = {name: torch.from_numpy(array.copy()).to(DEVICE) for name, array in case.inputs.items()}
    engine = make_engine(problem.kv_heads, problem.head_dim, problem.block_tokens, problem.window, problem.softcap)
    q = tensors["q"].view(torch.bfloat16)
    out = torch.zeros(q.shape, device=DEVICE)
    lse = torch.full(q.shape[:2], -torch.inf, device=DEVICE)
    lengths, counts = tensors["lengths"].tolist(), tensors["query_lengths"].tolist()
    row = 0
    for table, length, count in zip(tensors["block_table"], lengths, counts):
        pages = table[:-(-length // engine.page)].long()
        lost = ((pages < 0) | (pages >= problem.blocks)).sum()  # freed, from the front: out of sight
        length -= int(lost) * engine.page
        if count and length > 0:
            k, v = (rows_of(engine, case, tensors, side, pages[lost:], length) for side in "kv")
            out[row:row + count], lse[row:row + count] = engine.attend(q[row:row + count], k, v)
        row += count
    kvgold.assert_matches(case, {"out": out.bfloat16(), "lse": lse})


def rows_of(engine, case, tensors, side, pages, length):
    """The numbers of K or V of a sequence: the op's layer of the pools, [pages, heads, tokens, bytes]."""
    shape = (case.problem.layers, case.problem.blocks, engine.heads, engine.page, -1)
    pools = (tensors.get(f"{side}_{name}") for name in ("data", "scale_pool"))
    stored = (None if pool is None else engine.gather(pool.view(shape)[case.layer], pages, length) for pool in pools)
    return engine.numbers(*stored, tensors.get(f"{side}_tensor_scale"))
