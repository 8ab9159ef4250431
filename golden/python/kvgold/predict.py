"""What a kernel gives for q, k and v, bit for bit, on a CPU, and whose bits an answer has: the program's `kvgold predict`
and `kvgold which`."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np

from .container import DTYPES, PackError, parse, parse_json, write
from .judge import raw
from .pack import Answer
from .program import run_program

# uint16: bf16 as codes; uint8: e4m3 as codes.
CODES = {"float16": "F16", "bfloat16": "BF16", "uint16": "BF16", "float8_e4m3fn": "F8_E4M3", "uint8": "F8_E4M3"}


def _rows(name: str, value: Any, rank: int) -> tuple[str, np.ndarray]:
    kind = str(value.dtype).removeprefix("torch.")
    if kind not in CODES or len(value.shape) != rank:
        raise PackError(f"{name} is {kind} of shape {list(value.shape)}, not float16, bfloat16 or float8_e4m3fn (or codes) "
                        f"of {rank} dimensions")
    same = "U8" if CODES[kind] == "F8_E4M3" else CODES[kind]
    return CODES[kind], raw(value, Answer(name, same, tuple(value.shape), "bits"), name)


def _numbers(name: str, value: Any, dtype: str) -> tuple[str, np.ndarray]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu().float().numpy() if dtype == "F32" else value.detach().cpu().numpy()
    array = np.asarray(value)
    if array.ndim != 1:
        raise PackError(f"{name} has {array.ndim} dimensions, not one")
    return dtype, array.astype(DTYPES[dtype])


def _question(q: Any, k: Any, v: Any, lengths: Any, sinks: Any) -> dict[str, tuple[str, np.ndarray]]:
    tensors = {name: _rows(name, value, 4) for name, value in (("q", q), ("k", k), ("v", v)) if value is not None}
    if lengths is not None:
        tensors["lengths"] = _numbers("lengths", lengths, "I32")
    if sinks is not None:
        tensors["sinks"] = _numbers("sinks", sinks, "F32")
    return tensors


def _options(kv_scale: tuple[float, float] | None, **given: float | None) -> list[str]:
    scales = [] if kv_scale is None else [f"--kv-scale={kv_scale[0]!r},{kv_scale[1]!r}"]
    return scales + [f"--{name.replace('_', '-')}={value!r}" for name, value in given.items() if value is not None]


def predict(profile: str, q: Any, k: Any, v: Any, *, lengths: Any = None, scale: float | None = None,
            window: int | None = None, softcap: float | None = None, sinks: Any = None,
            splits: int | None = None, split_size: int | None = None, v_dim: int | None = None,
            kv_scale: tuple[float, float] | None = None) -> tuple[Any, Any | None]:
    """Outputs and LSE of the kernel that `profile` names (`kvgold list profiles`), for arrays or tensors

        q     [sequences, tokens, query heads, dim]     float16 or bfloat16 (numpy: codes as uint16, or ml_dtypes)
        k, v  [sequences, positions, KV heads, dim]     of the same type, or float8_e4m3fn (numpy: codes as uint8)

    The tokens of q are the last ones of each sequence's `lengths` (default: all positions). `window`: keys that a query
    sees, its own included. `splits`: pieces that the kernel is told to cut each row into; `split_size`: positions of
    each, of FlashInfer. `v_dim`: v is None, and V is so many numbers at the front of k's rows. `kv_scale`: tensor scales
    of k and v in float8. out has the shape (of v_dim numbers), type and kind of q; lse is float32 of [sequences, tokens, query heads], or None if the kernel gives none.

        out, lse = kvgold.predict("sm90.fa3.20260810.pages", q, k, v, lengths=[300, 1000])

    PackError says in one line what a profile does not take."""
    __tracebackhide__ = True
    tensors = _question(q, k, v, lengths, sinks)
    options = _options(scale=scale, window=window, softcap=softcap, splits=splits, split_size=split_size,
                       v_dim=v_dim, kv_scale=kv_scale)
    with tempfile.TemporaryDirectory() as folder:
        question, answer = (os.path.join(folder, f"{name}.safetensors") for name in ("question", "answer"))
        write(question, tensors, {})
        run_program("predict", question, f"--profile={profile}", f"--output={answer}", *options)
        with open(answer, "rb") as written:
            file = parse(memoryview(written.read()), answer, True)
        out = np.array(file.tensors["out"].array)
        lse = np.array(file.tensors["lse"].array) if "lse" in file.tensors else None
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(q, torch.Tensor):
        of_rows = None if lse is None else torch.from_numpy(lse).to(q.device)
        return torch.from_numpy(out.view(np.int16)).view(q.dtype).to(q.device), of_rows
    return out.view(q.dtype), lse


@dataclass(frozen=True)
class Kernel:
    """A profile, as it is or with one parameter changed, and the shares of equal bits; lse is None if none was given."""

    profile: str
    changed: str  # "with tiles of 176", "in 7 splits", ...; "": nothing
    out: float
    lse: float | None

    def __str__(self) -> str:
        return f"{100 * self.out:.2f} % {self.profile} {self.changed}".rstrip()


def which(q: Any, k: Any, v: Any, out: Any, lse: Any = None, *, lengths: Any = None, scale: float | None = None,
          window: int | None = None, softcap: float | None = None, sinks: Any = None, v_dim: int | None = None,
          kv_scale: tuple[float, float] | None = None) -> list[Kernel]:
    """Whose bits `out` (as predict gives it) and `lse` ([sequences, tokens, query heads], float32) are: the profiles, and the nearest
    ones with one parameter changed, the best first. The other arguments are those of `predict`."""
    __tracebackhide__ = True
    tensors = _question(q, k, v, lengths, sinks)
    given = {"out": _rows("out", out, 4)}
    if lse is not None:
        given["lse"] = "F32", raw(lse, Answer("lse", "F32", tuple(out.shape[:3]), "bits"), "lse")
    with tempfile.TemporaryDirectory() as folder:
        question, answer, found = (os.path.join(folder, name)
                                   for name in ("question.safetensors", "answer.safetensors", "found.json"))
        write(question, tensors, {})
        write(answer, given, {})
        run_program("which", question, answer, f"--json={found}",
                    *_options(scale=scale, window=window, softcap=softcap, v_dim=v_dim, kv_scale=kv_scale), statuses=(0, 1))
        with open(found, "rb") as file:
            rows = parse_json(file.read(), found)
    size = given["out"][1].size
    return [Kernel(row["profile"], row["changed"], row["out"] / size,
                   None if lse is None else row["lse"] * out.shape[3] / size) for row in rows]
