"""kvgold.load, assert_matches and save_answer on packs that the tests write: what they refuse, and with what words."""

import json
import os
import shutil
import stat
import sys
import unittest

import numpy as np
import pytest
import safetensors.numpy

import kvgold
import pack_writer
from kvgold import container, program
from pack_writer import append_case, decode_case


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "pack")


@pytest.fixture
def pack(folder):
    return kvgold.load(pack_writer.write(folder, [append_case("0000"), decode_case("0001", "sm90.mma16816.v1")]))


def test_what_is_in_it(pack):
    case = pack["0000"]
    assert (len(pack), pack.name, case.id, case.problem["format"]) == (2, "fixture", "append/0000", "nvfp4")
    assert case.inputs["k"].dtype == np.uint16 and case.inputs["slots"].tolist() == [1]
    assert case.floats("k")[0, 0, 15] == np.uint32(15 << 16).view(np.float32)
    assert case.expected["k_data"].tolist() == list(range(16))
    assert not case.expected["k_data"].flags.writeable
    assert case.packing("k_data") == {"k": "low_first"} and case.packing("slots") == {}
    assert [c.key for c in pack.select(op=("append", "decode"), layout="nhd")] == ["0001"]
    assert pack["decode/0001"].answers[0].profile == "sm90.mma16816.v1"


def test_what_it_says_of_itself(pack):
    assert repr(pack) == "<kvgold.Pack fixture 1.0.0: 2 cases>"
    assert repr(pack["0001"]) == "<kvgold.Case 0001 decode/0001>"
    assert repr(kvgold.load_prompt(pack.path)) == "[<kvgold.Prompt 0000 append/0000>, <kvgold.Prompt 0001 decode/0001>]"
    assert repr(pack["0000"].tensors["k"]) == "<kvgold.Tensor 0000.k BF16 [1, 1, 16]>"


def test_ml_dtypes_view(pack):
    assert pack["0000"].typed("k").dtype.name == "bfloat16"


def test_the_safetensors_library_opens_it(pack):
    for name in ("prompt", "expected"):
        with safetensors.safe_open(f"{pack.path}/{name}.safetensors", "np") as f:
            assert f.metadata()["name"] == "fixture" and any(not k.startswith("_") for k in f.keys())


@pytest.mark.parametrize("packing,want", [
    ("low_first", [0, 1, 2, 3, 4, 5, 6, 7]), ("turbomind", [0, 4, 1, 5, 2, 6, 3, 7]), ("halves", [0, 2, 4, 6, 1, 3, 5, 7])])
def test_nibbles(packing, want):
    assert kvgold.unpack_nibbles(np.array([[0x10, 0x32, 0x54, 0x76]], np.uint8), packing).tolist() == [want]


# ---- Verdicts ----

def test_storage(pack):
    case = pack["0000"]
    right = np.arange(16, dtype=np.uint8)
    kvgold.assert_matches(case, {"k_data": right})
    kvgold.assert_matches(case, "k_data", right.view(np.int8))
    wrong = right.copy()
    wrong[[7, 9]] ^= 0x80
    with pytest.raises(AssertionError, match=r"2 of 16 elements differ, the first at \[7\]: 0x87, expected 0x07; .*compare"):
        kvgold.assert_matches(case, "k_data", wrong)
    with pytest.raises(AssertionError, match=r"""
  given    \[0:8\]  0x00 0x01 0x02 0x03 0x04 0x05 0x06 0x87
  expected \[0:8\]  0x00 0x01 0x02 0x03 0x04 0x05 0x06 0x07$"""):
        kvgold.assert_matches(case, "k_data", wrong)
    with pytest.raises(AssertionError, match="lacks k_data"):
        kvgold.assert_matches(case, {})
    with pytest.raises(AssertionError, match="v_data is not asked for"):
        kvgold.assert_matches(case, {"k_data": right, "v_data": right})
    for other in (right.reshape(4, 4), right.astype(np.float32), right[:15]):
        with pytest.raises(AssertionError, match=r"not U8 of shape \[16\]"):
            kvgold.assert_matches(case, "k_data", other)


def numbers(*values):
    return np.array(values, np.float32)


