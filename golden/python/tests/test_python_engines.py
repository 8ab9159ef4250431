"""ci/engines and its table: what can be said of them without an engine. Needs the program ($KVGOLD)."""

import ast
import collections
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import types
import zipfile

import pytest

from kvgold import program

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
ENGINES = os.path.join(ROOT, "ci", "engines")
loader = importlib.machinery.SourceFileLoader("engines", ENGINES)
engines = importlib.util.module_from_spec(importlib.util.spec_from_loader("engines", loader))
loader.exec_module(engines)
TABLE = engines.TABLE


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("pack", TABLE["packs"])
def test_pack_is_made_of_cases(pack, device, tmp_path):
    """Each group of cases is one that `kvgold golden make` takes: read as a config, for making them takes minutes."""
    cases = [case for case in (engines.here(case, device) for case in TABLE["packs"][pack]) if case]
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"kvgold": 1, "name": pack, "seed": "0x6", "cases": cases}))
    done = subprocess.run([program.find_program(), "list", config], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and len(done.stdout.splitlines()) >= len(cases), done.stderr


def test_case_by_device():
    case = {"op": "append", "fill": {"gpu": ["random", "adversarial"], "cpu": "random"}, "profile": {"gpu": "p", "cpu": None}}
    assert engines.here(case, "cuda") == {"op": "append", "fill": ["random", "adversarial"], "profile": "p"}
    assert engines.here(case, "cpu") == {"op": "append", "fill": "random"}
    assert engines.here({"dialect": {"gpu": "a"}, "scale": {"k": 1, "v": 2}}, "cpu") is None


@pytest.mark.parametrize("job", TABLE["jobs"], ids=lambda job: job["name"])
def test_job_asks_what_is_there(job):
    module, _, function = job["callable"].partition(":")
    assert job["pack"] in TABLE["packs"] and module in TABLE["wheels"]
    with open(os.path.join(ROOT, "golden", "python", "kvgold", "adapters", module + ".py"), encoding="utf-8") as text:
        assert function in [node.name for node in ast.parse(text.read()).body if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("manager", TABLE["managers"], ids=lambda manager: manager["adapter"])
def test_manager_is_there(manager):
    module, _, name = manager["adapter"].partition(":")
    with open(os.path.join(ROOT, "golden", "python", "kvgold", "adapters", module + ".py"), encoding="utf-8") as text:
        assert name in [node.name for node in ast.parse(text.read()).body if isinstance(node, ast.ClassDef)]


@pytest.mark.parametrize("known, status", [(["A3", "A22"], 0), (["A3"], 1)])
def test_managers_break_known_rules(known, status, monkeypatch, capsys):
    said = "mine 1.0: seed 1, 20 blocks of 16: 70 operations, 5 requests, 2 preemptions, 500 events"
    monkeypatch.setattr(engines, "Session", lambda options: None)
    monkeypatch.setattr(engines, "trace", lambda *_: (said, collections.Counter(A22=3)))
    monkeypatch.setitem(TABLE, "managers", [{"adapter": "a:B", "what": "what", "breaks": known}])
    assert engines.manage(types.SimpleNamespace(seeds=2, operations=70)) == status
    assert capsys.readouterr().out.endswith("| mine 1.0 | what | 6 | 420 | 12 | 3,000 | A22: 18 |\n")


@pytest.mark.parametrize("kind", ["whl", "tar.gz"])
def test_members_of_a_wheel_and_of_an_sdist(kind, tmp_path):
    path = str(tmp_path / f"toy-1.0.{kind}")
    about = "toy-1.0.dist-info/METADATA" if kind == "whl" else "toy.egg-info/PKG-INFO"
    for name in ("toy/core/a.py", "toy/core/a.cu", "toy/b.py", "toy/_C.so", "toy/core/x/c.py", "setup.py", about):
        if kind == "whl":
            with zipfile.ZipFile(path, "a") as archive:
                archive.writestr(name, name)
        else:
            (tmp_path / "toy-1.0" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "toy-1.0" / name).write_text(name)
    if kind == "tar.gz":
        with tarfile.open(path, "w:gz") as archive:
            archive.add(tmp_path / "toy-1.0", "toy-1.0")
    wanted = ("toy/core/a.py", "toy/_C.so", about)
    assert engines.members({"files": ["toy/core/", "toy/_C"], "without": ["toy/core/x"]}, path) == {name: name.encode() for name in wanted}


def test_page(tmp_path):
    """Counts, the cause of a wrong answer, and a job without an answer."""
    case = {"job": "vllm-append", "engine": "vllm==0.33.0", "asks": "a kernel", "proof": "gpu", "cause": ""}
    results = tmp_path / "results.json"
    results.write_text(json.dumps({"card": "a card", "date": "2026-11-28", "torch": "2", "triton": "3", "seconds": 4, "silent": {
        "vllm-mla": "UNAVAILABLE vllm"}, "cases": [{**case, "id": "append/a:N4:L2/reference", "verdict": "PASS"},
        {**case, "id": "append/b:N4:L2/reference", "verdict": "FAIL", "cause": "equals ties_up: k_data 3/8"}]}))
    done = subprocess.run([sys.executable, ENGINES, "page", results], capture_output=True, text=True, check=True)
    for line in ("Of 2 answers 1 are right", "| vllm 0.33.0 | a kernel | gpu | 2 | 1 |",
                 "| vllm-mla | no answer: UNAVAILABLE vllm | | | |", "| `append/b` | equals ties_up: k_data 3/8 |"):
        assert line in done.stdout


def test_answers_like_a_page(tmp_path, capsys):
    """The page of some results says what they are; each change of an answer is told."""
    def case(name, verdict, asks="a kernel"):
        return {"job": "vllm-append", "engine": "vllm==0.33.0", "asks": asks, "proof": "ieee", "cause": "",
                "id": f"append/{name}:N4/reference", "verdict": verdict}
    cases = [case("a", "PASS"), case("b", "FAIL")]
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    results.write_text(json.dumps({"card": "CPU", "date": "2026-11-28", "torch": "2", "triton": "3", "seconds": 4,
                                   "silent": {}, "cases": cases}))
    engines.page([results])
    page.write_text(capsys.readouterr().out)
    def changes(*answers, asks="a kernel", **silent):
        options = types.SimpleNamespace(like=page, device="cpu")
        return engines.changes([{"name": "vllm-append", "asks": asks}], list(answers), silent, options)
    assert changes(*cases) == []
    assert changes(case("a", "FAIL"), cases[1]) == ["a kernel: wrong, and right before: append/a"]
    assert changes(cases[0], case("b", "PASS")) == ["a kernel: right, and wrong before: append/b"]
    assert changes(cases[1]) == ["a kernel: 0 of 1 right, where the page has 1 of 2"]
    assert changes() == ["a kernel: right, and wrong before: append/b"]  # nothing of it was asked
    assert changes(case("a", "PASS", "new"), asks="new") == ["new: 1 of 1 right, where the page has 0 of 0"]
    silent = {"vllm-append": "UNAVAILABLE vllm"}
    assert changes(**silent) == ["vllm-append: no answer: UNAVAILABLE vllm"]
    page.write_text(page.read_text() + "| vllm-append | no answer: UNAVAILABLE vllm | | | |\n")
    assert changes(**silent) == []


def test_ask_without_torch_or_program(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, ENGINES, "ask"], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (3, "engines: no torch here\n")
