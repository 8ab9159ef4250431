"""Whether an engine's tensors are right: bytes for storage, the bound tensor for arithmetic, no tolerance."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, Mapping

import numpy as np

from .container import DTYPES, PackError, write
from .pack import Answer, Case, Prompt, Unjudged

WHY = "for the reason: kvgold.explain(case, answer), or kvgold compare with the file that kvgold.save_answer writes"
ROW = 8  # elements of a row that a message shows

# Other dtypes that hold the same bits: raw integers, and those of ml_dtypes and torch.
SAME_BITS: Mapping[str, tuple[str, ...]] = {
    "U8": ("uint8", "int8", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"),
    "BF16": ("bfloat16", "uint16", "int16"), "F16": ("float16", "uint16", "int16"),
    "F32": ("float32",), "F64": ("float64",), "I32": ("int32",), "I64": ("int64",),
}


def raw(value: Any, answer: Answer, where: str) -> np.ndarray:
    """An engine's tensor (numpy, ml_dtypes, torch on any device) in the dtype of DTYPES, bits unchanged."""
    __tracebackhide__ = True
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        name, shape = str(value.dtype).removeprefix("torch."), tuple(value.shape)
        data = value.detach().contiguous().cpu()
        value = data.reshape(-1).view(torch.uint8).numpy() if data.numel() else np.empty(0, np.uint8)
    else:
        value = np.asarray(value)
        name, shape = value.dtype.name, value.shape
        value = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    if name not in SAME_BITS[answer.dtype] or shape != answer.shape:
        wanted = f"{answer.dtype} of shape {list(answer.shape)}"
        raise AssertionError(f"{where} is {name} of shape {list(shape)}, not {wanted}")
    array: np.ndarray = value.view(DTYPES[answer.dtype]).reshape(shape)
    return array


def assert_matches(case: Case, name: str | Mapping[str, Any], value: Any = None, *, bits: bool = False) -> None:
    """Raises AssertionError unless the answer is right.

        assert_matches(case, {"k_data": a, "v_data": b})    # all that case.answers asks for: a missing one fails
        assert_matches(case, "k_data", a)                   # one of them

    Storage and flattened values must be equal as bytes; out and lse must satisfy |y - exact| <= bound, so
    NaN never passes; with `bits` they must be the bits of the case's profile. What only `kvgold compare` can judge (the
    value rule of dialects with an approximate reciprocal) raises Unjudged, which test runners count as a skip.

    The message has the tensor, the index of its first wrong element, and the elements around it, given and expected."""
    __tracebackhide__ = True
    answers = {answer.name: answer for answer in case.answers}
    given = {name: value} if isinstance(name, str) else dict(name)
    unknown = [n for n in given if n not in answers]
    if unknown:
        raise AssertionError(f"{case}: {unknown[0]} is not asked for; {', '.join(answers)} are")
    missing = [n for n in answers if n not in given] if not isinstance(name, str) else []
    if missing:
        raise AssertionError(f"{case}: the answer lacks {', '.join(missing)}")
    unjudged = []
    for n, tensor in given.items():
        answer = answers[n]
        array = raw(tensor, answer, f"{case}: {n}")
        if answer.compare == "rule":
            unjudged.append(n)
        elif answer.compare == "bits" or bits:
            _check_bits(case, answer, array)
        else:
            _check_bound(case, answer, array)
    if unjudged:
        names = ", ".join(unjudged)
        raise Unjudged(f"{case}: {names}: judged by the value rule of its dialect, by kvgold compare alone")


