"""The packs of the repository: this package and the safetensors library open them, and numpy gives their answers."""

import os
import re

import numpy as np
import pytest
import safetensors

import kvgold
from kvgold import layouts_numpy
from kvgold.adapters.numpy import answer

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
FOLDER = os.path.join(ROOT, "golden", "data", "packs")
PACKS = sorted(name for name in os.listdir(FOLDER) if os.path.isdir(f"{FOLDER}/{name}"))


def test_there_are_packs():
    assert PACKS


def test_every_layout_is_in_a_pack():
    """Otherwise no answer of kvgold.layouts_numpy would be compared for it."""
    with open(f"{ROOT}/core/layouts.def", encoding="utf-8") as table:
        layouts = set(re.findall(r"^LAYOUT\(\w+, +(\w+),", table.read(), re.M))
    assert layouts
    assert not layouts - {case.problem.layout for name in PACKS for case in kvgold.load(f"{FOLDER}/{name}")}


def test_a_problem_has_the_names_of_configs():
    """Each axis that a case of a shipped pack has, but for the data and what only a config chooses, and an old name."""
    seen = set()
    for case in (case for name in PACKS for case in kvgold.load(f"{FOLDER}/{name}")):
        problem = case.problem
        assert dict(problem) == case.entry["case"] and problem.layer == case.layer and hash(problem) == hash(case.problem)
        for axis, value in problem.items():
            if axis in ("fill", "scale", "policy", "model"):
                continue
            mine = getattr(problem, axis)
            if isinstance(value, dict) and not isinstance(mine, dict):  # not every key of rope is an attribute
                mine = {part: getattr(mine, part, of) for part, of in value.items()}
            assert mine == value, (case.id, axis)
            seen.add(axis)
    assert seen >= {"op", "format", "dialect", "kv_heads", "head_dim", "tokens", "padding", "shared_kv", "rope", "sinks", "softcap"}


def test_old_names_of_a_problem():
    case = next(case for case in paged_cases() if case.problem.shared_kv)
    problem = case.problem
    new = {"heads": problem.kv_heads, "dim": problem.head_dim, "row_padding": problem.padding.row,
           "data_padding": problem.padding.data, "scale_padding": problem.padding.scales, "scale": problem.score_scale,
           "swizzle": problem.v_scale_swizzle, "shared": (problem.shared_kv.v_first, problem.shared_kv.v_dim)}
    for name, value in new.items():
        with pytest.warns(DeprecationWarning, match=f"^Problem.{name} is now Problem."):
            assert getattr(problem, name) == value
    with pytest.warns(DeprecationWarning, match="^case.parsed is now case.problem$"):
        assert case.parsed is problem


@pytest.mark.parametrize("name", PACKS)
def test_the_safetensors_library_opens_it(name):
    pack = kvgold.load(f"{FOLDER}/{name}")
    for part, attribute in (("prompt", "tensors"), ("expected", "expected")):
        with safetensors.safe_open(f"{FOLDER}/{name}/{part}.safetensors", "np") as file:
            names = {n for n in file.keys() if not n.startswith("_")}
            assert names == {f"{case.key}.{n}" for case in pack if case.stored for n in getattr(case, attribute)}
            for case in pack:
                if not case.stored:
                    continue
                for n, array in ((n, getattr(t, "array", t)) for n, t in getattr(case, attribute).items()):
                    listed = file.get_slice(f"{case.key}.{n}")
                    assert tuple(listed.get_shape()) == array.shape
                    if listed.get_dtype() != "BF16":  # of which numpy knows nothing
                        assert file.get_tensor(f"{case.key}.{n}").tobytes() == array.tobytes()


@pytest.mark.parametrize("name", PACKS)
def test_numpy_gives_its_answers(name):
    """The third computation of every expected tensor, after the reference and slowref."""
    judged = 0
    for case in kvgold.load(f"{FOLDER}/{name}"):
        if not case.stored:
            continue
        given = answer(case)
        if isinstance(given, str):
            continue
        try:
            kvgold.assert_matches(case, given)
        except kvgold.Unjudged:
            continue
        judged += 1
    assert judged


def test_a_shipped_pack_is_found_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert kvgold.load("hnd").path == f"{FOLDER}/hnd"
    for name, near in (("hndd", " (did you mean 'hnd'?)"), ("nosuch", "")):
        with pytest.raises(kvgold.PackError) as raised:
            kvgold.load(name)
        said, _, listed = str(raised.value).partition("; shipped: ")
        assert said == f"{name}: no such file{near}" and sorted(listed.split(", ")) == PACKS
        assert not near or listed.startswith("hnd, ")
    (tmp_path / "hnd").mkdir()  # a folder of the user goes before it
    with pytest.raises(kvgold.PackError, match="^hnd: manifest.json"):
        kvgold.load("hnd")


def paged_cases():
    cases = [case for name in PACKS for case in kvgold.load(f"{FOLDER}/{name}") if case.stored]
    return [case for case in cases if case.problem.layout != "rows"]


def test_views_of_pages_are_the_bytes_that_the_layout_says():
    """Against the index arrays of kvgold.layouts_numpy, whose answers are compared with the reference's."""
    seen = set()
    for case in paged_cases():
        problem = case.problem
        slots = np.arange(problem.blocks * problem.block_tokens)
        tensors = {name: array.copy() for name, array in (case.inputs if "k_data" in case.inputs else case.expected).items()}
        for i, side in enumerate(problem.names):
            for part, index in (("codes", layouts_numpy.code_index), ("scales", layouts_numpy.scale_index)):
                if part == "scales" and (problem.sides[i].scales == 0 or problem.v_scale_swizzle and side == "v"):
                    with pytest.raises(ValueError):
                        kvgold.pages(problem, side, part, tensors)
                    continue
                name, at = index(problem, i, slots)
                view = kvgold.pages(problem, side, part, tensors)[problem.layer]
                rows = view.swapaxes(1, 2).reshape(len(slots), problem.kv_heads, -1)
                assert np.array_equal(rows, tensors[name][at]), (case.id, side, part)
                view[...] = 0xA5  # a view: the pool changes, and nothing but these bytes
                assert (tensors[name][at] == 0xA5).all()
                seen.add((problem.layout, part))
    assert {layout for layout, _ in seen} >= {"hnd", "nhd", "vllm", "vllm_hnd", "trtllm", "turbomind", "slot", "ring"}


def test_views_that_there_are_not():
    case = next(case for case in paged_cases() if case.problem.op == "decode" and case.problem.layout == "hnd")
    problem = case.problem
    assert not kvgold.pages(case, "k").flags.writeable
    for arguments in ((case, "q"), (case, "k", "pages"), (problem, "k"), (problem, "k", "codes", {}),
                      (problem, "k", "codes", {"k_data": np.zeros(7, np.uint8)}),
                      (problem, "k", "codes", {"k_data": np.zeros((1 << 20, 2), np.uint8)[:, 0]}),
                      (problem, "k", "codes", {"k_data": np.zeros(1 << 20, np.uint16)})):
        with pytest.raises(ValueError):
            kvgold.pages(*arguments)
