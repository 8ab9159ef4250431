"""kvgold.predict against the bits that other projects' kernels gave on a GPU."""
import numpy as np
import pytest

import kvgold
from kernel_cases import digest, inputs, known, of_e4m3

CASES = known()
PAGES, CONTIGUOUS = "sm90.fa3.20260810.pages", "sm90.fa3.20260810.contiguous"
FLASHINFER_FA2, FLASHINFER_FA3 = "sm90.flashinfer.0.7.2.fa2", "sm90.flashinfer.0.7.2.fa3"
VLLM, SGLANG = "sm90.vllm.0.33.0.triton", "sm90.sglang.0.5.23.triton"
XQA, FLASHMLA = "sm90.flashinfer.0.7.2.xqa", "sm90.flashmla.1.0.0"


def predict(case, **changed):
    case = {**case, **changed}
    q, k, v, sinks = inputs(case)
    if case["dtype"] == "f16":
        q, k, v = (x.view(np.float16) for x in (q, k, v))
    if case["dtype"] == "e4m3":
        q = of_e4m3(q)
    scales = [float(np.float32(x)) for x in case["descale"] or (1, 1, 1)]
    return kvgold.predict(case["profile"], q, k, v, lengths=case["lengths"], scale=case["scale"],
                          window=case["window"] or None, sinks=sinks, softcap=case.get("softcap"),
                          splits=case["splits"], split_size=case.get("split_size"), v_dim=case.get("v_dim"),
                          kv_scale=(float(np.float32(scales[0] * scales[1])), scales[2]))


def bits(out, lse):
    return digest(out), None if lse is None else digest(lse.transpose(0, 2, 1))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_kernels_bits(case):
    out, lse = predict(case)
    assert bits(out, lse) == (case["out"], case["lse"])


@pytest.mark.parametrize("profile, right", [(PAGES, 0x44B4), (CONTIGUOUS, 0x44B3)])
def test_the_row_by_hand(profile, right):
    """docs/spec/other-kernels.md section 1.8: 0x1.2dp+2 in pages, 0x1.2ccp+2 contiguous, and the LSE 0x1.2430f6p+3."""
    q, k, v = np.zeros((1, 1, 1, 16), np.float16), *np.zeros((2, 1, 132, 1, 16), np.float16)
    q[..., 0], k[..., 0] = 1, -1024
    k[0, [0, 8, 20, 128, 131], 0, 0], v[0, [0, 8, 20, 128, 131], 0, 0] = (33, 28, 30, 29, 28), (7, 3, 6, 8, -8)
    out, lse = kvgold.predict(profile, q, k, v, lengths=[132])
    assert (out.view(np.uint16).ravel().tolist(), lse.view(np.uint32).item()) == ([right] + [0] * 15, 0x4112187B)


def test_other_rules_have_other_bits():
    case = next(c for c in CASES if c["profile"] == CONTIGUOUS and c["dim"] == 128 and max(c["lengths"]) > 176)
    right = case["out"], case["lse"]
    for changed in ({"profile": PAGES}, {"profile": "sm90.mma16816.v2"}, {"seed": case["seed"] + 1},
                    {"lengths": [n - (n > 1) for n in case["lengths"]]}, {"window": 100}, {"scale": 0.1}, {"splits": 2}):
        assert bits(*predict(case, **changed)) != right, changed


def test_what_a_kernel_does_not_take():
    case = next(c for c in CASES if c["profile"] == FLASHINFER_FA2 and c["tokens"] == 1)
    for changed, words in (({"splits": 2}, "pieces of a given size"),
                           ({"profile": PAGES, "split_size": 64}, "not cut into pieces"),
                           ({"profile": FLASHINFER_FA3, "sinks": True}, "not known with sinks"),
                           ({"dim": 96}, "not known for head_dim 96"),
                           ({"profile": VLLM + ".segments", "splits": 2}, "always has 16 segments"),
                           ({"profile": VLLM + ".segments", "dim": 32}, "not known for head_dim 32"),
                           ({"profile": SGLANG, "tokens": 2}, "one query token"),
                           ({"profile": SGLANG, "kv_heads": case["query_heads"]}, "one has another kernel")):
        with pytest.raises(kvgold.PackError, match=words):
            predict(case, **changed)


@pytest.mark.parametrize("splits", [1, 3])
def test_which_finds_the_kernel(splits):
    case = next(c for c in CASES if c["profile"] == CONTIGUOUS and c["dim"] == 64 and c["splits"] == splits
                and c["tokens"] == 1 and not c["window"])
    q, k, v, _ = inputs(case)
    out, lse = predict(case)
    best, *others = kvgold.which(q, k, v, out, lse, lengths=case["lengths"])
    assert (best.profile, best.out, best.lse) == (CONTIGUOUS, 1.0, 1.0)
    assert best.changed == ("in 3 splits" if splits == 3 else "")
    assert sum(kernel.out < 1 for kernel in others) > len(others) / 2
    out.view(np.uint16)[0, 0, 0, 0] ^= 1
    assert 0.99 < kvgold.which(q, k, v, out, lengths=case["lengths"])[0].out < 1


