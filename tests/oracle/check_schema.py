#!/usr/bin/env python3
"""Holds the JSON Schemas of configs/ and the program against each other.

    check_schema.py KVGOLD MADE

Every config of `kvgold check` (pool configs have no "cases") and every model of the repository is good for both; every
file of MADE/tests/harness/bad_configs (tests/made/make_files.py) is refused by the program with the text that
expect_configs.txt gives, and by the schema where that is its to see; the names in the schema are those of `kvgold list`. Ends with `N passed, N failed`; exit status 1 on failure."""

import glob
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

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
    with open(f"{ROOT}/docs/guide/config.md", encoding="utf-8") as f:
        page = f.read()
    example = json.loads(re.search(r"```json\n(.*?)```", page, re.DOTALL).group(1))
    said, listed = re.search(r"the ids of its (\d+) cases", page), len(list_text(kvgold, example).splitlines())
    check(config.is_valid(example), "docs/guide/config.md: the schema refuses the example")
    check(said and int(said.group(1)) == listed, f"docs/guide/config.md: the example has {listed} cases, not what the page says")
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
        ("profile", first_words(kvgold, "profiles", 0)),
        ("fill", [fill for fill in first_words(kvgold, "fills", 0) if fill != "capture"]),
    ):
        known = defs[name]["enum"]
        check(sorted(known) == sorted(found), f"{name}: the schema has {sorted(known)}, the program {sorted(found)}")


def check_words(kvgold, what, known, wrong, *configs):
    """The program takes each known word in one of the configs, and the wrong one in none."""
    for value in [*known, wrong]:
        taken = any(list_text(kvgold, config(value)) != "" for config in configs)
        check(taken == (value != wrong), f"{what} {value}: the program {'takes' if taken else 'refuses'} it")


def check_refusals(kvgold, schema, good):
    """Words without a list command: the program must take each and refuse one more."""
    group = good["cases"][0]
    decode = {**group, "op": "decode", "layout": "hnd"}
    # A kernel of another project may take 16 bits alone, give no LSE, or read K and V from one row.
    narrow = {**decode, "format": "bf16", "dtype": "bf16", "head_dim": 128, "block_tokens": 16, "answers": "out"}
    shared = {**narrow, "layout": "mla", "kv_heads": 1, "head_dim": 576, "shared_kv": {"v_dim": 512}, "block_tokens": 64}
    for axis, wrong, *bases in (("dtype", "u8", group), ("scale", "P5", group), ("operands", "f32", decode),
                                ("profile", "sm91", decode, narrow, {**narrow, "group": 4}, shared)):
        names = schema["$defs"].get(axis, schema["$defs"][f"{axis}_value"])["enum"]
        configs = [lambda word, base=base: {**good, "cases": [{**base, axis: word}]} for base in bases]
        check_words(kvgold, axis, names, wrong, *configs)
    unstored = {key: value for key, value in group.items() if key != "format"}
    for axis, base, value in (
        ("policy", unstored, {"number": 0}),
        ("rope", {**group, "op": "append", "layout": "hnd"}, {"dims": 8}),
    ):
        for key, property in schema["$defs"][axis]["properties"].items():
            if "enum" in property:
                check_words(kvgold, f"{axis}.{key}", property["enum"], "x",
                            lambda word: {**good, "cases": [{**base, axis: {**value, key: word}}]})


def check_bad(kvgold, schema, bad):
    config = Draft202012Validator(schema)
    with open(os.path.join(bad, "expect_configs.txt"), encoding="utf-8") as f:
        expected = [line.rstrip("\n").split(" | ", 2) for line in f]
    listed = sorted(name for name, _, _ in expected)
    check(listed == sorted(name for name in os.listdir(bad) if name.endswith(".json")), "expect_configs.txt and the folder differ")
    for name, kind, text in expected:
        path = os.path.join(bad, name)
        code, _, error = run(kvgold, "list", path)
        check(code == 2 and name in error and text in error, f"{name}: exit code {code}: {error.strip()}; expected: {text}")
        if kind != "text":
            taken = config.is_valid(read(path))
            check(taken == (kind == "program"), f"{name}: the schema {'takes' if taken else 'refuses'} it: kind {kind} is wrong")


