"""manifest.json of a pack, checked as docs/spec/golden-pack.md section 3 has it: every key, type, range and cross-reference.

`check` takes the parsed JSON and raises PackError; what it lets through can be used without further questions."""

from __future__ import annotations

import re
from typing import Any, Callable, Mapping

from .container import DTYPES, MAX_FILE, MAX_INTEGER, MAX_RANK, MAX_TENSOR, PackError, quote

FILES = ("prompt.safetensors", "expected.safetensors")
PACKINGS = ("low_first", "turbomind", "halves")

Check = Callable[[Any, str], None]


def fail(where: str, what: str) -> None:
    raise PackError(f"manifest.json: {where}: {what}")


# ---- Checks of values ----

def integer(low: int, high: int) -> Check:
    def check(value: Any, where: str) -> None:
        if type(value) is not int or not low <= value <= high:
            fail(where, f"{quote(value)} is not an integer from {low} to {high}")
    return check


def text(pattern: str, what: str) -> Check:
    compiled = re.compile(pattern)

    def check(value: Any, where: str) -> None:
        if type(value) is not str or not compiled.fullmatch(value):
            fail(where, f"{quote(value)} is not {what}")
    return check


def list_of(item: Check, low: int, high: int) -> Check:
    def check(value: Any, where: str) -> None:
        if type(value) is not list or not low <= len(value) <= high:
            fail(where, f"not a list of {low} to {high}")
        for i, entry in enumerate(value):
            item(entry, f"{where}[{i}]")
    return check


def ascending(item: Check, high: int) -> Check:
    def check(value: Any, where: str) -> None:
        list_of(item, 0, high)(value, where)
        if any(a >= b for a, b in zip(value, value[1:])):
            fail(where, "not ascending")
    return check


