"""The C library by ctypes and torch's operators, against the numpy formats and layouts, which share no code with them."""

import ctypes
import glob
import json
import os
import re
import shutil
import subprocess
import timeit
import types

import numpy as np
import pytest

from kvgold import formats_numpy as formats
from kvgold import layouts_numpy as layouts
from kvgold import container, library
from kvgold.program import ROOTS, Missing, find_program
from kvgold.problem import FORMATS, problem_of

pytest.importorskip("ml_dtypes")
from kvgold.adapters import numpy as second  # noqa: E402

try:
    library.library()
except Missing as error:
    pytest.skip(str(error), allow_module_level=True)

SIZES = {"kv_heads": 2, "head_dim": 64, "block_tokens": 8, "blocks": 7, "layers": 2}
LAYER, TOKENS, GROUP = 1, 20, 3
CASES = [
    {"format": "nvfp4", "layout": "hnd", "dtype": "bf16", "padding": {"row": 3, "data": 5, "scales": 7}},
    {"format": "nvfp4", "layout": "trtllm", "dtype": "f16", "v_scale_swizzle": True},
    {"format": "e4m3", "layout": "vllm_lbnhc", "dtype": "bf16"},
    {"format": "int8", "layout": "trtllm", "dtype": "f16"},
    {"format": "mx16", "layout": "hnd", "dtype": "f32"},
    {"format": {"k": "e4m3", "v": "nvfp4"}, "dialect": {"k": "canonical", "v": "vllm"}, "layout": "slot", "dtype": "f16"},
    {"format": "int4", "layout": "[B L N H]{ V.params K.codes V.codes K.params }", "dtype": "bf16"},
]
NAMES = {"f16": np.float16, "bf16": np.uint16, "f32": np.float32, "u8": np.uint8, "i32": np.int32, "i64": np.int64}


@pytest.fixture
def kt():
    pytest.importorskip("torch")
    import kvgold.torch
    return kvgold.torch


def members_of(name):
    """The names of a struct's members in the headers, in order."""
    for header in glob.glob(os.path.join(ROOTS[1], "core", "*.h")):
        with open(header, encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        if found := re.search(rf"typedef struct {name} {{(.*?)}} {name};", text, re.S):
            declared = re.sub(r"\(\*(\w+)\)\(.*?\);|\[.*?\]", r"\1;", found.group(1)).split(";")
            return [word for part in declared for word in re.findall(r"(\w+)\s*(?:,|$)", part)]
    raise AssertionError(f"no header has {name}")


def test_offsets(tmp_path):
    """Every struct has the size and the members, and every member the offset, that the headers give it."""
    compiler = shutil.which("cc")
    if not compiler or not os.path.isfile(os.path.join(ROOTS[1], "core", "plugin.h")):
        pytest.skip("no C compiler or no headers")
    lines, ours = [], []
    for struct, name in library.STRUCTS.items():
        if struct is not library.Backend:  # which leaves out its end
            lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
            ours.append(f"{name} {ctypes.sizeof(struct)}")
        members = [member for member, *_ in struct._fields_]
        assert members == members_of(name)[:len(members) if struct is library.Backend else None], name
        for member in members:
            lines.append(f'printf("{name}.{member} %zu %zu\\n", offsetof({name}, {member}), sizeof((({name} *)0)->{member}));')
            field = getattr(struct, member)
            ours.append(f"{name}.{member} {field.offset} {field.size}")
    (tmp_path / "offsets.c").write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include \"core/plugin.h\"\nint main(void)\n{\n" + "\n".join(lines)
        + f'\nprintf("%d %d %d\\n", KVG_LAYOUT_TEXT, KVG_PAIRING_ADJACENT, KVG_PAIRING_HALVES);\nreturn 0;\n}}\n')
    subprocess.run([compiler, "-I", ROOTS[1], "-o", tmp_path / "offsets", tmp_path / "offsets.c"], check=True)
    theirs = subprocess.run([tmp_path / "offsets"], check=True, capture_output=True, text=True).stdout.split("\n")
    assert theirs[:-2] == ours
    assert theirs[-2] == f"{library.TEXT} {library.PAIRINGS['adjacent']} {library.PAIRINGS['halves']}"
    backend = library.library().kvg_reference_backend().contents
    assert backend.abi == 6 and backend.name == b"reference" and backend.problem_size == ctypes.sizeof(library.CProblem)


def second_problem(axes, op, **more):
    """The problem as the numpy implementation has it."""
    def sides(axis, default):
        given = axes.get(axis, default)
        return (given["k"], given["v"]) if isinstance(given, dict) else (given, given)
    name = "+".join(map(".".join, zip(sides("format", None), sides("dialect", "canonical"))))
    own = {"layout": {"name": "own", "text": axes["layout"]}} if " " in axes["layout"] else {}
    return problem_of(f"{op}/{name}/", {**SIZES, **axes, **own, "op": op, **more}, LAYER)


def rows_of(axes, seed, tokens=TOKENS, heads=SIZES["kv_heads"], specials=True):
    x = np.random.default_rng(seed).standard_normal((tokens, heads, SIZES["head_dim"])).astype(np.float32) * 3
    if specials:
        x[1, 0, :6] = np.nan, np.inf, -np.inf, -0.0, 1e-38, 448
        x[2, 1], x[3] = 0, 1e-6
    with np.errstate(all="ignore"):
        return second.shaped(types.SimpleNamespace(dtype=axes["dtype"]), formats.convert(axes["dtype"], x), x.shape)


