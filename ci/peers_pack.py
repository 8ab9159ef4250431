#!/usr/bin/env python3
"""usage: ci/peers_pack.py WHEELS WORK OUT

Makes the packs of ci/peers.py; run by `ci/peers gpu`, in an environment with torch and what FlashInfer imports. WHEELS:
the folder with the pinned wheels; WORK: what is unpacked and compiled, kept between runs; OUT: fa3.tar.xz and
flashmla.tar.xz (a library of each, without its debugging information), flashinfer.tar.xz (Python of FlashInfer and of
tvm-ffi, and the libraries that ci/peers.py asks FlashInfer for, compiled for sm_90a) and packs.json (names, sizes,
SHA-256). Compiles as many files at once as MAX_JOBS says. Exit status: 0; 3 a wheel is missing or a library does not
compile.
"""
import glob
import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile

import peers
import peers_kernels

# Of FlashInfer's data: what its generators of source read before they look for a library.
TEMPLATES = ("flashinfer/data/csrc/batch_prefill",)
# Sources of kernels that no row calls: ragged K and V, custom masks, several items.
UNUSED = re.compile(r"_ragged_.*_mask_\d\.cu$|_mask_[23]\.cu$")
TVM_FFI = ("tvm_ffi/include/", "tvm_ffi/3rdparty/", "tvm_ffi/src/", "tvm_ffi/share/")


def die(line):
    print(f"peers_pack: {line}", file=sys.stderr)
    sys.exit(3)


def wheel(folder, name):
    found = glob.glob(os.path.join(folder, name + "-*.whl"))
    if len(found) != 1:
        die(f"{folder} has {len(found)} wheels of {name}, and one is needed")
    return found[0]


def unpack(path, folder):
    """Into folder, unless this very wheel is there already."""
    mark = os.path.join(folder, "wheel")
    if os.path.isfile(mark) and open(mark, encoding="utf-8").read() == os.path.basename(path):
        return
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
    with open(mark, "w", encoding="utf-8") as f:
        f.write(os.path.basename(path))


def flashinfer_specs(torch):
    """The libraries that the rows of ci/peers.py ask for."""
    from flashinfer.jit.attention import modules
    from flashinfer.jit.attention.variants import attention_sink_decl
    from flashinfer.jit.xqa import gen_xqa_module
    bf16, e4m3, nvfp4, index = torch.bfloat16, torch.float8_e4m3fn, torch.uint8, torch.int32
    types = {"bf16": bf16, "e4m3": e4m3, "nvfp4": nvfp4}
    specs = {}
    for row in peers.all_rows():
        peer, g = peers.PEERS[row.peer], row.geometry
        kv = types[peer.format]
        if peer.kind == "fi-fa2" and peers.has_sinks(row):
            args, kwargs = peers_kernels.sink_arguments(torch, peer.format, attention_sink_decl["fa2"])
            spec = modules.gen_customize_batch_prefill_module("fa2", *args, **kwargs)
        elif peer.kind == "fi-fa2":  # as flashinfer.prefill.get_batch_prefill_module asks
            spec = modules._gen_batch_prefill_primary_module("fa2", bf16, kv, bf16, index, g.head_dim, g.head_dim, 0,
                                                             False, False, False)
        elif peer.kind == "fi-fa3":
            spec = modules.gen_batch_prefill_module("fa3", kv, kv, bf16, index, g.head_dim, g.head_dim, 0, False, False,
                                                    False)
        elif peer.kind == "xqa":
            spec = gen_xqa_module(bf16, kv, peers.PAGE, g.head_dim, g.query_heads // g.kv_heads, False, bf16,
                                  row.queries)
        else:
            continue
        specs.setdefault(spec.name, spec)
    return list(specs.values())


