"""The eager adapter end to end, and the example's engines, where PyTorch is installed."""

import os
import subprocess
import sys

import pytest

import kvgold
from kvgold import program

torch = pytest.importorskip("torch")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
FOLDER = os.path.join(ROOT, "golden", "data", "packs")
PACK = os.path.join(FOLDER, "hnd")
PACKS = sorted(name for name in os.listdir(FOLDER) if os.path.isdir(os.path.join(FOLDER, name)))
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", PACKS)
def test_eager(name, device):
    """What the eager implementation answers of each pack is right."""
    from kvgold.adapters import eager
    from kvgold.adapters.torch import implementation
    answer = implementation(eager.answer, device)
    for case in kvgold.load(os.path.join(FOLDER, name)):
        given = answer(case) if case.stored else "a recipe"
        if not isinstance(given, str):
            kvgold.assert_matches(case, given)


def by_operators(p, t):
    """What the operators of kvgold.torch answer. Their flatten makes its outputs, and a pack's keeps parts of them."""
    import kvgold.torch as kt
    if p.op not in ("quantise", "dequantise", "append", "decode"):
        return f"op {p.op}"
    sides = p.sides[0], p.sides[-1]
    axes = {axis: dict(zip("kv", (getattr(side, axis) for side in sides))) for axis in ("format", "dialect")}
    axes |= {axis: getattr(p, axis) for axis in ("kv_heads", "head_dim", "dtype")}
    if "quantise" not in p.op:
        axes |= {axis: getattr(p, axis) for axis in ("block_tokens", "blocks", "layers", "v_scale_swizzle")}
        axes |= {"layout": p.layout_text or p.layout, "padding": p.padding._asdict()}
        axes |= {"shared_kv": p.shared_kv._asdict()} if p.shared_kv else {}
    if p.op == "decode":
        axes |= {axis: getattr(p, axis) for axis in kt.ATTENTION}
    if p.op == "append" and p.rope:
        axes["rope"] = vars(p.rope)
    cache, pools = kt.config(**axes), [t.get(name) for name in kt.POOLS]
    scales = {name: t[name] for name in ("k_tensor_scale", "v_tensor_scale") if name in t}
    if p.op == "append":
        more = {name: t[name] for name in ("k_bias", "v_bias", "positions", "cos_sin") if name in t}
        kt.append(t["k"], t.get("v"), t["slots"], *pools, cache, layer=p.layer, **scales, **more)
        names, out = kt.POOLS, pools
    elif p.op == "decode":
        names, asked = ("out", "lse"), (t["block_table"], t["lengths"], t["query_lengths"])
        out = kt.decode(t["q"], *pools, *asked, cache, layer=p.layer, sinks=t.get("sinks"), **scales)
    elif p.op == "quantise":
        names, out = ("k_codes", "v_codes", "k_scales", "v_scales"), kt.quantise(t["k"], t["v"], cache, **scales)
    else:
        given = t["k_codes"], t["v_codes"], t.get("k_scales"), t.get("v_scales")
        names, out = "kv", kt.dequantise(*given, cache, **scales)
    return {name: x for name, x in zip(names, out) if x is not None and x.numel()}


@pytest.mark.parametrize("name", PACKS)
def test_operators(tmp_path, name):
    """`kvgold compare` finds each pack's stored bytes, numbers and answers of decode in what the operators give."""
    from kvgold.adapters.torch import implementation
    answer, pack = implementation(by_operators, "cpu"), os.path.join(FOLDER, name)
    given = {prompt: answer(prompt) for prompt in kvgold.load_prompt(pack)}
    kvgold.save_answer(tmp_path / "answer", {prompt: x for prompt, x in given.items() if not isinstance(x, str)})
    verdict = subprocess.run([program.find_program(), "compare", pack, tmp_path / "answer"], capture_output=True,
                             text=True, check=False)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr


@pytest.mark.parametrize("device", DEVICES)
def test_command(tmp_path, device):
    """As a user calls it, judged by the program."""
    path = tmp_path / "answer.safetensors"
    subprocess.run([sys.executable, "-m", "kvgold.adapters.torch", PACK, "--callable", "kvgold.adapters.eager:answer",
                    "--device", device, "-o", path], check=True)
    verdict = subprocess.run([program.find_program(), "compare", PACK, path], capture_output=True, text=True,
                             check=False)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr


@pytest.mark.parametrize("engine,right", [("Engine", True), ("WrongEngine", False)])
def test_example(engine, right):
    """The example passes for the right engine and fails for the wrong one."""
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{ROOT}/golden/python/examples"],
                          env={**os.environ, "KVGOLD_ENGINE": engine}, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == right and ("passed" if right else "failed") in done.stdout, done.stdout


ENGINE = """
import os, signal, time
from kvgold.adapters import eager
from kvgold.adapters.alone import Unavailable

def answer(problem, tensors):
    if problem.op == "append": os.kill(os.getpid(), signal.SIGKILL)
    if problem.op == "flatten": raise ValueError("no")
    if problem.sinks: time.sleep(60)
    return eager.answer(problem, tensors)

def __getattr__(name):
    if name == "gone": raise Unavailable("the engine is of another planet")
    raise AttributeError(name)
"""


def ask_engine(tmp_path, function, text=ENGINE):
    (tmp_path / "engine.py").write_text(text)
    answer = tmp_path / "answer.safetensors"
    return subprocess.run([sys.executable, "-m", "kvgold.adapters.torch", PACK, "--callable", f"engine:{function}",
                           "--seconds", "20", "-o", answer], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])})


def test_engine_that_dies(tmp_path):
    """A crash, an exception and a case that takes too long cost their cases alone."""
    done = ask_engine(tmp_path, "answer")
    asked = [prompt.problem for prompt in kvgold.load_prompt(PACK)]
    fates = {"append": "its process ended by signal 9", "flatten": "ValueError: no", "sinks": "no answer after 20 s"}
    for fate, reason in fates.items():
        lines = [line for line in done.stderr.splitlines() if reason in line]
        assert len(lines) == sum(fate == "sinks" if p.sinks else p.op == fate for p in asked) > 0, done.stderr
    assert done.returncode == 0 and f"answered {sum(p.op == 'decode' and not p.sinks for p in asked) - 1} of" in done.stdout


def test_engine_that_is_not_there(tmp_path):
    done = ask_engine(tmp_path, "gone")
    assert (done.returncode, done.stderr) == (77, "UNAVAILABLE engine:gone: the engine is of another planet\n")
    assert ask_engine(tmp_path, "nothing").returncode == 2


@pytest.mark.parametrize("text,error", [("from kvgold.problem import moved", "ImportError: cannot import name 'moved'"),
                                        ("import torch.moved", "ModuleNotFoundError: No module named 'torch.moved'"),
                                        ("1 / 0", "ZeroDivisionError: division by zero (engine.py:1)")])
def test_engine_whose_import_fails(tmp_path, text, error):
    done = ask_engine(tmp_path, "answer", text)
    assert done.returncode == 77 and done.stderr.startswith(f"UNAVAILABLE engine:answer: its import fails: {error}")


def test_no_engine(tmp_path):
    for name in ("absent:answer", "kvgold.absent:answer", "absent.engine:answer", ":answer", "kvgold"):
        done = subprocess.run([sys.executable, "-m", "kvgold.adapters.torch", PACK, "--callable", name, "-o",
                               tmp_path / "answer"], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and done.stderr.startswith(f"--callable {name}: "), done.stderr


def test_slots_as_block_tables():
    """Runs of slots and their tables say the same place for every token that is stored."""
    from kvgold.adapters.cache import runs_of, tables_of
    for block_tokens, slots in ((4, [6, 7, 20, 21, -1, 22, 0, 1]), (1, [5, 9, 2]), (4, [3, 8, 9, 3]), (2, [-1])):
        runs = runs_of(slots, block_tokens)
        placed = {}
        for (first, run), table in zip(runs, tables_of(runs, block_tokens)):
            for i in range(len(run)):
                page, offset = divmod(run[0] % block_tokens + i, block_tokens)
                placed[first + i] = int(table[page]) * block_tokens + offset
        assert placed == {token: slot for token, slot in enumerate(slots) if slot >= 0}
    assert len(runs_of([6, 7, 20, 21, -1, 22, 0, 1], 4)) == 3  # a page's end joins the next page's start, a gap does not
