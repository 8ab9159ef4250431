#!/usr/bin/env python3
"""usage: configs/cover.py CONFIG...

Writes the rows of every group of a config that has "covers": a covering array over the values that
"covers" lists, made by covertable (pip install covertable==3.2.0). The rules below say which values
cannot stand together. `kvgold check` refuses a config whose rows break a rule that is missing here;
`kvgold lint --covers` counts what the rows cover by trying, and so finds a rule that says too much.
The same config gives the same rows. Triples of an op on pages take a minute with PyPy.
"""
import json
import math
import string
import sys
import textwrap

from covertable import criteria, make

BLOCK = {"mx16": 16, "mxfp4": 32, "nvfp4": 16, "mlx4": 64, "mlx4_g32": 32, "mlx4_g128": 128, "mlx8": 64,
         "mlx8_g32": 32, "mlx8_g128": 128}  # elements that share a scale; others have none or one per row
AFFINE = {"int8", "int4", "mlx4", "mlx4_g32", "mlx4_g128", "mlx8", "mlx8_g32", "mlx8_g128"}
TENSOR_SCALE = {"e4m3", "e5m2", "nvfp4"}
MLX = {f for f in BLOCK if f.startswith("mlx")}
DIALECTS = {  # beside canonical
    "e4m3": "trtllm vllm-sm90 lmdeploy-sm90", "e5m2": "trtllm lmdeploy-sm90",
    "int8": "turbomind-muladd pytorch lmdeploy-sm90 lmdeploy-flatten-sm90 hqq",
    "int4": "turbomind-muladd pytorch lmdeploy-sm90 lmdeploy-flatten-sm90 quanto hqq",
    "int8_token_head": "vllm-sm90", "fp8_token_head": "vllm-sm90",
    "rowfp4": "marlin-linear", "mx16": "turbomind sglang sglang-sm90 sglang-eager-sm90",
    "mxfp4": "ocp modelopt modelopt-floor modelopt-ceil trtllm vllm vllm-old ggml",
    "nvfp4": "modelopt modelopt-fake modelopt-hopper flashinfer-kv trtllm flashinfer-fast flashinfer-te "
             "flashinfer-page flashinfer-page-sm90 flashinfer-mla torchao vllm vllm-minimax seed",
    **{f: "mlx-cpu mlx-metal" for f in MLX}}
CHIPS_LACK = {"int8_token_head", "fp8_token_head"} | MLX  # no operands in profiles of chips
ON_GRID = {"exact", "uniform", "ones", "needle", "cold"}
SCORED = {"needle", "cold"}  # probes whose scores are not 0
OPTIONAL = {"padding", "shared_kv", "rope"}  # a row without one of these axes has none


def sides(fmt):
    """The formats of K and V."""
    return (fmt["k"], fmt["v"]) if isinstance(fmt, dict) else (fmt, fmt)


def any_of(fmt, formats):
    return any(f in formats for f in sides(fmt))


def powers_of_two(scale):
    numbers = scale.values() if isinstance(scale, dict) else [scale]
    return scale == "P4" or all(not isinstance(x, str) and math.frexp(x)[0] == 0.5 for x in numbers)