@pytest.mark.parametrize("answer", [
    numbers(1.5, 2, 2.75, np.inf, 7), numbers(0.5, 2, 3.25, np.inf, np.nan), numbers(1, 2, 3, np.inf, -np.inf)])
def test_within_bound(pack, answer):
    kvgold.assert_matches(pack["0001"], {"out": answer})


@pytest.mark.parametrize("place,value", [
    (0, 1.5000001), (0, np.nan), (0, np.inf), (1, 2.0000002), (1, np.nan), (2, 2.7), (3, -np.inf), (3, 3e38), (3, np.nan)])
def test_outside_bound(pack, place, value):
    answer = numbers(1, 2, 3, np.inf, 0)
    answer[place] = value
    with pytest.raises(AssertionError, match=rf"1 of 5 numbers are outside their bound, the first at \[{place}\].*0x"):
        kvgold.assert_matches(pack["0001"], "out", answer)


def test_the_row_of_a_number(pack):
    with pytest.raises(AssertionError, match=r"""
  given    \[0:5\]    1   2   9 inf nan
  expected \[0:5\]    1   2   3 inf nan$"""):
        kvgold.assert_matches(pack["0001"], "out", numbers(1, 2, 9, np.inf, np.nan))


def test_profile_bits(pack):
    other_nan = np.array([0x3FA00000, 0x40000000, 0x40400000, 0x7F800000, 0xFFC00001], np.uint32).view(np.float32)
    kvgold.assert_matches(pack["0001"], "out", other_nan, bits=True)
    with pytest.raises(AssertionError, match=r"\[0\]: 0x3f800000, expected 0x3fa00000"):
        kvgold.assert_matches(pack["0001"], "out", numbers(1, 2, 3, np.inf, np.nan), bits=True)


def test_the_value_rule_is_not_judged_here(folder):
    case = append_case("0000")
    case["entry"]["answer"][0]["compare"] = "rule"
    with pytest.raises(kvgold.Unjudged, match="by kvgold compare alone") as raised:
        kvgold.assert_matches(kvgold.load(pack_writer.write(folder, [case]))["0000"], {"k_data": np.arange(16, dtype=np.uint8)})
    assert issubclass(raised.type, unittest.SkipTest)


def test_a_recipe_without_the_program(folder, monkeypatch):
    case = append_case("0000")
    case["entry"]["stored"] = False
    pack = kvgold.load(pack_writer.write(folder, [case, append_case("0001")]))
    monkeypatch.setenv("KVGOLD", "/nonexistent/kvgold")
    with pytest.raises(kvgold.Unjudged, match="recipes, and they are not expanded: /nonexistent/kvgold: No such file"):
        pack["0000"].inputs["k"]
    monkeypatch.setenv("KVGOLD", "false")  # a program that fails is no skip
    with pytest.raises(kvgold.PackError, match="false golden exited with 1"):
        pack["0000"].inputs["k"]
    assert [p.key for p in kvgold.load_prompt(folder)] == ["0001"]


class Screen:
    """A stderr that leaves a mark when something is written."""

    def __init__(self, mark):
        self.mark, self.text = mark, ""

    def write(self, text):
        self.text += text
        self.mark.touch()

    def flush(self):
        pass


