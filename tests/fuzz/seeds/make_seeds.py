#!/usr/bin/env python3
"""Writes the good files that the fuzz targets start from, beside this script: golden/bad has only bad ones."""

import json
import pathlib
import struct

JSON = """{"seed": "0x1f", "text": "\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00 \u00e9\u20ac",
 "cases": [{"fill": 1, "b": [true, false, null]}, -2.5e-3, 9007199254740992, [], {}, [[[0]]]]}
"""
TENSORS = {
    "__metadata__": {"model": "tiny"},
    "k": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [4, 16]},
    "scale": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
    "empty": {"dtype": "I64", "shape": [0, 7], "data_offsets": [16, 16]},
    "codes": {"dtype": "U8", "shape": [1, 1, 1, 1, 1, 1, 1, 5], "data_offsets": [16, 21]},
}

here = pathlib.Path(__file__).parent
header = json.dumps(TENSORS).encode()
header += b" " * (-len(header) % 8)
(here / "good.json").write_bytes(JSON.encode())
(here / "good.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(range(21)))