# A rule says what holds, of the axes that its parameters name; a group without one of them is free of the rule.
RULES = [
    lambda format, dialect: dialect == "canonical" or all(dialect in DIALECTS.get(f, "").split() for f in sides(format)),
    lambda format, head_dim: all(head_dim % BLOCK.get(f, 8) == 0 for f in sides(format)),
    lambda format, dtype: dtype != "f32" or not any_of(format, AFFINE),
    lambda op, dtype: op != "expand" or dtype != "f32",
    lambda layout, shared_kv: layout != "mla" or shared_kv is not None,
    lambda layout, shared_kv: shared_kv is None or layout in ("mla", "turbomind"),
    lambda layout, kv_heads: layout != "mla" or kv_heads == 1,
    lambda shared_kv, head_dim: shared_kv is None or shared_kv["v_dim"] + shared_kv.get("v_first", 0) <= head_dim,
    lambda shared_kv, format: shared_kv is None or not isinstance(format, dict),
    lambda padding, layout: padding is None or layout in ("nhd", "hnd") or (
        "row" not in padding and layout in ("vllm", "vllm_hnd")),
    lambda v_scale_swizzle, layout: not v_scale_swizzle or layout in ("trtllm", "nhd", "hnd", "vllm", "vllm_hnd"),
    lambda v_scale_swizzle, format: not v_scale_swizzle or sides(format)[1] in ("mx16", "nvfp4"),
    lambda v_scale_swizzle, block_tokens, head_dim: not v_scale_swizzle or (
        block_tokens % 4 == 0 and head_dim % 64 == 0),
    lambda layout, block_tokens: layout != "trtllm" or block_tokens & (block_tokens - 1) == 0,
    lambda op, layout, tokens, sequences, block_tokens: layout != "contiguous" or op not in ("append", "probe") or (
        -(-tokens // sequences) <= block_tokens),  # the capacity of a sequence
    lambda rope, head_dim: rope is None or rope["dims"] <= head_dim,
    lambda profile, operands: profile == "exact" or operands == "plain",
    lambda profile, format: ".mma" not in profile or not any_of(format, CHIPS_LACK),
    lambda profile, dtype: ".mma" not in profile or dtype != "f32",
    lambda op, fill: fill != "codes" or op not in ("quantise", "append"),
    lambda fill, format, dialect: fill not in ON_GRID or (format, dialect) != ("rowfp4", "marlin-linear"),
    lambda fill, format, scale: fill not in ON_GRID or not any_of(format, TENSOR_SCALE) or powers_of_two(scale),
    lambda fill, rope: fill != "exact" or rope is None,
    lambda fill, bias: fill != "exact" or not bias,
    lambda fill, sinks: fill not in SCORED or not sinks,
    lambda fill, softcap: fill not in SCORED or not softcap,
]


def constraint(rule, fixed, factors):
    """A rule as covertable takes it; None: an axis of it is missing."""
    names = rule.__code__.co_varnames[:rule.__code__.co_argcount]
    if any(n not in factors and n not in fixed for n in names):
        return None
    free = [n for n in names if n in factors]

    def holds(row):
        return rule(*(factors[n][row[n]] if n in factors else fixed[n] for n in names))

    return {"operator": "fn", "requires": free, "evaluate": holds} if free else None


def same(a, b):
    return json.dumps(a) == json.dumps(b)


def bars(entry, factors):
    """A rule that an object of "without" is."""
    listed = {n: v if isinstance(v, list) else [v] for n, v in entry.items()}

    def holds(row):
        return not all(any(same(factors[n][row[n]], v) for v in values) for n, values in listed.items())

    return {"operator": "fn", "requires": list(listed), "evaluate": holds}


def dearer(group, factors, most):
    """A rule that keeps the work of op decode within `most`."""
    names = ("sequences", "queries", "group", "kv_heads", "tokens", "head_dim")

    def holds(row):
        sequences, queries, heads, kv_heads, tokens, dim = (
            factors[n][row[n]] if n in factors else group[n] for n in names)
        rows = sequences * int(str(queries).split()[0])  # at most: 3 and "3 each" are 3 for each sequence here
        return rows * heads * kv_heads * tokens * dim <= most

    return {"operator": "fn", "requires": [n for n in names if n in factors], "evaluate": holds}


def rows_of(group):
    covers = group["covers"]
    factors = dict(covers["values"])
    for name in OPTIONAL & set(factors):
        factors[name] = [None] + factors[name]
    fixed = {n: v for n, v in group.items() if n not in factors}
    constraints = [c for c in (constraint(r, fixed, factors) for r in RULES) if c]
    constraints += [bars(e, factors) for e in covers.get("without", [])]
    if group["op"] == "decode":
        constraints.append(dearer(group, factors, covers["most_work"]))
    places = {n: list(range(len(v))) for n, v in factors.items()}
    # The greedy criterion makes slightly fewer rows, and would take hours for triples.
    criterion = criteria.greedy if covers["strength"] == 2 else criteria.simple
    made = make(places, strength=covers["strength"], constraints=constraints, criterion=criterion)
    return [{n: factors[n][i] for n, i in row.items() if factors[n][i] is not None} for row in made]


DIGITS = string.digits + string.ascii_letters  # which value of an axis a row has
WIDTH = 100  # of a line of rows


def word_of(row, values):
    """A row as `rows` has it: a character for each axis."""
    listed = ((row.get(n), v if isinstance(v, list) else [v]) for n, v in values.items())
    return "".join("-" if x is None else DIGITS[[same(x, y) for y in v].index(True)] for x, v in listed)


def write(path):
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    for group in config["cases"]:
        if "covers" not in group:
            continue
        names = list(group["covers"]["values"])
        rows = sorted(rows_of(group), key=lambda row: [json.dumps(row.get(n)) for n in names])
        # The group itself is a row. The others cannot take back an optional axis, so the first row has none.
        first = next(r for r in rows if not OPTIONAL & set(r))
        covers = group["covers"]
        for name in [*names, "covers"]:
            group.pop(name, None)
        group.update({n: first[n] for n in names if n in first})
        group["covers"] = covers
        words = " ".join(word_of(r, covers["values"]) for r in rows if r is not first)
        covers["rows"] = textwrap.wrap(words, WIDTH)
        print(f"{path}: op {group['op']}: {len(rows)} rows", file=sys.stderr)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text_of(config))


def text_of(config):
    """JSON with a line for each key of a group, each list of values and each row."""
    def line(value):
        return json.dumps(value, ensure_ascii=False)

    def block(value, indent, deep):
        pad = " " * indent
        if deep and isinstance(value, dict):
            inner = ",\n".join(f"{pad}  {line(k)}: {block(v, indent + 2, deep.get(k))}" for k, v in value.items())
            return f"{{\n{inner}\n{pad}}}"
        if deep and isinstance(value, list):
            inner = ",\n".join(f"{pad}  {block(v, indent + 2, deep.get('each'))}" for v in value)
            return f"[\n{inner}\n{pad}]"
        return line(value)

    lines = {"each": {}}
    shape = {"cases": {"each": {"covers": {"values": {"": 1}, "without": lines, "rows": lines}, "": 1}}}
    return block(config, 0, shape) + "\n"


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for name in sys.argv[1:]:
        write(name)
