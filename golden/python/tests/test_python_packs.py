"""The packs of the repository: this package and the safetensors library open them, and numpy gives their answers."""

import os
import re

import numpy as np
import pytest
import safetensors

import kvgold
from kvgold import layouts_numpy
from kvgold.adapters.numpy import answer
from kvgold.problem import problem_of

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
    missing = layouts - {case.problem.layout for name in PACKS for case in kvgold.load(f"{FOLDER}/{name}")}
    assert not missing, f"docs/guide/add.md, a layout, step 4: no pack of {FOLDER} has a case of {missing}"


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
                groups = problem.v_scale_swizzle and side == "v" and problem.block_tokens > 4
                if part == "scales" and (groups or problem.sides[i].scales == 0):
                    with pytest.raises(ValueError):
                        kvgold.pages(problem, side, part, tensors)
                    continue
                name, at = index(problem, i, slots)
                try:
                    view = kvgold.pages(problem, side, part, tensors)[problem.layer]
                except ValueError:  # the bytes of a row lie in groups
                    assert problem.layout in ("rocm_attn", "rocm_aiter", "rocm_aiter_fp8", "dsa_indexer_aiter")
                    continue
                rows = view.swapaxes(1, 2).reshape(len(slots), problem.kv_heads, -1)
                assert np.array_equal(rows, tensors[name][at]), (case.id, side, part)
                view[...] = 0xA5  # a view: the pool changes, and nothing but these bytes
                assert (tensors[name][at] == 0xA5).all()
                seen.add((problem.layout, part))
    assert {layout for layout, _ in seen} >= {"hnd", "nhd", "vllm", "vllm_hnd", "trtllm", "turbomind", "slot", "ring"}


def pages_of(formats, **axes):
    return problem_of(f"probe/{formats}/pages", {"op": "probe", "kv_heads": 2, "head_dim": 32, "block_tokens": 4, "blocks": 2, **axes}, 0)


@pytest.mark.parametrize("row", ["[H C/16 N C%16]", "[H C//2 N C%%2]"])
def test_a_text_with_digits_of_the_row(row):
    """Pages of 812 bytes: K's 256, 44 of padding, V's 512; each head has half. Of block 1, head 1, token 2:

    K's byte 17 = 16 x 1 + 1 at 812 + 128 + 1 x 64 + 2 x 16 + 1 = 1037
    V's byte 35 = 2 x 17 + 1 at 812 + 300 + 256 + 17 x 8 + 2 x 2 + 1 = 1509"""
    problem = pages_of("e4m3.canonical+bf16.canonical")
    places = layouts_numpy.read(f"[L B]{{ K.scales +8 {row} K.codes +%100 [H E N] V.codes }}", problem)
    for name, length, byte, at in (("K.codes", 32, 17, 1037), ("V.codes", 64, 35, 1509)):
        place = places[name]
        assert place.pool == "k_data" and len(place.byte) == length
        assert place.base + place.block[1] + place.head[1] + place.token[2] + place.byte[byte] == at
    apart = layouts_numpy.read("[L B H N] K.codes ; [L B H N]{ K.scales V.codes }", problem)
    assert [place.pool for place in apart.values()] == ["k_data", "v_data"]
    with pytest.raises(ValueError, match="K.codes has 16 bytes, which E does not divide"):
        layouts_numpy.read("[L B H N]{ [E] K.codes K.scales V.codes V.scales }", pages_of("rowfp4.canonical"))


@pytest.mark.parametrize("text, why", [
    ("[L B H N] K.codes", "V.codes stands 0 times"),
    ("[L B H N]{ K.codes V.codes K.codes }", "K.codes stands 2 times"),
    ("[L B N]{ K.codes V.codes }", "the axes of K.codes do not count each of its bytes once"),
    ("[L B B H N]{ K.codes V.codes }", "the axes of K.codes do not count each of its bytes once"),
    ("[L B H N%2 N%2]{ K.codes V.codes }", "the axes of K.codes do not count each of its bytes once"),
    ("[L B H N/3 N%3]{ K.codes V.codes }", "N%3 does not divide 4"),
    ("[L B H N C]{ K.codes V.codes }", "C counts fields of other sizes"),
    ("[L B H N E]{ [C] K.codes V.codes }", "rows are cut by E and by C"),
    ("[L/2 B H N]{ K.codes V.codes }", "'/2' is no word of it"),
    ("[L B H N]{ K.codes V.codes +%8 +4 }", "a multiple is the last padding of its nest"),
    ("[L B H N] K.codes [L B H N] V.codes", "';' is missing before"),
    ("[L B H N] V.codes +4 ; [L B H N] K.codes ; ", "a field is missing before ';'")])
def test_a_text_that_is_no_layout(text, why):
    with pytest.raises(ValueError, match=f"^layout: {re.escape(why)}"):
        layouts_numpy.read(text, pages_of("e4m3.canonical+bf16.canonical"))


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
    groups = pages_of("nvfp4.canonical", layout="hnd", head_dim=64, block_tokens=8, v_scale_swizzle=True)
    tensors = {"v_scale_pool": np.zeros(2 * 2 * 8 * 4, np.uint8)}
    with pytest.raises(ValueError, match="scales of 'v' lie in groups"):
        kvgold.pages(groups, "v", "scales", tensors)
