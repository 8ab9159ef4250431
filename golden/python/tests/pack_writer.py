"""Writes small packs for the tests of the loader: the folder that docs/spec/golden-pack.md describes, from plain values."""

import hashlib
import json
import os

import numpy as np

SAFETENSORS = {"uint8": "U8", "float16": "F16", "uint16": "BF16", "float32": "F32", "float64": "F64", "int32": "I32",
               "int64": "I64"}


def entry(name, array, packing=None):
    data = np.ascontiguousarray(array)
    listed = {"name": name, "dtype": SAFETENSORS[data.dtype.name], "shape": list(data.shape), "bytes": data.nbytes,
              "sha256": hashlib.sha256(data).hexdigest()}
    return {**listed, "packing": packing} if packing else listed


def safetensors(tensors, metadata):
    """The bytes of a file: tensors at multiples of 256, holes filled."""
    header, body, pads = {"__metadata__": metadata}, b"", 0
    for name, array in tensors.items():
        hole = -len(body) % 256
        if hole:
            header[f"_pad.{pads}"] = {"dtype": "U8", "shape": [hole], "data_offsets": [len(body), len(body) + hole]}
            body, pads = body + bytes(hole), pads + 1
        data = np.ascontiguousarray(array)
        header[name] = {"dtype": SAFETENSORS[data.dtype.name], "shape": list(data.shape),
                        "data_offsets": [len(body), len(body) + data.nbytes]}
        body += data.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 256)
    return len(text).to_bytes(8, "little") + text + body


def append_case(key):
    """An append of one token to a cache of two slots. Its bytes are made up: the loader does not compute."""
    inputs = {"k": np.arange(16, dtype=np.uint16).reshape(1, 1, 16), "slots": np.array([1]),
              "k_data": np.full(16, 0xA5, np.uint8)}
    expected = {"k_data": np.arange(16, dtype=np.uint8)}
    problem = {"op": "append", "format": "nvfp4", "layout": "hnd", "dtype": "bf16"}
    return case(key, f"append/{key}", problem, inputs, expected,
                [{"name": "k_data", "dtype": "U8", "shape": [16], "compare": "bits"}], packing={"k": "low_first"})


def decode_case(key, profile=None):
    """A decode with numbers whose verdict is plain: exact 1, 2, 3, Inf and one of which nothing is promised."""
    expected = {"out.exact": np.array([1.0, 2.0, 3.0, np.inf, np.nan]),
                "out.bound": np.array([0.5, 0.0, 0.25, 1.0, np.inf])}
    answer = {"name": "out", "dtype": "F32", "shape": [5], "compare": "bound", "exact": f"{key}.out.exact",
              "bound": f"{key}.out.bound"}
    if profile:
        expected = {"out": np.array([1.25, 2.0, 3.0, np.inf, np.nan], np.float32), **expected}
        answer["profile"] = profile
    problem = {"op": "decode", "format": {"k": "bf16", "v": "nvfp4"}, "layout": "nhd", "dtype": "f32"}
    return case(key, f"decode/{key}", problem, {"q": np.zeros((1, 1, 16), np.float32)}, expected, [answer])


def case(key, name, problem, inputs, expected, answers, packing=None):
    return {"entry": {
        "key": key, "id": name, "case": problem, "layer": 0, "flags": [], "stored": True,
        "prompt": [entry(f"{key}.{n}", a, packing if n == "k_data" else None) for n, a in inputs.items()],
        "answer": [{**a, "name": f"{key}.{a['name']}"} for a in answers],
        "expected": [entry(f"{key}.{n}", a, packing if n == "k_data" else None) for n, a in expected.items()]},
        "prompt": {f"{key}.{n}": a for n, a in inputs.items()},
        "expected": {f"{key}.{n}": a for n, a in expected.items()}}


def manifest(cases):
    entries = [c["entry"] for c in cases]
    profiles = {a["profile"] for e in entries for a in e["answer"] if "profile" in a}
    return {"kvgold_pack": "1.0.0", "name": "fixture", "version": "1.0.0", "licence": "Apache-2.0", "seed": "0x1",
            "case_count": len(entries), "profiles": sorted(profiles),
            "notes": {}, "errata": [], "superseded_by": None, "files": {}, "cases": entries}


def parts(cases, value):
    """The bytes of both safetensors files; recipes are in none."""
    stored = [c for c in cases if c["entry"]["stored"]]
    metadata = {"kvgold_pack": value["kvgold_pack"], "name": value["name"]}
    prompts = {f"case.{e['key']}": json.dumps({
        "id": e["id"], "case": e["case"], "layer": e["layer"],
        "answer": [{k: a[k] for k in ("name", "dtype", "shape")} for a in e["answer"]]}) for e in value["cases"]}
    inputs, answers = ({n: a for c in stored for n, a in c[part].items()} for part in ("prompt", "expected"))
    return {"prompt.safetensors": safetensors(inputs, metadata | prompts),
            "expected.safetensors": safetensors(answers, metadata)}


def write(folder, cases, change=lambda value: None, change_files=lambda files: None):
    """A pack in `folder`. `change` edits the manifest, `change_files` the safetensors files before they are hashed: what
    it plants is found by the check that it is meant for, not by a hash."""
    value = manifest(cases)
    files = parts(cases, value)
    change_files(files)
    value["files"] = {n: {"bytes": len(b), "sha256": hashlib.sha256(b).hexdigest()} for n, b in files.items()}
    change(value)
    os.makedirs(folder)
    texts = {"manifest.json": json.dumps(value).encode(), "provenance.json": b'{"kvgold": "test"}\n'}
    for name, data in texts.items():
        files[name] = data
        files[name.replace(".json", ".sha256")] = f"{hashlib.sha256(data).hexdigest()}  {name}\n".encode()
    for name, data in files.items():
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)
    return folder
