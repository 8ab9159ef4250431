"""Adapters end to end: pack -> adapter -> answer file -> kvgold compare, as an engine's people use them. Needs the
program ($KVGOLD). A planted defect must fail."""

import json
import os
import shutil
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest

import kvgold
from kvgold import program
from kvgold.adapters import command
from kvgold.adapters import numpy as adapter

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
PYTHON = os.path.join(ROOT, "golden", "python")

CONFIG = {
    "kvgold_golden": 1, "name": "adapters", "version": "1.0.0", "licence": "Apache-2.0", "seed": "0xada", "notes": {},
    "groups": [{"flags": [], "cases": [
        {"op": ["quantise", "dequantise"], "format": ["int4", "mxfp4", "nvfp4"], "kv_heads": 2, "head_dim": 32, "tokens": 8,
         "fill": "adversarial", "scale": {"k": 0.3, "v": 0.7}},
        {"op": ["append", "flatten", "probe"], "format": ["int8", "nvfp4"], "layout": ["turbomind", "hnd", "vllm"], "kv_heads": 2,
         "head_dim": 32, "tokens": 12, "block_tokens": 4, "fill": "adversarial", "scale": {"k": 0.3, "v": 0.7}},
        {"op": "decode", "format": ["bf16", "nvfp4"], "layout": "hnd", "kv_heads": 2, "head_dim": 32, "group": 2, "queries": 2,
         "tokens": 24, "block_tokens": 8, "fill": "random", "scale": {"k": 0.3, "v": 0.7}, "answers": ["all", "out"]},
        {"op": "merge", "dtype": ["bf16", "f32"], "kv_heads": 3, "head_dim": 32, "tokens": 20, "fill": "adversarial"}]}]}


