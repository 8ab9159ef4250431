#!/usr/bin/env python3
"""Holds configs/schema.json and the program against each other.

    check_schema.py KVGOLD

Every config of `kvgold check` (pool configs have no "cases") and every model of the repository is good for both; every file of tests/harness/bad_configs is refused by the
program with the text that expect_configs.txt gives, and by the schema where that is its to see; the names in the schema
are those of `kvgold list`. Ends with `N passed, N failed`; exit status 1 on failure."""

import glob
import json
import os
import re
import subprocess
import sys
import tempfile

from jsonschema import Draft202012Validator

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BAD = os.path.join(ROOT, "tests", "harness", "bad_configs")

counts = {True: 0, False: 0}


def check(condition, text):
    counts[bool(condition)] += 1
    if not condition:
        print(f"FAIL {text}")


def read(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def run(kvgold, *arguments):
    result = subprocess.run([kvgold, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout, result.stderr


def list_text(kvgold, config):
    """What `kvgold list` prints for a config; nothing if it is refused."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as f:
        json.dump(config, f)
        f.flush()
        return run(kvgold, "list", f.name)[1]


def first_words(kvgold, what, header):
    """The first word of each line of `kvgold list WHAT`."""
    lines = run(kvgold, "list", what)[1].splitlines()[header:]
    return [line.split()[0] for line in lines]


def check_good(kvgold, schema):
    config = Draft202012Validator(schema)
    model = Draft202012Validator({"$ref": "#/$defs/model", "$defs": schema["$defs"]})
    files = sorted(set(glob.glob(f"{ROOT}/configs/*.json") + glob.glob(f"{ROOT}/tests/*/*.json")))
    configs = [path for path in files if "cases" in read(path)]
    models = sorted(glob.glob(f"{ROOT}/configs/models/*.json"))
    check(configs and models, "no configs or no models")
    for path in configs:
        errors = [f"{error.json_path}: {error.message}" for error in config.iter_errors(read(path))]
        check(not errors, f"{path}: the schema refuses a good config: {errors[:3]}")
        code, _, text = run(kvgold, "list", path)
        check(code == 0, f"{path}: the program refuses it: {text}")
    with open(f"{ROOT}/docs/config.md", encoding="utf-8") as f:
        example = json.loads(re.search(r"```json\n(.*?)```", f.read(), re.DOTALL).group(1))
    check(config.is_valid(example), "docs/config.md: the schema refuses the example")
    check(len(list_text(kvgold, example).splitlines()) == 80, "docs/config.md: the example has not the cases that it says")
    for path in models:
        errors = [f"{error.json_path}: {error.message}" for error in model.iter_errors(read(path))]
        check(not errors, f"{path}: the schema refuses a good model: {errors[:3]}")
        check(run(kvgold, "memory", path)[0] == 0, f"{path}: the program refuses it")
        for key in sorted(set(read(path)) - {"shared_kv", "other_layers"}):
            part = {k: v for k, v in read(path).items() if k != key}
            check(not model.is_valid(part), f"{path}: the schema takes a model without {key}")


def check_names(kvgold, schema):
    defs = schema["$defs"]
    groups, axes, exclude = (defs[name]["properties"] for name in ("group", "axes", "exclude"))
    dialects = [line.split()[1] for line in run(kvgold, "list", "dialects")[1].splitlines()[1:]]
    check(list(axes) == list(exclude) == list(groups)[:len(axes)], "the axes differ between group, include and exclude")
    for name, found in (
        ("op", first_words(kvgold, "ops", 0)),
        ("format", first_words(kvgold, "formats", 1)),
        ("dialect", list(dict.fromkeys(dialects))),
        ("layout", first_words(kvgold, "layouts", 0)),
        ("fill", [fill for fill in first_words(kvgold, "fills", 0) if fill != "capture"]),
    ):
        known = defs[name]["enum"]
        check(sorted(known) == sorted(found), f"{name}: the schema has {sorted(known)}, the program {sorted(found)}")


def check_words(kvgold, what, known, wrong, config):
    for value in [*known, wrong]:
        taken = list_text(kvgold, config(value)) != ""
        check(taken == (value != wrong), f"{what} {value}: the program {'takes' if taken else 'refuses'} it")


def check_refusals(kvgold, schema, good):
    """Words without a list command: the program must take each and refuse one more."""
    group = good["cases"][0]
    for axis, wrong in (("dtype", "u8"), ("scale", "P5")):
        check_words(kvgold, axis, schema["$defs"][axis]["enum"], wrong, lambda word: {**good, "cases": [{**group, axis: word}]})
    unstored = {key: value for key, value in group.items() if key != "format"}
    for axis, base, value in (
        ("policy", unstored, {"number": 0}),
        ("rope", {**group, "op": "append", "layout": "hnd"}, {"dims": 8}),
    ):
        for key, property in schema["$defs"][axis]["properties"].items():
            if "enum" in property:
                check_words(kvgold, f"{axis}.{key}", property["enum"], "x",
                            lambda word: {**good, "cases": [{**base, axis: {**value, key: word}}]})


def check_bad(kvgold, schema):
    config = Draft202012Validator(schema)
    with open(os.path.join(BAD, "expect_configs.txt"), encoding="utf-8") as f:
        expected = [line.rstrip("\n").split(" | ", 2) for line in f]
    listed = sorted(name for name, _, _ in expected)
    check(listed == sorted(name for name in os.listdir(BAD) if name.endswith(".json")), "expect_configs.txt and the folder differ")
    written = subprocess.run([sys.executable, f"{BAD}/make_bad_configs.py", "--check"], capture_output=True, text=True, check=False)
    check(written.returncode == 0, f"bad_configs: {written.stdout}")
    for name, kind, text in expected:
        path = os.path.join(BAD, name)
        code, _, error = run(kvgold, "list", path)
        check(code == 2 and name in error and text in error, f"{name}: exit code {code}: {error.strip()}; expected: {text}")
        if kind != "text":
            taken = config.is_valid(read(path))
            check(taken == (kind == "program"), f"{name}: the schema {'takes' if taken else 'refuses'} it: kind {kind} is wrong")


def main():
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    kvgold = os.path.abspath(sys.argv[1])
    schema = read(os.path.join(ROOT, "configs", "schema.json"))
    Draft202012Validator.check_schema(schema)
    check_good(kvgold, schema)
    check_names(kvgold, schema)
    check_refusals(kvgold, schema, read(os.path.join(ROOT, "tests", "planted", "planted.json")))
    check_bad(kvgold, schema)
    print(f"{counts[True]} passed, {counts[False]} failed")
    return 1 if counts[False] or not counts[True] else 0


if __name__ == "__main__":
    sys.exit(main())