@pytest.mark.parametrize("status", [0, 2])
def test_the_progress_of_a_long_run_is_shown_while_it_runs(tmp_path, monkeypatch, status):
    """The program waits, for 5 s at most, until its line is on the screen."""
    mark = tmp_path / "mark"
    tool = tmp_path / "kvgold"
    tool.write_text(f"#!/bin/sh\necho working >&2\nfor i in $(seq 50); do [ -e {mark} ] && break; sleep 0.1; done\n"
                    f"[ -e {mark} ] && echo seen\necho failed >&2\nexit {status}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("KVGOLD", str(tool))
    monkeypatch.setattr("kvgold.program.QUIET", 0)
    monkeypatch.setattr("sys.stderr", Screen(mark))
    if status:
        with pytest.raises(kvgold.PackError, match=f"{tool} compare exited with 2: failed$"):
            program.run_program("compare")
    else:
        assert program.run_program("compare") == "seen\n"
    assert sys.stderr.text == "working\nfailed\n" and mark.exists()


@pytest.mark.parametrize("given", [None, "active"])
def test_threads_that_wait_sleep_unless_the_user_decides(monkeypatch, given):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if given:
        monkeypatch.setenv("OMP_WAIT_POLICY", given)
    monkeypatch.setenv("KVGOLD", "printenv")
    assert program.run_program("OMP_WAIT_POLICY") == f"{given or 'passive'}\n"


def test_a_short_run_shows_nothing(monkeypatch, capfd):
    monkeypatch.setenv("KVGOLD", "ls")
    with pytest.raises(kvgold.PackError, match="no such file"):
        program.run_program("no such file")
    assert capfd.readouterr() == ("", "")


def test_errata_are_shown(folder):
    def change(value):
        value["errata"] = [{"id": "E1", "date": "2026-11-21", "text": "wrong byte", "cases": ["0001"]}]
        value["superseded_by"] = "fixture-2"
    with pytest.warns(kvgold.ErratumWarning, match="superseded by fixture-2"):
        pack = kvgold.load(pack_writer.write(folder, [append_case("0000"), append_case("0001")], change))
    with pytest.warns(kvgold.ErratumWarning, match="case 0001: erratum E1 of 2026-11-21: wrong byte"):
        pack["0001"].expected
    pack["0000"].expected  # pytest.ini makes other warnings errors


# ---- Answers ----

def test_answer_file(pack, tmp_path):
    path = tmp_path / "answer.safetensors"
    out = np.array([1, 2, 3, 4, 5], np.float32)
    kvgold.save_answer(path, {pack["0000"]: {"k_data": np.arange(16, dtype=np.uint8)}, pack["0001"]: {"out": out}})
    read = safetensors.numpy.load_file(path)
    assert set(read) == {"0000.k_data", "0001.out"} and (read["0001.out"] == out).all()
    for tensors, text in (({"k": out}, "k is not asked for"), ({}, "an answer without a tensor")):
        with pytest.raises(kvgold.PackError, match=text):
            kvgold.save_answer(path, {pack["0000"]: tensors})


@pytest.mark.parametrize("axes,why", [
    ({"formatt": "nvfp4"}, r"pack fixture: no axis 'formatt' \(did you mean 'format'\?\)"),
    ({"format": "nvpf4"}, r"pack fixture has no case with format='nvpf4' \(did you mean 'nvfp4'\?\)"),
    ({"op": ["append", "quantize"]}, r"no case with op='quantize' \(did you mean 'quantise'\?\)")])
def test_an_unknown_word_is_refused(pack, axes, why):
    for select in (pack.select, lambda **given: pack.select(allow_empty=True, **given),
                   lambda **given: kvgold.pytest_cases(pack, **given)):
        with pytest.raises(ValueError, match=f"{why}$"):
            select(**axes)


def test_an_empty_selection(pack):
    """Words that a config knows, and numbers: nothing is misspelt."""
    for axes in ({"format": "int4"}, {"tokens": 7}, {"op": "append", "layout": ["nhd"]}):
        with pytest.raises(ValueError, match=f"^pack fixture has no case with {next(iter(axes))}="):
            pack.select(**axes)
        assert pack.select(allow_empty=True, **axes) == []
    assert [case.key for case in pack.select(layout=["hnd", "nhd"])] == ["0000", "0001"]


def test_parameters(folder, pack):
    assert [p.id for p in kvgold.pytest_cases(pack, op="append")] == ["append/0000"]
    assert len(kvgold.pytest_cases(folder)) == 2
    with pytest.raises(ValueError, match="no case with op='mma'"):
        kvgold.pytest_cases(pack, op="mma")


def test_prompts_know_no_answers(folder, pack):
    os.remove(f"{folder}/expected.safetensors")
    prompts = kvgold.load_prompt(folder)
    assert [p.id for p in prompts] == ["append/0000", "decode/0001"]
    assert prompts[0].answers[0].name == "k_data" and prompts[0].inputs["slots"].tolist() == [1]


# ---- Refusals: one planted fault each ----

def in_case(number, key, value):
    return lambda manifest: manifest["cases"][number].__setitem__(key, value)


def in_tensor(key, value):
    return lambda manifest: manifest["cases"][0]["prompt"][0].__setitem__(key, value)


MANIFEST_FAULTS = {
    "version": (lambda m: m.update(kvgold_pack="1.2.0"), "version '1.2.0'; this reader takes 1.0.x and 1.1.x"),
    "text in 1.0": (lambda m: m["cases"][0]["case"].update(layout={"name": "mine", "text": "[L B]"}), "cases[0]: a pack of version 1.0 has no layout of a text"),
    "unknown key": (lambda m: m.update(extra=1), "unknown key 'extra'"),
    "missing key": (lambda m: m.pop("licence"), "'licence' is missing"),
    "name": (lambda m: m.update(name="Upper"), "name: 'Upper' is not"),
    "seed": (lambda m: m.update(seed="1"), "seed: '1' is not"),
    "count": (lambda m: m.update(case_count=3), "3, but there are 2 cases"),
    "count type": (lambda m: m.update(case_count=2.0), "2.0 is not an integer"),
    "count bool": (lambda m: m.update(case_count=True), "True is not an integer"),
    "profiles": (lambda m: m.update(profiles=["x"]), "but answers name"),
    "path": (lambda m: m["files"].update({"../x": m["files"].pop("prompt.safetensors")}), "'../x' is a path"),
    "third file": (lambda m: m["files"].update(x=m["files"]["prompt.safetensors"]), "unknown key 'x'"),
    "size": (lambda m: m["files"]["prompt.safetensors"].update(bytes=5), "bytes, the manifest says 5"),
    "huge": (lambda m: m["files"]["prompt.safetensors"].update(bytes=1 << 40), "not an integer from 1 to"),
    "file hash": (lambda m: m["files"]["expected.safetensors"].update(sha256="0" * 64), "not the one in the manifest"),
    "hash case": (lambda m: m["files"]["prompt.safetensors"].update(sha256="A" * 64), "is not 64 hex digits"),
    "key": (in_case(1, "key", "0002"), "key '0002', not '0001'"),
    "id twice": (in_case(1, "id", "append/0000"), "comes twice"),
    "flag": (in_case(0, "flags", ["f"]), "flag 'f' is not in notes"),
    "layer": (in_case(0, "layer", -1), "-1 is not an integer"),
    "no op": (in_case(0, "case", {}), "cases[0].case.op"),
    "backend": (in_case(0, "case", {"op": "append", "backend": "x"}), "does not belong into a pack"),
    "tensor name": (in_tensor("name", "0001.k"), "does not belong to case 0000"),
    "tensor bytes": (in_tensor("name", "0000.K"), "is not a key, a dot"),
    "dtype": (in_tensor("dtype", "F4"), "'F4' is none of"),
    "other dtype": (in_tensor("dtype", "F16"), "where the manifest has 0000.k (F16"),
    "tensor size": (in_tensor("bytes", 31), "31 bytes do not fit"),
    "tensor hash": (in_tensor("sha256", "0" * 64), "0000.k: its SHA-256 is not"),
    "packing": (lambda m: m["cases"][0]["prompt"][2].update(packing={"k": "odd"}), "'odd' is none of"),
    "not stored": (in_case(0, "stored", False), "where the manifest has"),
    "no judge": (lambda m: m["cases"][1]["answer"][0].update(exact="0001.out.exakt"), "not by its own .exact"),
    "judge's shape": (lambda m: m["cases"][0]["answer"][0].update(shape=[4, 4]), "differ in dtype or shape"),
    "compare": (lambda m: m["cases"][0]["answer"][0].update(compare="close"), "'close' is none of"),
    "erratum": (lambda m: m.update(errata=[{"id": "E", "date": "2026-11-21", "text": "t", "cases": ["0007"]}]), "no case 0007"),
    "other id in prompt": (in_case(0, "id", "append/other"), "something else of case 0000"),
    "other name in prompt": (lambda m: m.update(name="other"), "another name than the manifest"),
    "deep": (lambda m: in_case(0, "case", {"op": "x", "y": deep(40)})(m), "nested deeper than 32"),
    "NaN": (in_case(0, "case", {"op": "x", "y": float("nan")}), "NaN is not JSON"),
}


def deep(levels):
    value = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("fault", MANIFEST_FAULTS)
def test_manifest_refused(folder, fault):
    change, text = MANIFEST_FAULTS[fault]
    pack_writer.write(folder, [append_case("0000"), decode_case("0001")], change)
    with pytest.raises(kvgold.PackError) as raised:
        kvgold.load(folder)
    assert text in str(raised.value) and "\n" not in str(raised.value)


def test_minus_zero_is_no_integer():
    with pytest.raises(kvgold.PackError, match="-0 is no integer"):
        container.parse_json(b'{"layer": -0}', "manifest.json")


def edited(file, edit):
    """The bytes of a safetensors file with its header edited; offsets stay."""
    def change(files):
        data = files[file]
        length = int.from_bytes(data[:8], "little")
        header = edit(json.loads(data[8:8 + length]))
        text = json.dumps(header, separators=(",", ":")).encode() if isinstance(header, dict) else header
        assert len(text) <= length
        files[file] = data[:8] + text.ljust(length) + data[8 + length:]
    return change


def offsets(name, begin, end):
    def edit(header):
        header[name]["data_offsets"] = [begin, end]
        return header
    return edited("prompt.safetensors", edit)


def twice(header):
    entries = list(header.items())
    return ("{" + ",".join(f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}" for k, v in [*entries[1:], entries[1]])
            + "}").encode()


def replaced(file, old, new):
    def change(files):
        assert old in files[file]
        files[file] = files[file].replace(old, new, 1)
    return change


def bound_of(value):
    """The pack's bound tensor with one number replaced, in the tensor's own bytes and digest."""
    case = decode_case("0000")
    array = case["expected"]["0000.out.bound"]
    array[1] = value
    case["entry"]["expected"][1] = pack_writer.entry("0000.out.bound", array)
    return case


FILE_FAULTS = {
    "cut": (lambda f: f.update({"prompt.safetensors": f["prompt.safetensors"][:-1]}), "ends at byte"),
    "longer": (lambda f: f.update({"prompt.safetensors": f["prompt.safetensors"] + b"x"}), "1 bytes after the last tensor"),
    "header past the end": (lambda f: f.update({"prompt.safetensors": b"\xff\xff\0\0\0\0\0\0{}"}), "a header of 65535 bytes"),
    "header too long": (lambda f: f.update({"prompt.safetensors": b"\xff" * 8 + b"{}"}), "more than 16777216"),
    "header no JSON": (edited("prompt.safetensors", lambda h: b"{,}"), "not JSON"),
    "name twice": (edited("prompt.safetensors", twice), "comes twice"),
    "overlap": (offsets("0000.slots", 250, 258), "overlaps the tensor before it"),
    "past the end": (offsets("0000.k_data", 1 << 20, (1 << 20) + 16), "ends at byte"),
    "size": (offsets("0000.k_data", 512, 520), "is 16 bytes, not 8"),
    "dtype": (replaced("prompt.safetensors", b'"dtype":"BF16"', b'"dtype":"BF17"'), "dtype 'BF17'"),
    "negative": (offsets("0000.k", -32, 0), "not a list of integers"),
    "pad": (replaced("prompt.safetensors", b"_pad.1", b"_pad.7"), "'_pad.7': not the U8 tensor _pad.1"),
    "renamed": (replaced("prompt.safetensors", b'"0000.slots"', b'"0000.slotz"'), "where the manifest has 0000.slots"),
    "metadata version": (replaced("expected.safetensors", b'"kvgold_pack":"1.0.0"', b'"kvgold_pack":"1.0.1"'), "another kvgold_pack"),
    "metadata layer": (replaced("prompt.safetensors", rb'\"layer\": 0', rb'\"layer\": 1'), "something else of case 0000"),
    "metadata case": (replaced("prompt.safetensors", b'"case.0001"', b'"case.0009"'), "has no case.0001"),
}


@pytest.mark.parametrize("fault", FILE_FAULTS)
def test_file_refused(folder, fault):
    change, text = FILE_FAULTS[fault]
    pack_writer.write(folder, [append_case("0000"), decode_case("0001")], change_files=change)
    with pytest.raises(kvgold.PackError) as raised:
        kvgold.load(folder)
    assert text in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("value", [np.nan, -1.0, -np.inf])
def test_bound_refused(folder, value):
    with pytest.raises(kvgold.PackError, match="negative or NaN"):
        kvgold.load(pack_writer.write(folder, [bound_of(value)]))


def test_pad_must_be_zero(folder):
    def change(files):
        data = bytearray(files["prompt.safetensors"])
        start = 8 + int.from_bytes(data[:8], "little")
        data[start + 40] = 1  # 0000.k has 32 bytes, the gap follows
        files["prompt.safetensors"] = bytes(data)
    pack_writer.write(folder, [append_case("0000")], change_files=change)
    with pytest.raises(kvgold.PackError, match="'_pad.0' is not all 0"):
        kvgold.load(folder)


def test_unaligned_is_refused_in_packs_alone(pack, tmp_path):
    path = tmp_path / "answer.safetensors"
    kvgold.save_answer(path, {pack["0000"]: {"k_data": np.zeros(16, np.uint8)}, pack["0001"]: {"out": np.zeros(5, np.float32)}})
    with pytest.raises(kvgold.PackError, match="no multiple of 256"):
        kvgold.load_prompt(path)


# ---- Refusals: the folder ----

NAMES = ("manifest.json", "manifest.sha256", "prompt.safetensors", "expected.safetensors", "provenance.json", "provenance.sha256")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind,text", [
    ("link", "a symbolic link"), ("missing", "No such file"), ("empty", "empty"), ("folder", "not a regular file"), ("fifo", "not a regular file")])