def question(axes, specials=True, order=None):
    """Tensors of two sequences, 13 and 7 tokens, in blocks of an order of one's own."""
    blocks = np.arange(4) if order is None else np.asarray(order)
    table = np.array([blocks[:2], blocks[2:]], np.int32)
    slots = np.concatenate([table[s, np.arange(n) // 8].astype(np.int64) * 8 + np.arange(n) % 8
                            for s, n in enumerate((13, 7))])
    tensors = {"k": rows_of(axes, 1, specials=specials), "v": rows_of(axes, 2, specials=specials), "slots": slots,
               "block_table": table, "lengths": np.array([13, 7], np.int32), "query_lengths": np.array([2, 1], np.int32),
               "q": rows_of(axes, 3, 3, SIZES["kv_heads"] * GROUP, False)}
    p = second_problem(axes, "append")
    return tensors | {f"{name}_tensor_scale": np.array([g], np.float32)
                      for name, side, g in zip(p.names, p.sides, (0.375, 1.625)) if side.tensor_scale}


def by_library(op, axes, tensors, **more):
    """The op's outputs; pools begin as tensors have them, else everything begins as zeros."""
    asked = {**SIZES, **axes, **more}
    if op in ("quantise", "dequantise"):
        asked = {name: asked[name] for name in ("format", "dialect", "kv_heads", "head_dim", "dtype") if name in asked}
    else:
        asked["layer"] = LAYER
    if op == "append" and "rope" in asked:
        asked |= {"rope": {**asked["rope"], "positions": len(tensors["cos_sin"])}, "bias": True}
    sizes = {"flatten": {"tokens": 16, "sequences": 2},
             "decode": {"tokens": 16, "sequences": 2, "queries": 3, "group": GROUP, "sinks": "sinks" in tensors}}
    asked |= sizes.get(op, {"tokens": TOKENS})
    call = library.Call(library.problem(op=op, **asked))
    out = {name: np.array(tensors[name]) if name in tensors else np.zeros(spec.shape, NAMES[spec.dtype])
           for name, spec in call.outputs.items()}
    call({name: (tensors[name].ctypes.data, tensors[name].nbytes) for name in call.inputs if name in tensors},
         {name: (array.ctypes.data, array.nbytes) for name, array in out.items()})
    return {name: array for name, array in out.items() if array.nbytes}


def by_torch(op, axes, tensors, **more):
    import torch

    import kvgold.torch as kt
    cache = kt.config(**SIZES, **axes, **more)
    t = {name: torch.from_numpy(np.array(x).view(np.int16) if x.dtype == np.uint16 else np.array(x))
         for name, x in tensors.items()}
    t = {name: x.view(torch.bfloat16) if tensors[name].dtype == np.uint16 else x for name, x in t.items()}
    pools = [t.get(name) for name in kt.POOLS] if "k_data" in t else list(kt.pools(cache))
    scales = {name: t[name] for name in ("k_tensor_scale", "v_tensor_scale") if name in t}
    if op == "append":
        more = {name: t[name] for name in ("k_bias", "v_bias", "positions", "cos_sin") if name in t}
        kt.append(t["k"], t["v"], t["slots"], *pools, cache, layer=LAYER, **scales, **more)
        names, out = kt.POOLS, pools
    elif op == "flatten":
        names = "k_flat", "v_flat"
        out = kt.flatten(*pools, t["block_table"], t["lengths"], cache, 16, layer=LAYER, **scales)
    elif op == "decode":
        names = "out", "lse"
        out = kt.decode(t["q"], *pools, t["block_table"], t["lengths"], t["query_lengths"], cache, layer=LAYER,
                        sinks=t.get("sinks"), **scales)
    elif op == "quantise":
        names, out = ("k_codes", "v_codes", "k_scales", "v_scales"), kt.quantise(t["k"], t["v"], cache, **scales)
    else:
        names = "k", "v"
        out = kt.dequantise(t["k_codes"], t["v_codes"], t.get("k_scales"), t.get("v_scales"), cache, **scales)
    return {name: (x.view(torch.int16).numpy().view(np.uint16) if x.dtype == torch.bfloat16 else x.numpy())
            for name, x in zip(names, out) if x is not None and x.numel()}


@pytest.fixture(params=["library", "torch"])
def engine(request):
    if request.param == "torch":
        request.getfixturevalue("kt")
        return by_torch
    return by_library


def same(given, right):
    assert given.keys() == right.keys()
    for name, array in right.items():
        assert given[name].dtype == array.dtype and given[name].shape == array.shape, name
        assert given[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize("axes", CASES, ids=str)
def test_stored_bytes(engine, axes):
    """Rows with NaN, Inf and zeros: codes, scales, both pools whole, and what comes back."""
    t = question(axes, order=[5, 2, 0, 6])
    t["slots"][4] = -1  # a token that is skipped
    p = second_problem(axes, "append")
    with np.errstate(all="ignore"):
        rows = engine("quantise", axes, t)
        same(rows, second.quantise(p, t))
        same(engine("dequantise", axes, {**t, **rows}), second.dequantise(p, {**t, **rows}))
        pools = {name: np.full_like(x, 0xA5) for name, x in by_library("append", axes, t).items()}
        right = {name: x.copy() for name, x in pools.items()}
        second.append(p, t, right)
        pools = engine("append", axes, {**t, **pools})
        same(pools, right)
        flat = {f"{name}_flat": second.shaped(p, np.zeros((2, 2, 16, 64), formats.RAW[p.dtype]), (2, 2, 16, 64))
                for name in "kv"}
        second.flatten(second_problem(axes, "flatten"), {**t, **pools}, flat)
        same(engine("flatten", axes, {**t, **pools}), flat)


def test_bias_and_rope(engine):
    axes = {**CASES[1], "rope": {"dims": 32, "pairing": "halves"}}
    t, random = question(axes), np.random.default_rng(7)
    t |= {f"{side}_bias": rows_of(axes, seed, 1, specials=False)[0] for seed, side in ((8, "k"), (9, "v"))}
    t |= {"positions": random.integers(0, 30, TOKENS).astype(np.int32),
          "cos_sin": random.standard_normal((30, 16, 2)).astype(np.float32)}
    right = {name: np.zeros_like(x) for name, x in by_library("append", CASES[1], t).items()}
    with np.errstate(all="ignore"):
        second.append(second_problem(axes, "append", bias=True), t, right)
    same(engine("append", axes, t), right)


@pytest.mark.parametrize("more", [{}, {"window": 5, "softcap": 2.5, "score_scale": 0.25}], ids=["plain", "options"])
@pytest.mark.parametrize("axes", CASES, ids=str)
def test_decode(engine, axes, more):
    """Within the error of float64 and one rounding of the float64 answer, and the same bits over pages in another order."""
    t, sinks = question(axes, specials=False), {"sinks": np.arange(-3, 3, dtype=np.float32)} if more else {}
    pools = engine("append", axes, t)
    given = engine("decode", axes, {**t, **pools, **sinks}, **more)
    p = second_problem(axes, "decode", **more)
    q = formats.load(p.dtype, second.raw_rows(t["q"])).reshape(t["q"].shape).astype(np.float64)
    row, half = 0, {"bf16": 8, "f16": 11, "f32": 24}[p.dtype]  # half a unit in the last place: 2^-half of the number
    for sequence, (length, count) in enumerate(((13, 2), (7, 1))):
        at, slots = layouts.positions(p, t["block_table"][sequence], length)
        k, v = (second.numbers(side, p.dtype, *(x.reshape(length * 2, -1) for x in second.stored_rows(p, pools, i, slots)),
                               second.tensor_scale(p, i, t)).reshape(length, 2, 64) for i, side in enumerate(p.sides))
        mine = slice(row, row := row + count)
        out, lse = second.attend(p, q[mine], k, v, at, length - count, sinks.get("sinks"))
        # A score of D products, each sum within D + 8 roundings of the sum of magnitudes (scale, cap and exp included);
        # two sums over the keys.
        most = max(1, np.abs(q).max() * np.abs(k).max() * 64)
        score, sums = (64 + 8) * 2.0**-53 * most, (length + 4) * 2.0**-53
        y = formats.load(p.dtype, second.raw_rows(given["out"])).reshape(given["out"].shape)[mine].astype(np.float64)
        assert (np.abs(y - out) <= np.abs(out) * 2.0**-half + 2.0**-25 * (half == 11)
                + (2 * score + sums) * np.abs(v).max()).all()
        assert (np.abs(given["lse"][mine] - lse) <= np.abs(lse) * 2.0**-24 + score + sums).all()
    other = question(axes, specials=False, order=[6, 1, 4, 3])
    same(engine("decode", axes, {**other, **engine("append", axes, other), **sinks}, **more), given)


def test_profile(engine):
    """simt.fma.v1 is a contract on bits: neither the pages nor a query's company change them; it is not the exact answer."""
    axes = CASES[0]
    t, other = question(axes, specials=False), question(axes, specials=False, order=[6, 1, 4, 3])
    given = [engine("decode", axes, {**x, **engine("append", axes, x)}, profile="simt.fma.v1") for x in (t, other)]
    same(*given)
    assert given[0]["lse"].tobytes() != engine("decode", axes, {**t, **engine("append", axes, t)})["lse"].tobytes()


@pytest.mark.parametrize("more, words", [
    ({"format": "nvfp5"}, "no format 'nvfp5'"), ({"dialect": "x"}, "no nvfp4 dialect 'x'"), ({"head_dim": 24}, "head_dim 24"),
    ({"layout": "hndd"}, "no layout 'hndd'"), ({"blocks": -1}, "not a number from 0"), ({"padding": {"rows": 1}}, "'rows'"),
    ({"profile": "sm9"}, "no profile"), ({"profile": "simt.fma.v1"}, "no profile"), ({"layer": 2}, "layer 2 of 2")])
def test_refused_problems(more, words):
    with pytest.raises(library.LibraryError, match=words) as raised:
        library.problem(**{"op": "append", "tokens": 1, **SIZES, "format": "nvfp4", "layout": "hnd", **more})
    assert "\n" not in str(raised.value)


def test_refused_memory():
    p = library.problem(op="quantise", format="e5m2", tokens=1, kv_heads=1, head_dim=8)
    for inputs, words in (({}, "k has 0 bytes, not 16"), ({"k": (1, 15)}, "k has 15 bytes"), ({"k": (1, 16), "z": (1, 1)}, "v has")):
        with pytest.raises(library.LibraryError, match=words):
            library.run(p, inputs, {})


def test_missing_library(monkeypatch, tmp_path):
    (tmp_path / "x.so").write_text("")
    monkeypatch.setenv("KVGOLD_LIBRARY", str(tmp_path / "x.so"))
    with pytest.raises(Missing, match="is no libkvgold.so"):
        library.library.__wrapped__()
    monkeypatch.delenv("KVGOLD_LIBRARY")
    monkeypatch.setattr(library, "ROOTS", (str(tmp_path),) * 2)
    monkeypatch.setattr(library, "HOME", str(tmp_path))
    with pytest.raises(Missing, match="build it"):
        library.find_library()


PLUG_IN = """
#include <stdio.h>
#include <string.h>
#include "core/plugin.h"
static char said[200];
static const char *error_text(void) { return said; }
static kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    memset(out[1].data, 7, out[1].bytes);
    snprintf(said, sizeof said, "%s %u %u %u %d %zu %p", p->storage[1].dialect, p->tokens, p->kv_heads, p->head_dim,
             (int)in[0].dtype, in[0].bytes, (void *)stream);
    return KVG_ERR_DEVICE;
}
static const kvg_impl impls[] = {{"planted_quantise", KVG_OP_QUANTISE, KVG_FORMAT_E4M3, 0, run}};
static const kvg_backend backend = {.abi = KVG_BACKEND_ABI, .struct_size = sizeof backend, .name = "planted",
                                    .impls = impls, .impl_count = 1, .error_text = error_text};
KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void) { return &backend; }
"""


@pytest.fixture
def plug_in(tmp_path):
    compiler = shutil.which("cc")
    if not compiler or not os.path.isfile(os.path.join(ROOTS[1], "core", "plugin.h")):
        pytest.skip("no C compiler or no headers")
    (tmp_path / "plug_in.c").write_text(PLUG_IN)
    path = str(tmp_path / "plug_in.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-I", ROOTS[1], "-o", path, tmp_path / "plug_in.c"], check=True)
    return path


ASKED = {"format": "e4m3", "kv_heads": 3, "head_dim": 8, "dtype": "f16"}


def test_plug_in(plug_in):
    """A plug-in gets the problem, the tensors and the stream, and its own text is the error's."""
    call = library.Call(library.problem(op="quantise", tokens=2, **ASKED), library.plug_in(plug_in))
    x, g, out = np.zeros(48, np.float16), np.ones(1, np.float32), [np.zeros(48, np.uint8) for _ in "kv"]
    of = {name: (array.ctypes.data, array.nbytes)
          for name, array in (("x", x), ("g", g), ("k_codes", out[0]), ("v_codes", out[1]))}
    with pytest.raises(library.LibraryError, match="^canonical 2 3 8 2 96 0xabc0$") as raised:
        call({"k": of["x"], "v": of["x"], "k_tensor_scale": of["g"], "v_tensor_scale": of["g"]},
             {name: of[name] for name in ("k_codes", "v_codes")}, 0xABC0)
    assert raised.value.status == 7 and not out[0].any() and (out[1] == 7).all()
    with pytest.raises(library.LibraryError, match="backend planted has no dequantise"):
        library.Call(library.problem(op="dequantise", tokens=2, **ASKED), library.plug_in(plug_in))


def test_plug_in_of_cuda(kt, plug_in, monkeypatch, tmp_path):
    """It is the variable's, or the package kvgold_cuda has it, which lies beside kvgold."""
    def named(tokens):
        return kt._call("quantise", kt.config(**ASKED), "cuda", tokens=tokens).name

    monkeypatch.delenv("KVGOLD_CUDA_LIBRARY", raising=False)
    monkeypatch.setattr(library, "HOME", str(tmp_path / "kvgold"))
    monkeypatch.setattr(library, "ROOTS", (str(tmp_path), str(tmp_path)))
    with pytest.raises(Missing, match="^libkvgold_cuda.so is not here: .* into KVGOLD_CUDA_LIBRARY$"):
        named(2)
    for folder in ("kvgold", "kvgold_cuda"):
        (tmp_path / folder).mkdir()
    shutil.copy(plug_in, tmp_path / "kvgold_cuda" / "libkvgold_cuda.so")
    assert named(2) == "planted_quantise"
    monkeypatch.setenv("KVGOLD_CUDA_LIBRARY", str(tmp_path / "none.so"))
    with pytest.raises(library.LibraryError, match="none.so"):
        named(3)


# ---- `kvgold generate` ----

def carrier(folder, sizes, embedding):
    """A checkpoint of GPT-OSS, layers with a window and without, whose linear layers carry numbers unchanged: a token's
    embedding holds q, k and v of every layer, and the logits are what the layers' attention gives. eps is so large that
    RMSNorm divides by 2^20 exactly, and its weights multiply by that; the experts' weights are 0."""
    layers, heads, kv_heads, dim, window = sizes
    queries, keys = heads * dim, kv_heads * dim
    own, carried = queries + 2 * keys, embedding.shape[1]
    hidden = carried + layers * queries
    tensors = {"model.embed_tokens.weight": np.pad(embedding, ((0, 0), (0, hidden - carried))),
               "model.norm.weight": np.full(hidden, 2.0**20),
               "lm_head.weight": np.eye(layers * queries, hidden, carried)}
    for layer in range(layers):
        tensors |= {f"model.layers.{layer}.{name}": array for name, array in {
            "input_layernorm.weight": np.full(hidden, 2.0**20), "post_attention_layernorm.weight": np.zeros(hidden),
            "self_attn.q_proj.weight": np.eye(queries, hidden, layer * own),
            "self_attn.k_proj.weight": np.eye(keys, hidden, layer * own + queries),
            "self_attn.v_proj.weight": np.eye(keys, hidden, layer * own + queries + keys),
            "self_attn.o_proj.weight": np.eye(hidden, queries, -carried - layer * queries),
            "self_attn.sinks": np.linspace(-1, 2, heads), "mlp.router.weight": np.zeros((1, hidden)),
            "mlp.router.bias": np.zeros(1), "mlp.experts.gate_up_proj": np.zeros((1, hidden, 2)),
            "mlp.experts.down_proj": np.zeros((1, 1, hidden)), "mlp.experts.gate_up_proj_bias": np.zeros((1, 2)),
            "mlp.experts.down_proj_bias": np.zeros((1, hidden))}.items()}
    container.write(folder / "model.safetensors",
                    {name: ("F32", x.astype(np.float32)) for name, x in tensors.items()}, {})
    (folder / "config.json").write_text(json.dumps({
        "model_type": "gpt_oss", "vocab_size": layers * queries, "hidden_size": hidden, "intermediate_size": 1,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": dim,
        "rms_norm_eps": 2.0**40, "max_position_embeddings": 64, "attention_bias": False, "num_local_experts": 1,
        "num_experts_per_tok": 1, "sliding_window": window, "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}))


@pytest.mark.parametrize("dtype, kv", [("bf16", "nvfp4,nvfp4"), ("f16", "e4m3,int8"), ("bf16", "mxfp4,bf16")])
def test_generate_command(kt, tmp_path, dtype, kv):
    """`kvgold generate` and kvgold.torch give the same bits for the same q, k and v: every answer of decode, of a layer
    with a window and of one without, for the prompt's last token and each new one."""
    import torch
    layers, heads, kv_heads, dim, window = sizes = 2, 4, 2, 32, 5
    queries, keys, steps, prompt = heads * dim, kv_heads * dim, 9, [7, 200, 31, 31, 90, 4, 155]
    draw = torch.Generator().manual_seed(4)
    embedding = torch.randn((layers * queries, layers * (queries + 2 * keys)), generator=draw)
    carrier(tmp_path, sizes, embedding.numpy())
    scales = [g if FORMATS[fmt][4] else None for fmt, g in zip(kv.split(","), (0.375, 1.625))]
    options = ["--tensor-scale", "0.375,1.625"] if any(scales) else []
    options += ["--ids", ",".join(map(str, prompt)), "--kv", kv, "--new", str(steps), "--dtype", dtype]
    done = subprocess.run([find_program(), "generate", "--model", tmp_path, "--block-tokens", "4", "--logits",
                           tmp_path / "logits", *options], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    logits = container.parse(memoryview((tmp_path / "logits").read_bytes()), "logits", False).tensors["request_0"]
    theirs = torch.from_numpy(logits.array.copy()).view(steps, layers, heads, dim)

    ids = torch.tensor(prompt + theirs.flatten(1).argmax(1).tolist())[:-1]
    positions = torch.arange(len(ids), dtype=torch.int32)
    exponents = torch.arange(0, dim, 2, dtype=torch.float32) / dim
    angles = positions[:, None] * (1 / (10000 ** exponents.double()).float())
    cos_sin = torch.stack([angles.double().cos(), angles.double().sin()], -1).float()  # docs/spec/numerics.md section 8
    rope = {"rope": {"dims": dim, "pairing": "halves"}}
    cache = {"format": dict(zip("kv", kv.split(","))), "layout": "hnd", "kv_heads": kv_heads, "head_dim": dim,
             "dtype": dtype, "block_tokens": 4, "blocks": 6, "layers": layers}
    pools = kt.pools(kt.config(**cache))
    table = torch.tensor([[5, 2, 0, 4]], dtype=torch.int32)
    slots = table[0, positions // 4].long() * 4 + positions % 4
    for layer in range(layers):
        q, k, v = (x.to(kt.TYPES[dtype]).unflatten(1, (-1, dim)).contiguous()
                   for x in embedding[ids].chunk(layers, 1)[layer].split((queries, keys, keys), 1))
        scaled = dict(zip(("k_tensor_scale", "v_tensor_scale"), (g and torch.tensor([g]) for g in scales)))
        rotated = kt.config(**cache, **rope)
        for piece in (slice(0, 4), slice(4, 7), *(slice(at, at + 1) for at in range(7, len(ids)))):
            kt.append(k[piece], v[piece], slots[piece], *pools, rotated, layer, **scaled, positions=positions[piece],
                      cos_sin=cos_sin)
            if piece.stop < len(prompt):
                continue
            cos, sin = cos_sin[piece.stop - 1].unbind(-1)
            first, second = q[piece.stop - 1].float().chunk(2, -1)
            turn = torch.cat([first * cos - second * sin, second * cos + first * sin], -1).to(q.dtype)[None]
            own = kt.config(**cache, profile="simt.fma.v1", window=window if layer == 0 else 0, score_scale=dim**-0.5)
            length, one = (torch.tensor([n], dtype=torch.int32) for n in (piece.stop, 1))
            out, _ = kt.decode(turn, *pools, table, length, one, own, layer, **scaled,
                               sinks=torch.linspace(-1, 2, heads))
            assert torch.equal(out[0].float(), theirs[piece.stop - len(prompt), layer]), (layer, piece.stop)


# ---- Of torch alone ----

def arguments(kt, torch, layout="hnd"):
    """Arguments of each operator, by its name."""
    cache = kt.config(format="nvfp4", layout=layout, dtype="f16", **SIZES)
    k, v = (torch.from_numpy(rows_of({"dtype": "f16"}, seed, specials=False)) for seed in (1, 2))
    g, slots = torch.tensor([0.5]), torch.arange(TOKENS)
    pools, table = kt.pools(cache), torch.tensor([[1, 0, 2]], dtype=torch.int32)
    length, count = (torch.tensor([n], dtype=torch.int32) for n in (20, 3))
    q = torch.randn((3, 6, 64), generator=torch.Generator().manual_seed(1)).to(torch.float16)
    rows = kt.quantise(k, v, cache, g, g)
    return {"append": (k, v, slots, *pools, cache, LAYER, g, g), "flatten": (*pools, table, length, cache, 24, LAYER, g, g),
            "decode": (q, *pools, table, length, count, cache, LAYER, g, g), "quantise": (k, v, cache, g, g),
            "dequantise": (*rows, cache, g, g)}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ["append", "flatten", "decode", "quantise", "dequantise"])
def test_opcheck(kt, name):
    import torch
    torch.library.opcheck(getattr(torch.ops.kvgold, name).default, arguments(kt, torch)[name])


@pytest.mark.filterwarnings("default")
def test_compile(kt):
    """No graph break, and the same bits; a step of other sizes, too."""
    import torch
    given = arguments(kt, torch)

    def step(q, appended, decoded):
        kt.append(*appended)
        return kt.decode(q * 2, *decoded)
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (3, 2):
        q = given["decode"][0][:rows]
        decoded = [*given["decode"][1:7], torch.tensor([rows], dtype=torch.int32), *given["decode"][8:]]
        for pool in given["append"][3:7]:
            if pool is not None:
                pool.zero_()
        ours = compiled(q, given["append"], decoded)
        assert all(torch.equal(a, b) for a, b in zip(ours, step(q, given["append"], decoded)))
        assert ours[1].isfinite().all()
    with pytest.raises(Exception, match="kvgold.torch.decode has no gradient"):
        compiled(q.clone().requires_grad_(), given["append"], decoded)


@pytest.mark.parametrize("op", ["append", "decode"])
def test_ways_to_call(kt, op):
    """One token by the bare C function, by kvgold.library and by the operator: the same bits. Prints the microseconds
    of a call, the fastest of 100 rounds (docs/guide/adapters.md section 4)."""
    import torch
    k, v, slots, *pools, cache, layer, g, _ = arguments(kt, torch)["append"]
    q, one = torch.ones(1, 6, 64, dtype=torch.float16), torch.ones(1, dtype=torch.int32)
    kt.append(k, v, slots, *pools, cache, layer, g, g)
    if op == "append":
        given, asked = {"k": k[:1], "v": v[:1], "slots": slots[:1]}, {"tokens": 1}
        arguments_of, out = (*given.values(), *pools, cache, layer, g, g), dict(zip(kt.POOLS, pools))
    else:
        paging = {"block_table": one[:, None] * 0, "lengths": one, "query_lengths": one}
        given, asked = {"q": q, **dict(zip(kt.POOLS, pools)), **paging}, {"tokens": 8, "sequences": 1, "queries": 1,
                                                                          "group": 3}
        arguments_of = q, *pools, *paging.values(), cache, layer, g, g
        out = {"out": torch.zeros_like(q), "lse": torch.zeros(1, 6)}
    axes = {"format": "nvfp4", "layout": "hnd", "dtype": "f16", "layer": layer, **SIZES}
    call = library.Call(library.problem(op=op, **axes, **asked))
    ins, outs = ({name: (x.data_ptr(), x.nbytes) for name, x in tensors.items() if x is not None}
                 for tensors in (given | {"k_tensor_scale": g, "v_tensor_scale": g}, out))
    bare = call._filled(ins, call.inputs, call._in), call._filled(outs, call.outputs, call._out)
    ways = {"C function": lambda: call._run(ctypes.byref(call._problem), *bare, None),
            "kvgold.library": lambda: call(ins, outs),
            "kvgold.torch": lambda: getattr(kt, op)(*arguments_of)}
    answers = []
    for name, way in ways.items():
        for tensor in out.values():
            if tensor is not None:
                tensor.zero_()
        answer = way()
        answers.append([x.clone() for x in (answer if isinstance(answer, tuple) else out.values()) if x is not None])
        assert all(map(torch.equal, answers[-1], answers[0])) and answers[0][0].any()
        print(f"{op:8} {name:16} {min(timeit.repeat(way, number=10, repeat=100)) * 1e5:6.1f} us")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("axes", [
    {"layout": "mla", "kv_heads": 1, "shared_kv": {"v_first": 8, "v_dim": 32}},
    {"layout": "contiguous", "kv_heads": 2}, {"layout": "ring", "kv_heads": 2}], ids=str)
def test_other_kinds_of_layouts(kt, axes):
    """K and V in one row; one block for each sequence; its last tokens alone. In 16 bits rows come back as they were."""
    import torch
    cache = kt.config(format="bf16", head_dim=64, block_tokens=16, blocks=3, **axes)
    k, v = torch.randn((2, 16, axes["kv_heads"], 64), generator=torch.Generator().manual_seed(2)).to(torch.bfloat16)
    pools, shared = kt.pools(cache), "shared_kv" in axes
    kt.append(k, None if shared else v, torch.arange(16, 32), *pools, cache)
    read = (*pools, torch.tensor([[1]], dtype=torch.int32), torch.tensor([16], dtype=torch.int32))
    flat = kt.flatten(*read, cache, 16)
    assert torch.equal(flat[0][0].transpose(0, 1), k)
    assert torch.equal(flat[1][0].transpose(0, 1), k[..., 8:40] if shared else v)
    q, count = k[:1].repeat(1, 2, 1), torch.tensor([1], dtype=torch.int32)
    out, lse = kt.decode(q, *read, count, cache)
    assert out.shape == (1, 2 * axes["kv_heads"], 32 if shared else 64) and lse.isfinite().all()
    torch.library.opcheck(torch.ops.kvgold.decode.default, (q, *read, count, cache))
    torch.library.opcheck(torch.ops.kvgold.flatten.default, (*read, cache, 16))


def test_empty(kt):
    import torch
    given = arguments(kt, torch)
    k, v, cache = given["quantise"][:3]
    assert [x.shape for x in kt.quantise(k[:0], v[:0], cache)] == [(0, 2, 32)] * 2 + [(0, 2, 4)] * 2
    assert [x.shape for x in kt.decode(given["decode"][0][:0], *given["decode"][1:])] == [(0, 6, 64), (0, 6)]


@pytest.mark.parametrize("name, index, change, words", [
    ("quantise", 0, lambda x: x.float(), r"k is float32 \[20, 2, 64\], not f16"),
    ("quantise", 1, lambda x: x[:3], r"v is float16 \[3, 2, 64\]"),
    *((name, 0, lambda x: x.clone().requires_grad_(), f"kvgold.torch.{name} has no gradient")
      for name in ("append", "decode", "quantise")),
    ("quantise", 3, lambda x: None, "k_tensor_scale is missing"),
    ("_quantise", 1, lambda x: x.to("meta"), "v is on meta, other tensors are on cpu"),
    ("append", 3, lambda x: x[:-1], "k_data has 7167 bytes; 7168 are needed"),
    ("append", 3, lambda x: x.expand(2, -1), "contiguous"),
    ("append", 4, lambda x: pytest.importorskip("torch").zeros(9), "v_data is given"),
    ("append", 2, lambda x: x + 40, "slot"),
    ("_append", 2, lambda x: x.to("meta"), "slots is on meta, other tensors are on cpu"),
    ("_decode", 0, lambda x: x.to("meta"), "tensors on meta: the operators work on cpu and cuda"),
    ("append", 0, lambda x: x[..., :32], r"k is float16 \[20, 2, 32\], not f16 \[20, 2, 64\]"),
    ("decode", 0, lambda x: x[..., :32], r"q is float16 \[3, 6, 32\], not f16 \[3, 6, 64\]"),
    ("append", 2, lambda x: x.int(), r"slots is int32 \[20\], not i64"),
    ("decode", 0, lambda x: x[:, :5], "multiple of 2 heads"),
    ("decode", 6, lambda x: x + 5, "length"),
    ("decode", 7, lambda x: x + 1, "query"),
    ("flatten", 4, lambda x: x[:, :2], r"block_table is int32 \[1, 2\], not i32 \[1, 3\]")])
def test_refused_tensors(kt, name, index, change, words):
    import torch
    given = list(arguments(kt, torch, "vllm" if "v_data" in words else "hnd")[name.strip("_")])
    given[index] = change(given[index])
    with pytest.raises(Exception, match=words) as raised:
        getattr(kt, name)(*given)
    assert isinstance(raised.value, ValueError) and "\n" not in str(raised.value)


# ---- A model's cache ----

@pytest.fixture(scope="module")
def model():
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(5)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, pad_token_id=0, bos_token_id=1, eos_token_id=None)
    return transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()


def cache_of(model, fmt="nvfp4", **more):
    from kvgold.transformers import KvgoldCache
    return KvgoldCache(fmt, model.config, **more)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("fmt", ["nvfp4", "int8", {"k": "e4m3", "v": "mxfp4"}, "bf16"], ids=str)
def test_generate(model, fmt):
    """Greedy, sampled, in beams, and a padded batch; 16 bits change nothing, and four bits store four times fewer."""
    import torch
    prompt, steps = torch.arange(2, 13).reshape(1, -1), {"max_new_tokens": 6}
    greedy = model.generate(prompt, cache=(cache := cache_of(model, fmt)), do_sample=False, **steps)
    assert greedy.shape == (1, 17) and cache.get_seq_length() == 16
    if fmt == "bf16":
        assert torch.equal(greedy, model.generate(prompt, do_sample=False, **steps))
    if fmt == "nvfp4":
        assert cache.layers[0].keys.shape == (1, 2, 16, 16 + 2) and cache.layers[1].values.dtype == torch.uint8
    for options in ({"do_sample": True, "num_return_sequences": 2}, {"num_beams": 3, "do_sample": False}):
        torch.manual_seed(1)
        assert model.generate(prompt, cache=cache_of(model, fmt), **options, **steps).shape[1] == 17
    padded = torch.cat([torch.nn.functional.pad(prompt[:, 4:], (4, 0)), prompt])
    both = model.generate(padded, attention_mask=(padded != 0).long(), cache=cache_of(model, fmt), do_sample=False,
                          **steps)
    assert both.shape == (2, 17)


def test_cache_holds_the_rows(model):
    """In the model's own type the cache changes no bit of a logit. A layer stores the bytes of the numpy format, K and V
    each with its scale, whatever the chunks of a prompt, and gives back what they stand for."""
    import torch
    from kvgold.transformers import KvgoldLayer
    from transformers import DynamicCache
    prompt = torch.arange(2, 22).reshape(2, 10)
    with torch.no_grad():
        other = model(prompt, cache=cache_of(model)).logits
        for chunk in (1, 4, 10):
            plain, usual = cache_of(model, "bf16"), DynamicCache()
            for piece in prompt.split(chunk, 1):
                ours, theirs = (model(piece, cache=cache).logits for cache in (plain, usual))
                assert torch.equal(ours, theirs) and not torch.equal(ours, other[:, -ours.shape[1]:])
    rows = [usual.layers[0].keys, usual.layers[0].values]
    whole, parts = (KvgoldLayer({"format": "nvfp4"}, (0.5, 0.25)) for _ in range(2))
    back = whole.update(*rows)
    for piece in zip(*(x.split(4, 2) for x in rows)):
        parts.update(*piece)
    for given, stored, again, x, g in zip(back, (whole.keys, whole.values), (parts.keys, parts.values), rows, (0.5, 0.25)):
        raw = x.contiguous().view(torch.int16).numpy().view(np.uint16).reshape(-1, 32)
        codes, scales = formats.quantise("nvfp4", "canonical", "bf16", raw, np.float32(g))
        assert torch.equal(stored, again)
        assert stored.numpy().tobytes() == np.concatenate([codes, scales], 1).tobytes()
        right = formats.dequantise("nvfp4", "canonical", "bf16", codes, scales, np.float32(g))
        assert given.contiguous().view(torch.int16).numpy().tobytes() == right.tobytes()


def test_refused_models(model):
    """Layers of another kind; and rows of another model, of another batch, and of K and V that differ."""
    import copy

    import torch
    from kvgold.transformers import KvgoldCache
    other = copy.deepcopy(model.config)
    other.layer_types = ["full_attention", "linear_attention"]
    with pytest.raises(library.LibraryError, match="layers of linear_attention: "):
        KvgoldCache("nvfp4", other)
    cache, row = KvgoldCache("nvfp4"), torch.ones(1, 2, 1, 32)
    cache.update(row, row, 0)
    for k, v, words in ((row[:, :1], row, "K has 1 sequences, 1 heads of 32 numbers in torch.float32 on cpu"),
                        (row, row[..., :16], "V has 1 sequences, 2 heads of 16"), (row.half(), row.half(), "float16"),
                        (row.repeat(2, 1, 1, 1), row.repeat(2, 1, 1, 1), "K has 2 sequences"),
                        (row.to("meta"), row, "meta")):
        with pytest.raises(library.LibraryError, match=f"{words}.*; this cache has 1 sequences, 2 heads of") as raised:
            cache.update(k, v, 0)
        assert "\n" not in str(raised.value) and cache.get_seq_length() == 1


# ---- A model's attention ----

def attention_of(torch, rows, tokens, begins, window=0):
    """Random tensors of two sequences, padded on the left, and their mask."""
    draw = torch.Generator().manual_seed(rows + tokens)
    q, k, v = (torch.randn((2, heads, n, 32), generator=draw).to(torch.bfloat16)
               for heads, n in ((4, rows), (2, tokens), (2, tokens)))
    behind = torch.arange(tokens - rows, tokens)[:, None] - torch.arange(tokens)
    mask = (behind >= 0) & (behind < (window or tokens)) & (torch.arange(tokens) >= torch.tensor(begins)[:, None, None])
    return q, k, v, mask[:, None]


@pytest.mark.parametrize("window, softcap, sinks", [(0, None, False), (5, 20.0, True)])
def test_attention(kt, window, softcap, sinks):
    """Near the float64 answer; a row's bits are its own in a prefill, step by step, alone, and behind padding."""
    import torch
    pytest.importorskip("transformers")
    from kvgold.transformers import attend
    q, k, v, mask = attention_of(torch, 12, 20, (0, 11), window)
    sink = torch.tensor([0.5, -1, 2, 0]) if sinks else None
    named = {"scaling": 0.25, "softcap": softcap, "sliding_window": window or None, "s_aux": sink}
    out = attend(None, q, k, v, mask, **named)[0]
    score = q.double() @ k.double().repeat_interleave(2, 1).transpose(2, 3) * 0.25
    score = (softcap * torch.tanh(score / softcap) if softcap else score).masked_fill(~mask, -torch.inf)
    top = torch.zeros(2, 4, 12, 1, dtype=torch.double) - torch.inf if sink is None else sink.double().view(1, 4, 1, 1).expand(2, -1, 12, 1)
    weight = torch.softmax(torch.cat([score, top], -1), -1)[..., :-1]
    right = (weight @ v.double().repeat_interleave(2, 1)).transpose(1, 2)
    assert not out[1, :3].any()  # rows of padding
    right[1, :3] = 0
    assert ((out.double() - right).abs() <= right.abs() * 2.0**-8 + 1e-12).all()
    for row in range(12):
        for s in range(2):
            begin = (0, 11)[s]
            if 8 + row < begin:
                continue
            end = 9 + row
            alone = attend(None, q[s:s + 1, :, row:row + 1], k[s:s + 1, :, begin:end], v[s:s + 1, :, begin:end],
                           mask[s:s + 1, :, row:row + 1, begin:end], **named)[0]
            assert torch.equal(alone[0, 0], out[s, row])


def test_refused_masks(kt):
    import torch
    pytest.importorskip("transformers")
    from kvgold.transformers import attend
    q, k, v, mask = attention_of(torch, 4, 9, (0, 0))
    mask[0, 0, 2, 4] = False
    with pytest.raises(library.LibraryError, match="causal masks"):
        attend(None, q, k, v, mask)
    with pytest.raises(library.LibraryError, match="float32"):
        attend(None, q.float(), k, v, mask)


WINDOWS = {"sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]}
KINDS = pytest.mark.parametrize("kind, more", [
    ("llama", {}), ("qwen3", {}), ("mistral", {"sliding_window": 5}), ("gemma2", WINDOWS), ("gemma3_text", WINDOWS),
    ("gpt_oss", {**WINDOWS, "num_local_experts": 4, "num_experts_per_tok": 2})])


def model_of(kind, more):
    """A small model of random weights, in f32."""
    import torch
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(
        kind, vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, pad_token_id=0, bos_token_id=1, eos_token_id=None,
        max_position_embeddings=128, attn_implementation="eager", **more)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.filterwarnings("default")
@KINDS
def test_generate_with_windows(kt, kind, more):
    """In the model's own type, KvgoldCache gives the bits of the model's own cache. In four bits a sequence has the
    same bits alone, behind padding, and with its prompt in chunks."""
    import torch

    model = model_of(kind, more).to(torch.bfloat16)
    from kvgold.transformers import KvgoldCache
    model.set_attn_implementation("kvgold")
    prompt = torch.randint(3, 64, (1, 11))
    padded = torch.cat([torch.nn.functional.pad(prompt, (4, 0)), torch.randint(3, 64, (1, 15))])

    def generate(ids, cache, **options):
        done = model.generate(ids, past_key_values=cache, attention_mask=(ids != 0).long(), do_sample=False,
                              max_new_tokens=8, output_logits=True, return_dict_in_generate=True, **options)
        return torch.stack(done.logits, 1)
    for ids in (prompt, padded):
        assert torch.equal(generate(ids, KvgoldCache("bf16")), generate(ids, None))
    alone = generate(prompt, KvgoldCache("nvfp4"))
    assert torch.equal(generate(padded, KvgoldCache("nvfp4"))[:1], alone)
    assert torch.equal(generate(prompt, KvgoldCache("nvfp4"), prefill_chunk_size=4), alone)
    assert not torch.equal(generate(prompt, None), alone)


@pytest.mark.filterwarnings("default")
@KINDS
def test_rollouts(kt, kind, more):
    """A rollout has the bits of a forward pass, in chunks, batches and padding, too; in four bits, too. A kernel that heeds
    the number of query tokens does not. No logit is further from the model's own than those are from its float32."""
    import torch

    import kvgold
    model = model_of(kind, more)
    import transformers
    from kvgold.transformers import AttentionInterface, attend
    ids = torch.randint(3, 64, (1, 24))
    with torch.no_grad():
        exact = model.float()(ids).logits
        own = model.to(torch.bfloat16)(ids).logits
        model.set_attn_implementation("kvgold")
        assert (model(ids).logits - own).abs().max() <= 2 * (own - exact).abs().max()
    report = kvgold.rollout(model, ids[0], chunk=7)
    assert report and len(report.ways) == 5, str(report)
    report = kvgold.rollout(model, ids[0], chunk=7, cache=lambda: cache_of(model),
                            caches={"bf16": lambda: cache_of(model, "bf16")})
    assert all(way.holds != (way.name == "bf16") for way in report.ways.values()), str(report)

    def wrong(module, query, *rest, **named):
        out, _ = attend(module, query, *rest, **named)
        return (out * 1.0625 if query.shape[2] > 1 else out), None
    AttentionInterface.register("kvgold_wrong", wrong)
    transformers.AttentionMaskInterface.register("kvgold_wrong", transformers.AttentionMaskInterface()["kvgold"])
    model.set_attn_implementation("kvgold_wrong")
    report = kvgold.rollout(model, ids[0], chunk=7)
    assert not report["rollout"].holds and report["batch"].holds, str(report)


@pytest.mark.filterwarnings("default")
def test_model_with_attention(model):
    """A model reads with it as with its own attention, padded, too."""
    import torch
    import kvgold.transformers  # noqa: F401
    prompt = torch.arange(2, 13).reshape(1, -1)
    padded = torch.cat([torch.nn.functional.pad(prompt[:, 4:], (4, 0)), prompt])
    options = {"attention_mask": (padded != 0).long(), "do_sample": False, "max_new_tokens": 4}
    with torch.no_grad():
        usual = model(prompt).logits
        eager = model.generate(padded, **options)
        model.set_attn_implementation("kvgold")
        try:
            assert (model(prompt).logits - usual).abs().max() < 0.05 * usual.abs().max()
            assert torch.equal(model.generate(padded, cache=cache_of(model, "bf16"), **options), eager)
        finally:
            model.set_attn_implementation("sdpa")