def compile_flashinfer(site):
    """Paths of the libraries."""
    sys.path.insert(0, site)
    import torch
    made = []
    specs = flashinfer_specs(torch)
    for number, spec in enumerate(specs, 1):
        # Compressed by xz below, all together, and not one by one.
        spec.extra_cuda_cflags = [f for f in spec.extra_cuda_cflags if "compress" not in f] + ["--compress-mode=none"]
        # Three quarters of the kernels are never asked for. What refers to them stays unresolved, as nothing calls it.
        spec.sources = [s for s in spec.sources if not UNUSED.search(s.name)]
        spec.extra_ldflags = (spec.extra_ldflags or []) + ["-Wl,-z,lazy"]
        start = time.monotonic()
        try:
            spec.build()
        except Exception as error:
            die(f"{spec.name} does not compile: {str(error).strip().splitlines()[-1]}")
        print(f"{number} of {len(specs)}, {time.monotonic() - start:.0f} s: {spec.name}", flush=True)
        made.append(str(spec.get_library_path()))
    return made


def pack(path, members):
    """members: {name in the archive: file}. The same files give the same bytes."""
    def plain(info):
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        info.mode = 0o644
        return info

    with lzma.open(path, "wb", preset=9) as stream, tarfile.open(fileobj=stream, mode="w") as archive:
        for name in sorted(members):
            archive.add(members[name], arcname=name, filter=plain)


def files_below(root, wanted):
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, root)
            if wanted(relative):
                found[relative] = path
    return found


def is_needed(name):
    """Of the unpacked wheels of FlashInfer and tvm-ffi."""
    if name.startswith("tvm_ffi/"):
        return name.endswith((".py", ".so")) and not name.startswith(TVM_FFI)
    return name.startswith(TEMPLATES) or (
        name.startswith("flashinfer/") and name.endswith((".py", ".json")) and not name.startswith("flashinfer/data/"))


def main():
    if len(sys.argv) != 4:
        print(__doc__)
        return 2
    wheels, work, out = map(os.path.abspath, sys.argv[1:])
    os.makedirs(out, exist_ok=True)
    names = {part: wheel(wheels, name) for part, name in
             (("fa3", "tokenspeed_fa3"), ("flashmla", "sgl_flash_mla"), ("site", "flashinfer_python"),
              ("tvm_ffi", "apache_tvm_ffi"))}
    for part, path in names.items():
        unpack(path, os.path.join(work, part))

    os.environ.update(FLASHINFER_CUDA_ARCH_LIST="9.0a", FLASHINFER_WORKSPACE_BASE=os.path.join(work, "flashinfer"),
                      FLASHINFER_LOGGING_LEVEL="warning")
    os.environ.pop("FLASHINFER_DISABLE_JIT", None)
    site = os.path.join(work, "site")
    libraries = compile_flashinfer(site)
    members = files_below(site, is_needed)
    members.update(files_below(os.path.join(work, "tvm_ffi"), is_needed))
    for path in libraries:
        name = os.path.basename(path)
        members[f"flashinfer/data/aot/{name[:-3]}/{name}"] = path
    pack(os.path.join(out, "flashinfer.tar.xz"), {"site/" + n: p for n, p in members.items()})

    for part, library in (("fa3", "flash_attn_3/_C.abi3.so"), ("flashmla", "flash_mla/_C_legacy.abi3.so")):
        stripped, archive = os.path.join(work, part, "stripped.so"), os.path.join(out, part + ".tar.xz")
        if not os.path.isfile(stripped):
            subprocess.run(["strip", "--strip-debug", "-o", stripped, os.path.join(work, part, library)], check=True)
        if not os.path.isfile(archive) or os.path.getmtime(archive) < os.path.getmtime(stripped):
            pack(archive, {f"{part}/{os.path.basename(library)}": stripped})

    made = {}
    for name in peers.PACKS:
        with open(os.path.join(out, name), "rb") as f:
            data = f.read()
        made[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        print(f"{name}: {len(data)} bytes, SHA-256 {made[name]['sha256']}")
    with open(os.path.join(out, "packs.json"), "w", encoding="utf-8") as f:
        json.dump({"wheels": sorted(os.path.basename(p) for p in names.values()), "packs": made}, f, indent=1)
        f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
