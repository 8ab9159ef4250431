"""A Python callable over PyTorch tensors as the implementation.

    python -m kvgold.adapters.torch PACK --callable module:function -o ANSWER.safetensors [--device cuda] [--case KEY]

The callable takes a kvgold.problem.Problem and the question's tensors by name (with the shapes of kvgold.check's
docstring, on the device, of torch's dtypes, its own copies: ops that update pools in place may do just that). It
returns tensors by the names that the answer has, or a text: why it does not answer. kvgold.adapters.eager:answer is one
in plain PyTorch, kvgold.adapters.vllm:decode another."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from typing import Any, Callable, Mapping

try:
    import torch
except ModuleNotFoundError as missing:
    if __name__ != "__main__":
        raise
    print(f"kvgold.adapters.torch: {missing}: install PyTorch", file=sys.stderr)
    raise SystemExit(2) from None

from ..ask import reason_of
from ..pack import Prompt, load_prompt
from ..problem import Problem
from .alone import Unavailable, stubbed
from .command import Failed, answer_all

Engine = Callable[[Problem, "dict[str, torch.Tensor]"], "Mapping[str, torch.Tensor] | str"]


def tensors_of(prompt: Prompt, device: str) -> dict[str, torch.Tensor]:
    """The question's tensors on the device: copies, BF16 as torch.bfloat16."""
    out = {}
    for name, tensor in prompt.tensors.items():
        copy = torch.from_numpy(tensor.array.copy())
        out[name] = (copy.view(torch.bfloat16) if tensor.dtype == "BF16" else copy).to(device)
    return out


def implementation(engine: Engine, device: str) -> Callable[[Prompt], Mapping[str, Any] | str]:
    """An engine as `answer_all` wants it."""
    def answer(prompt: Prompt) -> Mapping[str, Any] | str:
        if prompt.problem.op == "mma":
            return "op mma is a tensor core's"
        given = engine(prompt.problem, tensors_of(prompt, device))
        return given if isinstance(given, str) else {name: tensor.cpu() for name, tensor in given.items()}
    return answer


def numpy_of(tensor: torch.Tensor) -> Any:
    """Its bits as an array: numpy has no BF16 and no FP8."""
    tensor = tensor.detach().contiguous().cpu()
    small = {1: torch.uint8, 2: torch.int16}
    return (tensor.view(small[tensor.itemsize]) if tensor.itemsize in small else tensor).numpy()


def is_lost(device: str) -> bool:
    """After a fault a GPU answers this process no more."""
    try:
        torch.zeros(1, device=device).cpu()
        return False
    except RuntimeError:
        return True


def imported(name: str) -> Callable[..., Any]:
    """The callable module:function. Raises Unavailable where its import fails, LookupError where there is none."""
    module, _, function = name.partition(":")
    try:
        there = bool(module) and importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it should be in
        there = False
    if not there:
        raise LookupError(f"no module {module!r}")
    try:
        found = importlib.import_module(module)
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001: whatever an engine throws
        raise Unavailable(f"its import fails: {reason_of(error)}") from None
    try:
        return getattr(found, function)
    except AttributeError as error:
        raise LookupError(str(error)) from None


def serve(connection: Connection, path: str, callable_name: str, device: str) -> None:
    """The process of an engine: answers by key, each with the names of the engine's stubs, until it is told None."""
    try:
        if os.environ.get("TRITON_INTERPRET") == "1":
            imported("kvgold.adapters.interpreter:mend")()
        engine = implementation(imported(callable_name), device)
    except Unavailable as error:
        connection.send(("UNAVAILABLE", str(error)))
        return
    except LookupError as error:
        connection.send(("refused", f"{error}; give module:function, the module on PYTHONPATH"))
        return
    connection.send(("ready", ""))
    prompts = {prompt.key: prompt for prompt in load_prompt(path)}
    for key in iter(connection.recv, None):
        try:
            given = engine(prompts[key])
            if not isinstance(given, str):
                given = {name: numpy_of(tensor) for name, tensor in given.items()}
            connection.send((given, None, False, stubbed))
        except Exception as error:  # noqa: BLE001: whatever an engine throws
            lost = is_lost(device)
            connection.send((None, reason_of(error), lost, stubbed))
            if lost:
                return


class Apart:
    """An engine in a process of its own: a fault, a crash or a hang costs its case, and the next one has a new process."""

    def __init__(self, path: str, callable_name: str, device: str, seconds: float):
        self.arguments, self.seconds, self.stubs = (path, callable_name, device), seconds, dict[str, None]()
        self.start()

    def start(self) -> None:
        """Raises Refused where there is no engine to ask."""
        context = multiprocessing.get_context("spawn")
        self.connection, end = context.Pipe()
        self.process = context.Process(target=serve, args=(end, *self.arguments), daemon=True)
        self.process.start()
        end.close()
        state, text = self.hear()
        if state != "ready":
            raise Refused(state, text)

    def hear(self) -> Any:
        if not self.connection.poll(self.seconds):
            self.process.kill()
            self.process.join()
            raise TimeoutError(f"no answer after {self.seconds:g} s")
        try:
            return self.connection.recv()
        except EOFError:
            self.process.join()
            code = self.process.exitcode or 0
            raise ChildProcessError(f"its process ended {f'by signal {-code}' if code < 0 else f'with status {code}'}") from None

    def __call__(self, prompt: Prompt) -> Mapping[str, Any] | str:
        if not self.process.is_alive():
            self.start()
        self.connection.send(prompt.key)
        given, error, lost, stubs = self.hear()
        self.stubs.update(dict.fromkeys(stubs))
        if lost:
            self.process.join()
        if error:
            raise Failed(error)
        return given

    def end(self) -> None:
        if self.process.is_alive():
            self.connection.send(None)
            self.process.join(10)


class Refused(Exception):
    """There is no engine to ask: (state, why)."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m kvgold.adapters.torch", description=__doc__.splitlines()[0])
    parser.add_argument("pack", help="a pack's folder, or its prompt.safetensors")
    parser.add_argument("--callable", required=True, metavar="MODULE:FUNCTION")
    parser.add_argument("-o", "--output", required=True, help="the answer file")
    parser.add_argument("--device", default="cpu", help="torch device, e.g. cuda")
    parser.add_argument("--case", help="one case, by key or id")
    parser.add_argument("--seconds", type=float, default=600, help="a case that takes longer is left unanswered (default 600)")
    options = parser.parse_args(arguments)
    try:
        engine = Apart(options.pack, options.callable, options.device, options.seconds)
    except Refused as refused:
        state, text = refused.args
        print(f"{state} {options.callable}: {text}" if state == "UNAVAILABLE" else f"--callable {options.callable}: {text}",
              file=sys.stderr)
        return 77 if state == "UNAVAILABLE" else 2
    status = answer_all(options.pack, options.output, engine, options.case)
    engine.end()
    if engine.stubs:
        print(f"not the engine's own, but stubs: {', '.join(engine.stubs)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