def test_which_names_the_changed_rule():
    """Up to one leaf and one segment of a row, mma16816.v2 is v1 but for 2^x; FlashAttention-3 adds weights by lanes."""
    case = next(c for c in CASES if c["profile"] == PAGES and c["tokens"] == 1 and not c["window"] and c["dtype"] == "bf16")
    case = {**case, "profile": "sm90.mma16816.v2", "dim": 16, "lengths": [n for n in case["lengths"] if n <= 256]}
    q, k, v, _ = inputs(case)
    out, lse = predict(case)
    found = [kernel for kernel in kvgold.which(q, k, v, out, lse, lengths=case["lengths"]) if kernel.profile.endswith("v1")]
    assert any(kernel.changed == "with 2^x by ex2.approx" and kernel.out == kernel.lse == 1 for kernel in found)
    assert all((kernel.out, kernel.lse) != (1, 1) for kernel in found if not kernel.changed)
    out, lse = predict({**case, "profile": PAGES})
    found = {(kernel.profile, kernel.changed): kernel for kernel in kvgold.which(q, k, v, out, lse, lengths=case["lengths"])}
    for changed in ("with l from rounded weights", "with l from weights in a tree", "with tiles from the first to the last",
                    "with 2^x by the polynomial"):
        assert found[PAGES, changed].lse < 1, changed


def test_a_kernel_without_lse():
    case = next(c for c in CASES if c["profile"] == VLLM)
    q, k, v, _ = inputs(case)
    out, lse = predict(case)
    assert lse is None
    best = kvgold.which(q, k, v, out, lengths=case["lengths"])[0]
    assert (best.out, best.lse) == (1, None) and "triton" in best.profile
    with_lse = kvgold.which(q, k, v, out, np.zeros(out.shape[:3], np.float32), lengths=case["lengths"])
    assert all(kernel.lse == 0 for kernel in with_lse if kernel.profile == VLLM)


def test_a_tensor_of_torch_stays_one():
    torch = pytest.importorskip("torch")
    case = next(c for c in CASES if c["dtype"] == "bf16" and not c["sinks"] and not c["window"])
    q, k, v = (torch.from_numpy(x.view(np.int16)).view(torch.bfloat16) for x in inputs(case)[:3])
    out, lse = kvgold.predict(case["profile"], q, k, v, lengths=torch.tensor(case["lengths"]), scale=case["scale"])
    assert (out.dtype, out.shape, lse.dtype) == (torch.bfloat16, q.shape, torch.float32)
    assert bits(out.view(torch.int16).numpy(), lse.numpy()) == (case["out"], case["lse"])


@pytest.mark.parametrize("changed, says", [
    ({"softcap": 30.0}, "built without a softcap"),
    ({"sinks": [0.3]}, "takes sinks that are bf16 numbers"),
    ({"sinks": [1.0, 2.0]}, "sinks must have one number for each query head"),
    ({"splits": 33}, "a whole number from 1 to 32"),
    ({"profile": "simt.fma.v1", "splits": 2}, "the same bits for every number of splits"),
    ({"lengths": [99]}, "99"),
    ({"lengths": [[1]]}, "lengths has 2 dimensions, not one"),
    ({"q": np.zeros((1, 1, 1, 64), np.float32)}, "q is float32"),
    ({"q": np.zeros((1, 1, 1, 32), np.float16)}, "different numbers of dims"),
    ({"q": np.zeros((2, 1, 1, 64), np.float16)}, "different numbers of sequences"),
    ({"k": np.zeros((1, 4, 2, 64), np.float16)}, "k and v have different shapes"),
    ({"v": np.zeros((1, 4, 1, 64), np.uint16)}, "v is BF16 with 4 dimensions, not F16 with 4"),
    ({"k": np.zeros((1, 4, 1, 64), np.uint8), "v": np.zeros((1, 4, 1, 64), np.uint8)}, "e4m3 with model type bf16"),
    ({"profile": "sm90.fa3"}, "no profile 'sm90.fa3'"),
    ({"profile": XQA, "softcap": 30.0}, "built without a softcap"),
    ({"profile": XQA, "split_size": 64}, "not cut into pieces of a given size"),
    ({"profile": XQA, "q": np.zeros((1, 1, 33, 64), np.float16)}, "known for up to 32 query heads of a KV head"),
    ({"profile": SGLANG + ".one", "q": np.zeros((1, 1, 2, 64), np.float16)}, "several have another kernel"),
    ({"profile": FLASHMLA}, "reads rows of 576 bf16 numbers"),
    ({"profile": FLASHMLA, "v_dim": 512}, "has v, and a v_dim says"),
    ({"profile": FLASHMLA, "v": None}, "no tensor 'v' among its 2"),
    ({"profile": PAGES, "v": None, "v_dim": 64}, "reads K and V of their own"),
    ({"profile": PAGES, "v": None, "v_dim": 65}, "do not lie in head_dim 64"),
])
def test_what_is_refused_is_said_in_one_line(changed, says):
    rows = np.zeros((1, 4, 1, 64), np.float16)
    asked = {"profile": PAGES, "q": rows[:, :1], "k": rows, "v": rows, **changed}
    with pytest.raises(kvgold.PackError) as caught:
        kvgold.predict(asked.pop("profile"), asked.pop("q"), asked.pop("k"), asked.pop("v"), **asked)
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_dims_beyond_the_kernel_are_refused():
    rows = np.zeros((1, 4, 1, 288), np.float16)
    with pytest.raises(kvgold.PackError, match="not known for head_dim 288"):
        kvgold.predict(PAGES, rows, rows, rows)


@pytest.mark.parametrize("changed, says", [({"window": 20}, "has no window"), ({"splits": 2}, "plans its splits itself")])
def test_flashmla_refuses(changed, says):
    case = next(case for case in CASES if case["profile"] == FLASHMLA)
    with pytest.raises(kvgold.PackError, match=says):
        predict(case, **changed)