def _check_bits(case: Case, answer: Answer, array: np.ndarray) -> None:
    __tracebackhide__ = True
    expected = case.expected.get(answer.name)
    if expected is None:
        raise AssertionError(f"{case}: {answer.name} has no profile, so there are no bits to be equal to")
    unsigned = np.dtype(f"<u{array.dtype.itemsize}")
    ours, theirs = array.view(unsigned), expected.view(unsigned)
    different = ours != theirs
    if answer.compare == "bound":  # the profile's NaN stands for any NaN
        different &= ~(_is_nan(array, answer.dtype) & _is_nan(expected, answer.dtype))
    width = _digits(array)
    _report(case, answer, different, lambda at: f"{ours[at]:#0{width}x}, expected {theirs[at]:#0{width}x}",
            lambda part: [[f"{x:#0{width}x}" for x in array[part]] for array in (ours, theirs)])


def _check_bound(case: Case, answer: Answer, array: np.ndarray) -> None:
    __tracebackhide__ = True
    exact, bound = case.expected[f"{answer.name}.exact"], case.expected[f"{answer.name}.bound"]
    y = (array.astype(np.uint32) << 16).view(np.float32) if answer.dtype == "BF16" else array
    y = y.astype(np.float64)
    with np.errstate(all="ignore"):
        distance = np.abs(y - exact)
        good = (y == exact) | (bound == np.inf) | (distance <= bound)
    unsigned, width = array.view(np.dtype(f"<u{array.dtype.itemsize}")), _digits(array)

    def describe(at: tuple[int, ...]) -> str:
        rounded = exact[at].astype(np.float32).view(np.uint32)
        shown = int(rounded) >> 16 if answer.dtype == "BF16" else exact[at].astype(array.dtype).view(unsigned.dtype)
        return (f"{y[at]:.9g} ({unsigned[at]:#0{width}x}), exactly {exact[at]:.17g} ({shown:#0{width}x}), "
                f"off by {distance[at] / bound[at] if bound[at] else np.inf:.3g} bounds")
    with np.errstate(all="ignore"):
        _report(case, answer, ~good, describe, lambda part: [[f"{x:.6g}" for x in array[part]] for array in (y, exact)])


def _is_nan(array: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "BF16":
        return (array & 0x7FFF) > 0x7F80
    return np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, bool)


def _digits(array: np.ndarray) -> int:
    return 2 + 2 * array.dtype.itemsize


def _report(case: Case, answer: Answer, bad: np.ndarray, describe: Callable[[tuple[int, ...]], str],
            rows: Callable[[tuple[Any, ...]], list[list[str]]]) -> None:
    """`rows`: a part of the answer in words, given and expected."""
    __tracebackhide__ = True
    count = int(np.count_nonzero(bad))
    if count == 0:
        return
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
    what = "numbers are outside their bound" if answer.compare == "bound" else "elements differ"
    first = f"the first at {list(at)}: {describe(at)}"
    around = ""
    if at:
        begin = at[-1] // ROW * ROW
        end = min(begin + ROW, bad.shape[-1])
        given, expected = rows((*at[:-1], slice(begin, end)))
        width = max(map(len, given + expected))
        place = ", ".join([*map(str, at[:-1]), f"{begin}:{end}"])
        around = "".join(f"\n  {who:8} [{place}]  {' '.join(x.rjust(width) for x in row)}"
                         for who, row in (("given", given), ("expected", expected)))
    raise AssertionError(f"{case}: {answer.name}: {count} of {bad.size} {what}, {first}; {WHY}{around}")


def save_answer(path: str | os.PathLike[str], answers: Mapping[Prompt, Mapping[str, Any]]) -> None:
    """Writes an answer file for `kvgold compare`: for each case (or prompt) its tensors by name without the key."""
    tensors = {}
    for case, given in answers.items():
        wanted = {answer.name: answer for answer in case.answers}
        for name, value in given.items():
            if name not in wanted:
                raise PackError(f"{case}: {name} is not asked for; {', '.join(wanted)} are")
            answer = wanted[name]
            tensors[f"{case.key}.{name}"] = answer.dtype, raw(value, answer, f"{case}: {name}")
    if not tensors:
        raise PackError(f"{os.fspath(path)}: an answer without a tensor is none")
    write(path, tensors, {})