def test_file_kind_refused(folder, pack, name, kind, text):
    path = f"{folder}/{name}"
    shutil.move(path, f"{folder}/kept")
    if kind == "link":
        os.symlink("kept", path)
    elif kind == "empty":
        open(path, "w").close()
    elif kind == "folder":
        os.mkdir(path)
    elif kind == "fifo":
        os.mkfifo(path)
    with pytest.raises(kvgold.PackError, match=f"{name}: .*{text}"):
        kvgold.load(folder)


@pytest.mark.parametrize("end", ["", "/"])
def test_linked_folder_refused(folder, pack, tmp_path, end):
    os.symlink(folder, tmp_path / "link")
    with pytest.raises(kvgold.PackError, match="a symbolic link, not the folder"):
        kvgold.load(f"{tmp_path}/link{end}")
    assert kvgold.load(folder + "/").name == "fixture"


@pytest.mark.parametrize("name,old,new,text", [
    ("manifest.sha256", b"  manifest", b" *manifest", "not a SHA-256, two spaces"),
    ("manifest.sha256", b"\n", b"\n\n", "81 bytes, not 80"),
    ("manifest.json", b"Apache", b"apache", "its SHA-256 is not the one in manifest.sha256"),
    ("provenance.json", b"test", b"tesT", "its SHA-256 is not the one in provenance.sha256")])
def test_hash_files(folder, pack, name, old, new, text):
    with open(f"{folder}/{name}", "rb+") as f:
        data = f.read().replace(old, new, 1)
        f.seek(0)
        f.write(data)
    with pytest.raises(kvgold.PackError, match=text.replace("(", r"\(")):
        kvgold.load(folder)


def test_every_bit_counts(folder):
    """A flip of any bit of a pack of one case is noticed (a stride of bits: kvgold's own tests flip them all)."""
    pack_writer.write(folder, [append_case("0000")])
    tried = 0
    for name in NAMES:
        path = f"{folder}/{name}"
        with open(path, "rb") as f:
            data = f.read()
        assert stat.S_ISREG(os.stat(path).st_mode)
        for bit in range(0, 8 * len(data), 61):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            with open(path, "wb") as f:
                f.write(flipped)
            with pytest.raises(kvgold.PackError):
                kvgold.load(folder)
            tried += 1
        with open(path, "wb") as f:
            f.write(data)
    kvgold.load(folder)
    assert tried > 400
