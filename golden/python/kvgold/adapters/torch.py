"""A Python callable over PyTorch tensors as the implementation.

    python -m kvgold.adapters.torch PACK --callable module:function -o ANSWER.safetensors [--device cuda] [--case KEY]

The callable takes a kvgold.problem.Problem and the question's tensors by name (with the shapes of kvgold.check's
docstring, on the device, of torch's dtypes, its own copies: ops that update pools in place may do just that). It returns tensors by the names that the answer has, or a
text: why it does not answer. kvgold.adapters.eager:answer is one in plain PyTorch, kvgold.adapters.flashinfer:answer
another."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import Any, Callable, Mapping

try:
    import torch
except ModuleNotFoundError as missing:
    if __name__ != "__main__":
        raise
    print(f"kvgold.adapters.torch: {missing}: install PyTorch", file=sys.stderr)
    raise SystemExit(2) from None

from ..pack import Prompt
from ..problem import Problem
from .command import answer_all

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


def find_callable(name: str) -> Engine:
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        print(f"--callable {name}: {error}; give module:function, the module on PYTHONPATH", file=sys.stderr)
        raise SystemExit(2) from None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m kvgold.adapters.torch", description=__doc__.splitlines()[0])
    parser.add_argument("pack", help="a pack's folder, or its prompt.safetensors")
    parser.add_argument("--callable", required=True, metavar="MODULE:FUNCTION")
    parser.add_argument("-o", "--output", required=True, help="the answer file")
    parser.add_argument("--device", default="cpu", help="torch device, e.g. cuda")
    parser.add_argument("--case", help="one case, by key or id")
    options = parser.parse_args(arguments)
    return answer_all(options.pack, options.output, implementation(find_callable(options.callable), options.device),
                      options.case)


if __name__ == "__main__":
    sys.exit(main())