def object_of(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    optional = optional or {}

    def check(value: Any, where: str) -> None:
        if type(value) is not dict:
            fail(where, "not an object")
        for key in value:
            if key not in required and key not in optional:
                fail(where, f"unknown key {quote(key)}")
        for key in required:
            if key not in value:
                fail(where, f"key {quote(key)} is missing")
        for key, entry in value.items():
            (required.get(key) or optional[key])(entry, f"{where}.{key}" if where != "$" else key)
    return check


def map_of(key_check: Check, item: Check, high: int) -> Check:
    def check(value: Any, where: str) -> None:
        if type(value) is not dict or len(value) > high:
            fail(where, f"not an object of at most {high} keys")
        for key, entry in value.items():
            key_check(key, where)
            item(entry, f"{where}.{key}")
    return check


def either(*choices: Any) -> Check:
    def check(value: Any, where: str) -> None:
        if not any(type(value) is type(c) and value == c for c in choices):
            fail(where, f"{quote(value)} is none of {', '.join(str(c) for c in choices)}")
    return check


def optional_text(check: Check) -> Check:
    return lambda value, where: None if value is None else check(value, where)


# ---- The tables ----

ANY_TEXT = text(r"[^\x00]*", "a string")
SOME_TEXT = text(r"[^\x00]+", "a string that is not empty")
NAME = text(r"[a-z0-9][a-z0-9_.-]{0,63}", "1 to 64 of a-z 0-9 _ . -, the first a letter or digit")
SHA256 = text(r"[0-9a-f]{64}", "64 hex digits in lower case")
KEY = text(r"[0-9]{4}", "a key of 4 digits")
TENSOR_NAME = text(r"[0-9]{4}\.[a-z0-9_.]+", "a key, a dot, and a-z 0-9 _ .")
DTYPE = either(*DTYPES)
SHAPE = list_of(integer(1, MAX_INTEGER), 0, MAX_RANK)

PACKING = object_of({}, {"k": either(*PACKINGS), "v": either(*PACKINGS)})


def packing(value: Any, where: str) -> None:
    PACKING(value, where)
    if not value:
        fail(where, "neither k nor v")


TENSOR = object_of(
    {"name": TENSOR_NAME, "dtype": DTYPE, "shape": SHAPE, "bytes": integer(1, MAX_TENSOR), "sha256": SHA256},
    {"packing": packing})

ANSWER_BASE: dict[str, Check] = {"name": TENSOR_NAME, "dtype": DTYPE, "shape": SHAPE}
ANSWERS: dict[str, Check] = {
    "bits": object_of({**ANSWER_BASE, "compare": ANY_TEXT}, {"profile": SOME_TEXT}),
    "rule": object_of({**ANSWER_BASE, "compare": ANY_TEXT}),
    "bound": object_of({**ANSWER_BASE, "compare": ANY_TEXT, "exact": TENSOR_NAME, "bound": TENSOR_NAME},
                       {"profile": SOME_TEXT}),
}


def answer(value: Any, where: str) -> None:
    if type(value) is not dict:
        fail(where, "not an object")
    either(*ANSWERS)(value.get("compare"), f"{where}.compare")
    ANSWERS[value["compare"]](value, where)


def problem(value: Any, where: str) -> None:
    """A case group of docs/guide/config.md. Its grammar is the program's; here it must be an object that names an op."""
    if type(value) is not dict:
        fail(where, "not an object")
    SOME_TEXT(value.get("op"), f"{where}.op")
    for key in ("backend", "model", "include", "exclude"):
        if key in value:
            fail(where, f"key {quote(key)} does not belong into a pack")


CASE = object_of({
    "key": KEY, "id": SOME_TEXT, "case": problem, "layer": integer(0, (1 << 32) - 1),
    "flags": ascending(SOME_TEXT, 64), "stored": either(True, False),
    "prompt": list_of(TENSOR, 0, 32), "answer": list_of(answer, 1, 32), "expected": list_of(TENSOR, 1, 32),
})

ERRATUM = object_of({"id": SOME_TEXT, "date": text(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", "a date YYYY-MM-DD"),
                     "text": SOME_TEXT, "cases": list_of(KEY, 1, 10000)})

FILE = object_of({"bytes": integer(1, MAX_FILE), "sha256": SHA256})


def files(value: Any, where: str) -> None:
    if type(value) is dict:
        for key in value:
            if "/" in key or key in (".", ".."):
                fail(where, f"{quote(key)} is a path: a pack names no file but its own")
    object_of({name: FILE for name in FILES})(value, where)


MANIFEST = object_of({
    "kvgold_pack": ANY_TEXT, "name": NAME, "version": text(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}", "a version"),
    "licence": SOME_TEXT, "seed": text(r"0x[0-9a-f]{1,16}", "0x and 1 to 16 hex digits"),
    "case_count": integer(1, 10000), "profiles": ascending(SOME_TEXT, 10000),
    "notes": map_of(SOME_TEXT, ANY_TEXT, 10000), "errata": list_of(ERRATUM, 0, 64),
    "superseded_by": optional_text(NAME), "files": files, "cases": list_of(CASE, 1, 10000),
})


FORMAT_VERSION = re.compile(r"1\.[01]\.(0|[1-9][0-9]*)")


# ---- What must fit together ----

def check(value: Any) -> None:
    if type(value) is dict and type(value.get("kvgold_pack")) is str:  # another version has other keys: say so first
        if not FORMAT_VERSION.fullmatch(value["kvgold_pack"]):
            fail("kvgold_pack", f"version {quote(value['kvgold_pack'])}; this reader takes 1.0.x and 1.1.x")
    MANIFEST(value, "$")
    cases = value["cases"]
    if value["case_count"] != len(cases):
        fail("case_count", f"{value['case_count']}, but there are {len(cases)} cases")
    ids: set[str] = set()
    for i, case in enumerate(cases):
        where = f"cases[{i}]"
        if case["key"] != f"{i:04}":
            fail(where, f"key {quote(case['key'])}, not '{i:04}'")
        if case["id"] in ids:
            fail(where, f"id {quote(case['id'])} comes twice")
        ids.add(case["id"])
        if type(case["case"].get("layout")) is dict and value["kvgold_pack"].startswith("1.0."):
            fail(where, "a pack of version 1.0 has no layout of a text")
        check_case(case, where, value["notes"])
    for i, erratum in enumerate(value["errata"]):
        if len(set(erratum["cases"])) != len(erratum["cases"]):
            fail(f"errata[{i}]", "a case comes twice")
        for key in erratum["cases"]:
            if int(key) >= len(cases):
                fail(f"errata[{i}]", f"there is no case {key}")
    named = sorted({a["profile"] for case in cases for a in case["answer"] if "profile" in a})
    if value["profiles"] != named:
        fail("profiles", f"{quote(value['profiles'])}, but answers name {quote(named)}")


def check_case(case: Mapping[str, Any], where: str, notes: Mapping[str, str]) -> None:
    for flag in case["flags"]:
        if flag not in notes:
            fail(where, f"flag {quote(flag)} is not in notes")
    for part in ("prompt", "expected", "answer"):
        names = [entry["name"] for entry in case[part]]
        for name in names:
            if not name.startswith(case["key"] + "."):
                fail(f"{where}.{part}", f"{quote(name)} does not belong to case {case['key']}")
        if len(set(names)) != len(names):
            fail(f"{where}.{part}", "a name comes twice")
    for part in ("prompt", "expected"):
        for entry in case[part]:
            if size_of(entry) != entry["bytes"]:
                fail(f"{where}.{part}", f"{entry['name']}: {entry['bytes']} bytes do not fit its dtype and shape")
    expected = {entry["name"]: entry for entry in case["expected"]}
    for entry in case["answer"]:
        if entry["compare"] == "bound" and (entry["dtype"] not in ("F16", "BF16", "F32") or any(
                entry[k] != f"{entry['name']}.{k}" for k in ("exact", "bound"))):
            fail(f"{where}.answer", f"{entry['name']}: by a bound, but no number or not by its own .exact, .bound")
        for name, dtype in judges(entry):
            judge = expected.get(name)
            if judge is None:
                fail(f"{where}.answer", f"{entry['name']} has no expected tensor {quote(name)} to be judged by")
            elif judge["dtype"] != dtype or judge["shape"] != entry["shape"]:
                fail(f"{where}.answer", f"{entry['name']} and {name} differ in dtype or shape")


def judges(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name, dtype) of the expected tensors that an answer is judged by."""
    if entry["compare"] != "bound":
        return [(entry["name"], entry["dtype"])]
    own = [(entry["name"], entry["dtype"])] if "profile" in entry else []
    return own + [(entry["exact"], "F64"), (entry["bound"], "F64")]


def size_of(entry: Mapping[str, Any]) -> int:
    size = DTYPES[entry["dtype"]].itemsize
    for extent in entry["shape"]:
        size *= extent
    return size
