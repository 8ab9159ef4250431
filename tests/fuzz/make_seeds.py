"""Good files that the fuzz targets start from, beside the bad ones of golden/bad and those of tests/fuzz/seeds, which
are written by hand. tests/made/make_files.py writes them into a build folder."""

import json
import pathlib
import struct

JSON = """{"seed": "0x1f", "text": "\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00 \u00e9\u20ac",
 "cases": [{"fill": 1, "b": [true, false, null]}, -2.5e-3, 9007199254740992, [], {}, [[[0]]]]}
"""
CONFIG = {"kvgold": 1, "name": "paged", "seed": "0x1", "cases": [
    {"op": "append", "layout": ["nhd", "hnd"], "policy": [{"number": 16, "domain": "turbomind", "sm": 100, "fp4_build": True,
     "fp4_nv": False, "on_unsupported": "fallback", "gating": "design", "prefix_cache": True, "partial_kv": True,
     "engine_kernels": True}, {"number": 4}], "kv_heads": 2, "head_dim": 64, "tokens": 5, "block_tokens": 4, "blocks": 9,
     "layers": 2, "sequences": 3, "padding": {"row": 1, "data": 2, "scales": 3}, "bias": [True, False],
     "rope": {"dims": 8, "positions": 4, "pairing": "halves"}, "fill": "random",
     "exclude": [{"policy": "policy4", "bias": True}]},
    {"op": "flatten", "layout": "mla", "format": "nvfp4", "kv_heads": 1, "head_dim": 64, "fill": "codes",
     "shared_kv": {"v_dim": 32, "v_first": 16}, "include": [{"layout": "hnd", "shared_kv": {"v_dim": 1}, "v_scale_swizzle": True}],
     "exclude": [{"layout": "hnd"}]},
]}
TENSORS = {
    "__metadata__": {"model": "tiny"},
    "k": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [4, 16]},
    "scale": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
    "empty": {"dtype": "I64", "shape": [0, 7], "data_offsets": [16, 16]},
    "codes": {"dtype": "U8", "shape": [1, 1, 1, 1, 1, 1, 1, 5], "data_offsets": [16, 21]},
}

ROOT = pathlib.Path(__file__).resolve().parents[2]


def answer_to(pack):
    """The right answer to a golden pack's stored cases that have bits to be given back."""
    expected = (pack / "expected.safetensors").read_bytes()
    length, = struct.unpack_from("<Q", expected)
    listed, header, data = json.loads(expected[8:8 + length]), {}, b""
    for c in json.loads((pack / "manifest.json").read_text())["cases"]:
        for a in c["answer"] if c["stored"] else []:
            begin, end = (8 + length + at for at in listed[a["name"]]["data_offsets"])
            header[a["name"]] = {"dtype": a["dtype"], "shape": a["shape"],
                                 "data_offsets": [len(data), len(data) + end - begin]}
            data += expected[begin:end]
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def files():
    """Name to bytes."""
    header = json.dumps(TENSORS).encode()
    header += b" " * (-len(header) % 8)
    return {
        "good.json": JSON.encode(),
        "good.paged.json": json.dumps(CONFIG, indent=1).encode() + b"\n",
        "good.safetensors": struct.pack("<Q", len(header)) + header + bytes(range(21)),
        "good.answer.safetensors": answer_to(ROOT / "golden/bad/packs/good"),
    }