def kvgold_program(*arguments, check=True):
    executable = program.find_program()
    assert executable, "the tests of adapters need the program: KVGOLD=path/to/kvgold"
    done = subprocess.run([executable, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=ROOT)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapters")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    kvgold_program("golden", "make", folder / "config.json", "-o", folder / "pack")
    return str(folder / "pack")


def compare(pack, answer, *more):
    return kvgold_program("compare", pack, answer, *more, check=False)


def test_numpy(pack, tmp_path):
    """As a command of its own process; every case is answered and right."""
    path = tmp_path / "answer.safetensors"
    done = subprocess.run([sys.executable, "-m", "kvgold.adapters.numpy", pack, "-o", path], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": PYTHON}, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    count = len(kvgold.load(pack))
    assert done.stdout == f"answered {count} of {count} cases\n"
    verdict = compare(pack, path)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr


def test_a_case_that_is_not_there(pack, tmp_path, capsys):
    assert adapter.main([pack, "-o", str(tmp_path / "answer.safetensors"), "--case", "0999"]) == 2
    assert "no stored case '0999'" in capsys.readouterr().err


def nibbles_swapped(prompt):
    if prompt.problem.op != "append" or prompt.problem.format != "nvfp4":
        return adapter.answer(prompt)
    with mock.patch.object(adapter.formats, "pack_pairs", lambda code: code[:, 0::2] << 4 | code[:, 1::2]):
        return adapter.answer(prompt)


def lse_in_base_2(prompt):
    given = adapter.answer(prompt)
    return {**given, "lse": given["lse"] * np.float32(1 / np.log(2))} if prompt.problem.op == "decode" else given


def out_of_next_head(prompt):
    """Wrong also where out alone is asked for."""
    given = adapter.answer(prompt)
    return {**given, "out": np.roll(given["out"], 1, 1)} if prompt.problem.op == "decode" else given


def tensor_lost(prompt):
    given = adapter.answer(prompt)
    return {"k_flat": given["k_flat"]} if prompt.problem.op == "flatten" else given


@pytest.mark.parametrize("defect,op,reason", [
    (nibbles_swapped, "append", "equals nibbles_swapped"), (lse_in_base_2, "decode", "near lse_base_2"),
    (out_of_next_head, "decode", "outside their bound"),
    (tensor_lost, "flatten", "v_flat missing")])
def test_planted_defects_fail(pack, tmp_path, defect, op, reason):
    """By the program, with its reason, and by assert_matches; and nothing else fails."""
    path = tmp_path / "answer.safetensors"
    assert command.answer_all(pack, path, defect) == 0
    verdict = compare(pack, path, "--no-why")
    keys = {line.split()[1] for line in verdict.stdout.splitlines() if line.startswith("FAIL")}
    failed = [case for case in kvgold.load(pack) if case.key in keys]
    assert verdict.returncode == 1 and failed and all(case.problem.op == op for case in failed), verdict.stdout
    assert any(case.problem.answers == "out" for case in failed) == (defect is out_of_next_head), verdict.stdout
    cases = [case for case in failed if case.problem.format == "nvfp4"]
    for case in cases:
        with pytest.raises(AssertionError):
            kvgold.assert_matches(case, defect(case))
    verdict = compare(pack, path, "--case", cases[0].key, "--why-seconds", "1")
    assert verdict.returncode == 1 and reason in verdict.stdout, verdict.stdout


def test_unanswered_and_failing_cases(pack, tmp_path, capsys):
    """A reason or an exception costs its case; nothing at all is no answer file."""
    def mostly(prompt):
        if prompt.problem.op != "append":
            return "not mine"
        if prompt.problem.format == "int8":
            raise ValueError("boom\nsecond line")
        return adapter.answer(prompt)
    path = tmp_path / "answer.safetensors"
    assert command.answer_all(pack, path, mostly) == 0
    out, err = capsys.readouterr()
    assert "unanswered 3: ValueError: boom (test_python_adapters.py:" in out and f"answered 3 of {len(kvgold.load(pack))} cases" in out and "boom" in err
    assert compare(pack, path).returncode == 0
    assert command.answer_all(pack, tmp_path / "none", lambda prompt: "not mine") == 77
    assert not (tmp_path / "none").exists()
    assert command.answer_all(pack, tmp_path / "none", lambda prompt: {"x": np.zeros(1)}) == 1
    assert command.answer_all(tmp_path / "nowhere", tmp_path / "none", adapter.answer) == 2


def test_answers_that_cannot_be_written(pack, tmp_path, capsys):
    """One line, exit status 3, and what lies there stays, with nothing beside it."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, why in (("nowhere/a", "No such file"), ("folder", "not a regular file"), ("pipe", "not a regular file")):
        assert command.answer_all(pack, tmp_path / name, adapter.answer) == 3
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and f"{tmp_path / name}: cannot write: {why}" in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "pipe"]
    assert (tmp_path / "pipe").is_fifo()


def test_a_recipe_is_expanded_alone(tmp_path):
    """Another one that cannot be computed is no matter."""
    pack = shutil.copytree(f"{ROOT}/golden/data/packs/turbomind", tmp_path / "pack")
    bad, good, *_ = [case.key for case in kvgold.load(pack) if not case.stored]
    kvgold_program("golden", "erratum", pack, "--id", "E1", "--date", "2026-11-21", "--cases", bad, "--text", "wrong")
    case = kvgold.load(pack)[good]
    kvgold.assert_matches(case, adapter.answer(case))


@pytest.mark.parametrize("name", ["bad/packs/good", "data/packs/turbomind"])
def test_recipes_are_expanded(name):
    """By the program; their digests are the manifest's. turbomind has cases whose format a policy chose."""
    recipes = [case for case in kvgold.load(f"{ROOT}/golden/{name}") if not case.stored]
    assert recipes
    for case in recipes:
        kvgold.assert_matches(case, adapter.answer(case))


def engine_alone(tmp_path, then, version="1.0"):
    """Runs `then` where an engine lies whose package cannot be imported, and one of whose modules needs a server."""
    files = {"toy/__init__.py": "raise SystemError('a GPU, a server and a licence')", "toy/ops/__init__.py": "import toy.server",
             "toy/ops/add.py": "from toy.server import port\nfrom toy.ops.one import ONE\ndef add(x): return x + ONE + port()",
             "toy/ops/one.py": "ONE = 1", f"toy-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: toy\nVersion: {version}\n"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    begin = "from kvgold.adapters.alone import Unavailable, alone, stubbed\nserver = {'toy.server': {'port': lambda: 40}}\n"
    done = subprocess.run([sys.executable, "-c", begin + then], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join((PYTHON, str(tmp_path)))})
    return done.stdout + done.stderr.splitlines()[-1] if done.stderr else done.stdout


def test_module_of_an_engine_alone(tmp_path):
    said = engine_alone(tmp_path, "print(alone('toy', ['1.0'], server))\nfrom toy.ops.add import add\nprint(add(1), stubbed)")
    assert said == "1.0\n42 ['toy.server']\n"


def test_stub_of_another_package(tmp_path):
    said = engine_alone(tmp_path, "alone('toy', ['1.0'], {'painter.red': {'hue': 7}})\nfrom painter.red import hue\nprint(hue, stubbed)")
    assert said == "7 ['painter.red']\n"


def test_module_without_its_stub(tmp_path):
    said = engine_alone(tmp_path, "alone('toy', ['1.0'], {})\nimport toy.ops.add")
    assert said == "ModuleNotFoundError: No module named 'toy.server'"


@pytest.mark.parametrize("then,said", [
    ("alone('toy', ['1.1', '1.2'], server)", "toy 1.0 is there, and this adapter knows 1.1 and 1.2"),
    ("alone('toyer', ['1.1'], server)", "toyer is not there: install it, or unpack its wheel into a folder of PYTHONPATH"),
])
def test_engine_unavailable(tmp_path, then, said):
    assert engine_alone(tmp_path, then) == "kvgold.adapters.alone.Unavailable: " + said


def test_engine_of_any_version(tmp_path):
    with mock.patch.dict(os.environ, KVGOLD_ANY_VERSION="1"):
        assert engine_alone(tmp_path, "print(alone('toy', ['1.1'], server))") == "1.0\n"