def pool_code(kvgold, action, value):
    """The exit code of `kvgold pool ACTION` for a config or trace; a run of a single operation."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")  # pool.json is the run's
        with open(path, "w", encoding="utf-8") as f:
            json.dump(value, f)
        more = ["--ops", "1", "--jobs", "1", "--output", folder] if action == "run" else []
        return run(kvgold, "pool", action, path, *more)[0]


def check_pool(kvgold, schema):
    """Pool configs and traces: the good ones are good for both, and what is spoilt is refused by both."""
    config = Draft202012Validator(schema)
    trace = Draft202012Validator({"$ref": "#/$defs/trace", "$defs": schema["$defs"]})
    configs = [path for path in sorted(glob.glob(f"{ROOT}/configs/*_pool.json"))]
    traces = sorted(glob.glob(f"{ROOT}/configs/traces/pool_*.json"))
    check(len(configs) >= 3 and traces, "no pool configs or no traces")
    for path, validator in [*((path, config) for path in configs), *((path, trace) for path in traces)]:
        errors = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(read(path))]
        check(not errors, f"{path}: the schema refuses a good file: {errors[:3]}")
    for path in traces:
        code = 1 if "defect" in read(path) else 0
        check(pool_code(kvgold, "replay", read(path)) == code, f"{path}: exit code is not {code}")
    with open(f"{ROOT}/docs/guide/pool.md", encoding="utf-8") as f:
        example = json.loads(re.search(r"```json\n(.*?)```", f.read(), re.DOTALL).group(1))
    check(trace.is_valid(example) and pool_code(kvgold, "replay", example) == 0, "docs/guide/pool.md: the example is not good")
    scenario = {"name": "a", "operations": 1, "trace": 1, "pool": {"capacity": 4}}
    top = {"kvgold": 1, "name": "t", "seed": "0x1"}
    weights = {name: {**scenario, "kind": kind, "weights": {name: 1}}
               for kind in ("sequences", "blocks") for name in schema["$defs"]["scenario"]["properties"]["weights"]["properties"]}
    samples = [scenario, {**scenario, "pool": {}}, {**scenario, "x": 1}, {**scenario, "pool": {"x": 1}}, *weights.values()]
    samples += [{k: v for k, v in scenario.items() if k != key} for key in ("name", "operations", "pool")]
    for key, values in schema["$defs"]["scenario"]["properties"]["pool"]["properties"].items():
        low, high = values["anyOf"][0].get("minimum"), values["anyOf"][0].get("maximum")
        samples += [{**scenario, "pool": {key: value}} for value in ([], None, "x", -2, 1 << 40, True, 1, low, high) if value is not None]
    for key in ("trace", "sequences", "domains", "prompts", "shared", "tail", "batch", "drafts", "illegal", "faults", "kind"):
        samples += [{**scenario, key: value} for value in (True, "x", -1, 0, 1, [1, 2], [0, 1], [1], [1, 2, 3], 1 << 40, 1.5)]
    for sample in samples:
        value = {**top, "scenarios": [sample]}
        if sample.get("pool", {}).get("capacity") == 1 << 20:
            continue  # as large as the schema allows: the run would be slow
        taken, code = config.is_valid(value), pool_code(kvgold, "run", value)
        check(taken == (code == 0), f"pool scenario {sample}: the schema {'takes' if taken else 'refuses'} it, exit code {code}")
    good = {"kvgold": 1, "name": "t", "kind": "sequences", "pool": {}, "ops": [{"op": "commit"}]}
    block = {**good, "kind": "blocks"}
    ops = [{"op": "erase"}, {"op": "erase", "sequence": 1}, {"op": "erase", "sequence": 1, "count": 1}, {"op": "lock", "ids": []},
           {"op": "append", "sequence": 1, "count": 65537}, {"op": "create", "sequence": 1, "tail": 1, "domain": 27}, {"op": "x"},
           {"op": "commit", "fault": {"kind": "memory"}}, {"op": "commit", "fault": {"kind": "x"}}, {"op": "evict", "count": 1}]
    for value in [good, block, *({**base, "ops": [op]} for base in (good, block) for op in ops), {**good, "ops": []}, {**good, "x": 1}]:
        taken, code = trace.is_valid(value), pool_code(kvgold, "replay", value)
        check(taken == (code in (0, 1)), f"pool trace {value}: the schema {'takes' if taken else 'refuses'} it, exit code {code}")


def changes(value):
    """Copies of a manifest or a config, each with one thing wrong that a schema can see."""
    for key in value:
        if key != "comment":
            yield f"without {key}", {k: v for k, v in value.items() if k != key}
        yield f"{key} is a number", {**value, key: 1.5}
    yield "unknown key", {**value, "x": 1}
    yield "upper-case name", {**value, "name": "Mine"}
    yield "version of two parts", {**value, "version": "1.0"}
    yield "seed without 0x", {**value, "seed": "12"}


def write_manifest(folder, manifest):
    text = (json.dumps(manifest) + "\n").encode()
    with open(os.path.join(folder, "manifest.json"), "wb") as f:
        f.write(text)
    with open(os.path.join(folder, "manifest.sha256"), "w", encoding="ascii") as f:
        f.write(f"{hashlib.sha256(text).hexdigest()}  manifest.json\n")


def case_changes(manifest):
    """The same inside of the first case."""
    case = manifest["cases"][0]
    tensor, answer = case["expected"][0], case["answer"][0]
    wrong = [{k: v for k, v in case.items() if k != key} for key in case]
    wrong += [{**case, "x": 1}, {**case, "stored": 1}, {**case, "key": "0"}, {**case, "layer": -1}, {**case, "answer": []}]
    for key, value in (("name", "x"), ("dtype", "U16"), ("shape", [0]), ("shape", [1, 1, 1, 1, 1]), ("sha256", "0" * 63), ("bytes", 0),
                       ("packing", {}), ("packing", {"k": "high_first"}), ("x", 1)):
        wrong.append({**case, "expected": [{**tensor, key: value}, *case["expected"][1:]]})
    for key, value in (("compare", "near"), ("compare", "bound"), ("exact", tensor["name"]), ("name", "k"), ("x", 1)):
        wrong.append({**case, "answer": [{**answer, key: value}, *case["answer"][1:]]})
    return [{**manifest, "cases": [one, *manifest["cases"][1:]]} for one in wrong]


def check_packs(kvgold, schema):
    """Manifests of the carried packs and the configs that make them: good for both; what is spoilt is refused by both."""
    with open(os.path.join(ROOT, "configs", "golden_schema.json"), encoding="utf-8") as f:
        golden = json.load(f)
    Draft202012Validator.check_schema(golden)
    manifest = Draft202012Validator(golden)
    config = Draft202012Validator({"$ref": "#/$defs/config", "$defs": golden["$defs"]})
    cases = Draft202012Validator(schema)
    packs = sorted(glob.glob(f"{ROOT}/golden/data/packs/*/manifest.json"))
    configs = sorted(glob.glob(f"{ROOT}/configs/pack_*.json"))
    check(packs and len(packs) == len(configs), f"{len(packs)} packs of {len(configs)} configs")
    for path in packs:
        value = read(path)
        errors = [f"{error.json_path}: {error.message}" for error in manifest.iter_errors(value)]
        check(not errors, f"{path}: the schema refuses a good manifest: {errors[:3]}")
        lines = [{"kvgold": 1, "name": "t", "seed": value["seed"], "cases": [case["case"]]} for case in value["cases"]]
        check(all(cases.is_valid(line) for line in lines), f"{path}: schema.json refuses the line of a case")
    for path in configs:
        value = read(path)
        errors = [f"{error.json_path}: {error.message}" for error in config.iter_errors(value)]
        check(not errors, f"{path}: the schema refuses a good config: {errors[:3]}")
        for group in value["groups"]:
            check(cases.is_valid({"kvgold": 1, "name": "t", "seed": "0x1", "cases": group["cases"]}), f"{path}: {group['flags']}")
    with open(f"{ROOT}/docs/spec/golden-pack.md", encoding="utf-8") as f:
        example = json.loads(re.search(r"```json\n(.*?)```", f.read(), re.DOTALL).group(1))
    with tempfile.TemporaryDirectory() as folder:
        pack, path = os.path.join(folder, "pack"), os.path.join(folder, "mine.json")

        def make(value):
            with open(path, "w", encoding="utf-8") as f:
                json.dump(value, f)
            return run(kvgold, "golden", "make", path, "-o", pack)[0]

        check(config.is_valid(example) and make(example) == 0, "docs/spec/golden-pack.md: the example is not good")
        good = read(os.path.join(pack, "manifest.json"))
        for text, value in changes({**example, "comment": "x"}):
            check(not config.is_valid(value), f"pack config, {text}: the schema takes it")
            check(make(value) == 2, f"pack config, {text}: the program takes it")
        spoilt = [*(value for _, value in changes(good)), *case_changes(good)]
        for value in [good, *spoilt]:
            write_manifest(pack, value)
            code, _, error = run(kvgold, "golden", "verify", "--no-regenerate", pack)
            check(manifest.is_valid(value) == (value is good), f"the schema takes a spoilt manifest: {error}")
            check(code == (0 if value is good else 2), f"manifest: exit code {code}: {error}")


def words_of(key):
    """The names that an item of a list may be: of layouts, besides objects."""
    items = key.get("items", {})
    return items.get("enum", []) or [word for kind in items.get("anyOf", []) for word in kind.get("enum", [])]


def check_capabilities(kvgold):
    """Capability files: the names are those of `kvgold list`, the example is good for both, and what is spoilt is refused by both."""
    schema = read(os.path.join(ROOT, "configs", "capabilities_schema.json"))
    Draft202012Validator.check_schema(schema)
    file = Draft202012Validator(schema)
    keys = schema["$defs"]["claim"]["properties"]
    for key, found in (
        ("ops", first_words(kvgold, "ops", 0)),
        ("layouts", first_words(kvgold, "layouts", 0)),
        ("profiles", sorted({"exact", *first_words(kvgold, "profiles", 0)})),
    ):
        check(sorted(words_of(keys[key])) == sorted(found), f"capabilities, {key}: the program has {sorted(found)}")
    formats = re.search(r"\^\(([^)]*)\)", keys["formats"]["items"]["pattern"]).group(1).split("|")
    check(sorted(formats) == sorted(first_words(kvgold, "formats", 1)), f"capabilities, formats: the schema has {sorted(formats)}")
    with open(f"{ROOT}/docs/guide/plugin.md", encoding="utf-8") as f:
        example = json.loads(re.search(r"```json\n(.*?)```", f.read(), re.DOTALL).group(1))
    claim = example["claims"][0]
    claims = [{**claim, key: values} for key in keys for values in ([], 1, ["x"], ["u8"], [1], [1.5], [True], None)]
    claims += [{**claim, key: [word]} for key in keys for word in words_of(keys[key])]
    claims += [{**claim, "layouts": [own]} for own in ({"name": "mine", "text": "[L B N H]{ K.codes V.codes }"}, {"name": "mine"},
                                                       {"name": "MINE", "text": ""}, {"text": "[L]"})]
    claims += [{k: v for k, v in claim.items() if k != key} for key in claim]
    claims += [{**claim, "formats": [name]} for name in formats] + [{**claim, "x": 1}, {**claim, "comment": "x"}, {}, 1]
    values = [example, {**example, "claims": []}, *({**example, "claims": [c]} for c in claims)]
    values += [{**example, key: value} for key in [*example, "comment", "x"] for value in (2, [], "x", None)]
    values += [{k: v for k, v in example.items() if k != key} for key in example]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "capabilities.json")
        for value in values:
            with open(path, "w", encoding="utf-8") as f:
                json.dump(value, f)
            # The program reads the file before the config, which is missing.
            error = run(kvgold, "check", f"{folder}/none.json", "--backend", "reference", "--capabilities", path)[2]
            taken = file.is_valid(value)
            check(taken == ("none.json: no such file" in error), f"capabilities {value}: the schema {'takes' if taken else 'refuses'} it: {error}")


def schema_of(path):
    """The validator that the "$schema" of a shipped config names, relative to the config, as an editor takes it."""
    def retrieve(uri):
        return Resource.from_contents(read(uri.removeprefix("file://")))
    name = read(path)["$schema"]
    uri = "file://" + os.path.normpath(os.path.join(os.path.dirname(path), name.partition("#")[0]))
    reference = uri + "".join(name.partition("#")[1:])
    return Draft202012Validator({"$ref": reference}, registry=Registry(retrieve=retrieve))


def check_shipped(kvgold):
    """Every shipped config names a schema that takes it, and that refuses it with an unknown key; the program too."""
    commands = {"memory": ["memory", "--require"], "generate": ["bench"], "kvgold_golden": ["golden", "make"]}
    paths = sorted(glob.glob(f"{ROOT}/configs/*.json") + glob.glob(f"{ROOT}/configs/memory/*.json"))
    for path in (path for path in paths if not path.endswith("schema.json")):
        value, schema = read(path), schema_of(path)
        errors = [f"{error.json_path}: {error.message}" for error in schema.iter_errors(value)]
        check(not errors, f"{path}: its schema refuses it: {errors[:3]}")
        for wrong in ({**value, "nmae": 1}, {**value, "$schema": 1}, {k: v for k, v in value.items() if k != "name"}):
            check(not schema.is_valid(wrong), f"{path}: its schema takes it with other keys: {sorted(wrong)}")
        command = next((words for key, words in commands.items() if key in value), None)
        if command is None or value.get("generate"):
            continue  # check_good and check_pool ask the program; a bench of models needs a GPU
        with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as f:
            json.dump({**value, "nmae": 1}, f)
            f.flush()
            options = ["-o", f.name + ".out"] if "kvgold_golden" in value else []
            code, _, text = run(kvgold, *command, f.name, *options)
            check(code == 2 and "unknown key 'nmae'" in text, f"{path}: the program takes an unknown key: {code}: {text}")


def main():
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    kvgold, made = map(os.path.abspath, sys.argv[1:])
    schema = read(os.path.join(ROOT, "configs", "schema.json"))
    Draft202012Validator.check_schema(schema)
    check_good(kvgold, schema)
    check_names(kvgold, schema)
    check_refusals(kvgold, schema, read(os.path.join(ROOT, "tests", "planted", "planted.json")))
    check_bad(kvgold, schema, os.path.join(made, "tests", "harness", "bad_configs"))
    pool = read(os.path.join(ROOT, "configs", "pool_schema.json"))
    Draft202012Validator.check_schema(pool)
    check_pool(kvgold, pool)
    check_packs(kvgold, schema)
    check_capabilities(kvgold)
    check_shipped(kvgold)
    print(f"{counts[True]} passed, {counts[False]} failed")
    return 1 if counts[False] or not counts[True] else 0


if __name__ == "__main__":
    sys.exit(main())
