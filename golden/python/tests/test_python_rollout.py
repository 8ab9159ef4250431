"""kvgold.rollout: models whose logits depend on the company of a token, where PyTorch is installed."""

import pytest

import kvgold

torch = pytest.importorskip("torch")

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]


class Model:
    """Logits that follow from the tokens up to each position; and what a `fault` makes of them."""

    def __init__(self, fault=""):
        self.fault, self.calls = fault, 0
        self.table = torch.randn(10, 16, generator=torch.Generator().manual_seed(1))

    def __call__(self, ids):
        self.calls += 1
        logits = torch.cumsum(self.table[ids], 1)
        if self.fault == "batch" and len(ids) > 1:
            logits[0, 7:] += 1e-3
        if self.fault == "place" and len(ids) > 1:
            logits[-1, 7:, 3] = logits[-1, 7:, 3].nextafter(torch.tensor(9e9))
        if self.fault == "length" and ids.shape[1] < len(TOKENS):
            logits[:, -1] *= 1.0001
        if self.fault == "random":
            logits += torch.randn(())
        if self.fault == "raises" and len(ids) > 1:
            raise MemoryError("no memory for a batch")
        return logits


@pytest.mark.parametrize("fault,ways,first", [("", (), None), ("batch", ("batch",), 7), ("place", ("place",), 7),
                                              ("length", ("rollout", "chunks"), 0)])
def test_callable(fault, ways, first):
    report = kvgold.rollout(Model(fault), TOKENS, chunk=5)
    assert {way.name for way in report.ways.values() if not way.holds} == {*ways}, str(report)
    assert bool(report) == (not ways) and set(report.ways) == {"rollout", "chunks", "batch", "place"}
    for name in ways:
        assert report[name].worst_logit > 0 and report[name].positions == len(TOKENS)
    if fault in ("batch", "place"):
        assert report[ways[0]].first == first and report[ways[0]].differing == len(TOKENS) - 7
        assert 0 < report[ways[0]].curve[7:].max() and not report[ways[0]].curve[:7].any()


def test_no_answer():
    report = kvgold.rollout(Model("raises"), TOKENS)
    assert report["batch"].reason.startswith("MemoryError: no memory for a batch") and not report["batch"].holds
    assert report["rollout"].holds and "not answered: MemoryError" in str(report)


@pytest.mark.parametrize("model,tokens,options,text", [
    (Model("random"), TOKENS, {}, "the same forward pass gives other bits"), (Model(), [3], {}, "too few"),
    (Model(), TOKENS, {"batch": 1}, "batch at least 2")])
def test_refusals(model, tokens, options, text):
    with pytest.raises(ValueError, match=text):
        kvgold.rollout(model, tokens, **options)


def test_plot():
    """A line for each way."""
    plot = kvgold.rollout(Model("batch"), TOKENS).svg()
    assert plot.startswith("<svg") and plot.count("<polyline") == 4 and "1e-" in plot


def llama():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "vocab_size": 10}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, attn_implementation="eager")).eval()


def test_layers():
    """A layer whose output depends on the batch is named; its cache's fault is that of another way."""
    model = llama()
    inner = model.model.layers[1].self_attn
    forward = inner.forward

    def wrong(*arguments, **options):
        out, *rest = forward(*arguments, **options)
        return (out * 1.5 if len(out) > 1 else out, *rest)
    inner.forward = wrong
    report = kvgold.rollout(model, TOKENS)
    assert report["batch"].first == 0 and report["batch"].part == "model.layers.1.self_attn"
    assert report["batch"].worst > 0 and report["rollout"].positions == len(TOKENS)


def test_caches():
    """A cache that rounds what it stores is seen; one that cannot be made has no answer."""
    transformers = pytest.importorskip("transformers")

    class Rounded(transformers.DynamicCache):
        def update(self, k, v, *rest, **more):
            return super().update(k.half().float(), v, *rest, **more)
    model = llama()
    report = kvgold.rollout(model, TOKENS, caches={"f16 keys": Rounded, "none": lambda: 1 / 0})
    assert report["f16 keys"].worst > report["rollout"].worst and report["f16 keys"].part == "model.layers.0.self_attn"
    assert report["none"].reason.startswith("ZeroDivisionError")
    model.train()
    with pytest.raises(ValueError, match="training mode"):
        kvgold.rollout(model, TOKENS)
