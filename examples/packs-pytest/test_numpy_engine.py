import kvgold
import pytest

from numpy_engine import flatten


@pytest.mark.kvgold("nhd", op="flatten", format="nvfp4")
def test_pack(kvgold_case):
    tensors = {name: array.copy() for name, array in kvgold_case.inputs.items()}
    kvgold.assert_matches(kvgold_case, flatten(kvgold_case.problem, tensors))


def test_fresh_data():
    """The same function, asked about data from a seed that nobody knows before."""
    report = kvgold.check(flatten, {"op": "flatten", "format": "nvfp4", "layout": ["nhd", "hnd"], "dtype": "bf16",
                                    "kv_heads": 2, "head_dim": 64, "tokens": 21, "block_tokens": 4, "layers": 2,
                                    "sequences": 3, "fill": ["codes", "random"], "scale": {"k": 0.3, "v": 0.0123}})
    assert report.passed, str(report)
