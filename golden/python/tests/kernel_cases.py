#!/usr/bin/env python3
"""usage: kernel_cases.py fa3|flashinfer|flashmla|vllm|sglang FOLDER

Questions whose answers by another project's kernel are known: kernel_bits.json has the SHA-256 of the bits that the
kernel gave on a GPU, and test_python_predict.py compares kvgold.predict with them. On a machine with a Hopper GPU and
PyTorch this program asks the kernel again: FOLDER has the unpacked wheel tokenspeed-fa3 or sgl-flash-mla, or
flashinfer-python, vllm or sglang with what it imports. It prints the cases that differ, and how many were asked. Exit status: 0; 1 some differ."""
import hashlib
import json
import os
import sys

import numpy as np

POSITIONS = 1024  # of every cache


def known():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernel_bits.json"), encoding="utf-8") as file:
        return json.load(file)["cases"]


def _normals(seed, shape):
    """Sums of the four 16-bit parts of a random word, scaled: exact in f32 wherever it is computed."""
    words = np.random.PCG64(seed).random_raw(int(np.prod(shape)))
    parts = sum((words >> np.uint64(16 * i) & np.uint64(0xFFFF)).astype(np.int64) for i in range(4))
    return ((parts - 131070).astype(np.float32) / np.float32(32768)).reshape(shape)


def bf16(x):
    """Codes of the nearest bf16 numbers, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF).astype(np.uint16)


E4M3 = np.array([m / 8 * 2.0 ** -6 if e == 0 else (1 + m / 8) * 2.0 ** (e - 7) for e in range(16) for m in range(8)][:127])


def e4m3(x):
    """Codes of the nearest e4m3 numbers, ties to even, from numbers of at most 448."""
    a = np.abs(x.astype(np.float64))
    above = np.clip(np.searchsorted(E4M3, a), 1, 126)
    low, high = a - E4M3[above - 1], E4M3[above] - a
    up = (low > high) | ((low == high) & (above % 2 == 0))
    return np.where(up, above, above - 1).astype(np.uint8) | (np.signbit(x).astype(np.uint8) << 7)


def of_e4m3(codes):
    """The numbers of codes, as bf16."""
    return bf16(np.where(codes >> 7, -1, 1) * np.append(E4M3, np.nan)[codes & 0x7F])


def inputs(case):
    """q [sequences, tokens, query heads, dim], k and v [sequences, positions, KV heads, dim] as codes, and sinks. q of
    e4m3 is what the kernel is given; kvgold.predict takes of_e4m3(q). v is None if k's rows hold it."""
    sequences, dim, seed = len(case["lengths"]), case["dim"], case["seed"]
    narrow = {"bf16": bf16, "e4m3": e4m3, "f16": lambda x: x.astype(np.float16).view(np.uint16)}[case["dtype"]]
    cache = sequences, POSITIONS, case["kv_heads"], dim
    with np.errstate(over="ignore"):
        q = narrow(_normals(seed, (sequences, case["tokens"], case["query_heads"], dim)) * np.float32(case["spread"]))
    k = narrow(_normals(seed + 1, cache))
    v = None if case.get("v_dim") else narrow(_normals(seed + 2, cache))
    sinks = (bf16(_normals(seed + 3, (case["query_heads"],))).astype(np.uint32) << 16).view(np.float32)
    if case["special"]:
        nan, inf, minus = {"bf16": (0x7FC0, 0x7F80, 0xFF80), "f16": (0x7E00, 0x7C00, 0xFC00),
                           "e4m3": (0x7F, 0x7E, 0xFE)}[case["dtype"]]
        k[1, 3, 0, 5], k[2, 3, 0, 5], k[3, 3, 0, 5] = nan, inf, minus
        v[4, 3, 0, 5], v[5, 3, 0, 5] = nan, inf
        q[6, 0, 0, 5], q[7, 0, 0, 5] = nan, inf
        k[8, 299, 0, 5], v[8, 2, 0, 5], v[8, 3, 0, 5] = inf, inf, minus
    return q, k, v, sinks if case["sinks"] else None


def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def ask_fa3(flash_attn, torch, case):
    """out [sequences, tokens, query heads, dim] as codes, lse [sequences, query heads, tokens]."""
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "e4m3": torch.float8_e4m3fn}[case["dtype"]]
    word, raw = (np.uint8, torch.uint8) if case["dtype"] == "e4m3" else (np.int16, torch.int16)
    *rows, sinks = inputs(case)
    q, k, v = (torch.from_numpy(x.view(word)).cuda().view(dtype) for x in rows)
    options = {}
    if case["profile"].endswith(".pages"):
        pages = len(case["lengths"]) * POSITIONS // 16
        table = torch.randperm(pages, generator=torch.Generator().manual_seed(1)).cuda()
        shuffled = [torch.empty(pages, 16, *x.shape[2:], dtype=raw, device="cuda") for x in (k, v)]
        for to, x in zip(shuffled, (k, v)):
            to[table] = x.view(raw).view(to.shape)
        k, v = (x.view(dtype) for x in shuffled)
        options["page_table"] = table.to(torch.int32).view(len(case["lengths"]), -1)
    for name, scale in zip(("q_descale", "k_descale", "v_descale"), case["descale"] or ()):
        shape = len(case["lengths"]), case["kv_heads"]
        options[name] = torch.full(shape, scale, dtype=torch.float32, device="cuda")
    if sinks is not None:
        options["sinks"] = torch.from_numpy(sinks).cuda().to(torch.bfloat16)
    window = (case["window"] - 1, 0) if case["window"] else (-1, -1)
    lengths = torch.tensor(case["lengths"], dtype=torch.int32, device="cuda")
    out, lse, *_ = flash_attn.flash_attn_with_kvcache(
        q, k, v, cache_seqlens=lengths, causal=True, num_splits=case["splits"], window_size=window, softmax_scale=case["scale"],
        return_softmax_lse=True, **options)
    return out.contiguous().view(torch.int16).cpu().numpy(), lse.float().cpu().numpy()


def flashinfer_sinks(torch, dim):
    """What FlashInfer compiles for its own attention with sinks."""
    from flashinfer.jit.attention.variants import attention_sink_decl
    bf16 = torch.bfloat16
    return {"jit_args": [f"kvgold_cases_sink_{dim}", bf16, bf16, bf16, torch.int32, dim, dim, ["sink"], ["float"],
                         ["sm_scale"], ["double"], "AttentionSink", attention_sink_decl["fa2"]],
            "jit_kwargs": {"paged_kv_stride_mode": "equal", "module_surface": "full"}}


def ask_xqa(xqa, torch, case):
    """As ask_vllm. The kernel cuts rows into as many splits as leave each multiprocessor one."""
    page, count, tokens, dim, kv_heads = 16, len(case["lengths"]), case["tokens"], case["dim"], case["kv_heads"]
    dtype = torch.float16 if case["dtype"] == "f16" else torch.bfloat16
    *rows, sinks = inputs(case)
    q, k, v = (torch.from_numpy(x.view(np.int16)).cuda().view(dtype) for x in rows)
    table = torch.randperm(count * POSITIONS // page, generator=torch.Generator().manual_seed(1)).cuda()
    pool = [torch.empty(len(table), page, *x.shape[2:], dtype=dtype, device="cuda") for x in (k, v)]
    for to, x in zip(pool, (k, v)):
        to[table] = x.view(to.shape)
    words = -(-tokens // 32) * 2
    seen = [[sum(1 << j % 16 for j in range(i + 1) if j // 16 == word) for word in range(words)] for i in range(tokens)]
    mask = torch.from_numpy(np.array([seen] * count, np.uint16)).cuda() if tokens > 1 else None
    q = q.unsqueeze(1) if tokens > 1 else q
    out = torch.zeros_like(q)
    xqa(q, *pool, table.view(count, -1).to(torch.int32), torch.tensor(case["lengths"], device="cuda").view(-1, 1).to(torch.uint32),
        out, torch.zeros(1 << 27, dtype=torch.uint8, device="cuda"), torch.zeros(1 << 20, dtype=torch.uint32, device="cuda"),
        kv_heads, page, sinks=None if sinks is None else torch.from_numpy(sinks).cuda().view(kv_heads, -1),
        q_scale=(case["scale"] or dim ** -0.5) * dim ** 0.5, sliding_win_size=case["window"] or 0,
        sm_count=case["splits"] * count * kv_heads, q_seq_len=tokens, mask=mask)
    return out.view(rows[0].shape).view(torch.int16).cpu().numpy(), None


def ask_flashinfer(modules, torch, case):
    """As ask_fa3."""
    prefill, decode, xqa = modules
    if case["profile"].endswith(".xqa"):
        return ask_xqa(xqa, torch, case)
    page, count, tokens, dim = 16, len(case["lengths"]), case["tokens"], case["dim"]
    bytes_ = case["dtype"] == "e4m3"
    dtype = torch.float16 if case["dtype"] == "f16" else torch.bfloat16
    q, k, v, sinks = inputs(case)
    q = torch.from_numpy((of_e4m3(q) if bytes_ else q).view(np.int16)).cuda().view(dtype)
    of_sequence = POSITIONS // page
    table = torch.randperm(count * of_sequence, generator=torch.Generator().manual_seed(1))
    pool = []
    for x in (k, v):
        x = torch.from_numpy(x.view(np.uint8 if bytes_ else np.int16)).cuda()
        pool.append(torch.empty(len(table), page, *x.shape[2:], dtype=x.dtype, device="cuda"))
        pool[-1][table.cuda()] = x.reshape(pool[-1].shape)
        pool[-1] = pool[-1].view(torch.float8_e4m3fn if bytes_ else dtype)
    pages = [-(-n // page) for n in case["lengths"]]
    used = torch.cat([table[s * of_sequence: s * of_sequence + n] for s, n in enumerate(pages)])
    scale = case["scale"] or dim ** -0.5
    split = {"fixed_split_size": case["split_size"] // page} if case["split_size"] else {"disable_split_kv": True}
    backend, workspace = case["profile"].rpartition(".")[2], torch.zeros(1 << 28, dtype=torch.uint8, device="cuda")
    plan = [torch.tensor(np.cumsum([0] + pages), dtype=torch.int32), used.to(torch.int32).cuda(),
            torch.tensor([(n - 1) % page + 1 for n in case["lengths"]], dtype=torch.int32), case["query_heads"],
            case["kv_heads"], dim, page]
    options = {"sm_scale": scale, "window_left": (case["window"] or 0) - 1, "logits_soft_cap": case["softcap"],
               "q_data_type": dtype, "kv_data_type": pool[0].dtype}
    if backend == "one":  # which chooses its splits
        wrapper = decode.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=False, backend="fa2")
        wrapper.plan(*plan, **options)
    else:
        wrapper = prefill.BatchPrefillWithPagedKVCacheWrapper(
            workspace, "NHD", backend=backend, **flashinfer_sinks(torch, dim) if case["sinks"] else {})
        wrapper.plan(torch.arange(count + 1, dtype=torch.int32) * tokens, *plan, causal=True, o_data_type=dtype,
                     **options, **split if backend == "fa2" else {})
    extra = (torch.from_numpy(sinks).cuda(), scale) if case["sinks"] else ()
    scales = dict(zip(("q_scale", "k_scale", "v_scale"), case["descale"] or ()))
    base = {} if backend == "one" else {"lse_base": "ln"}
    out, lse = wrapper.run(q.reshape(count * tokens, -1, dim), tuple(pool), *extra, return_lse=True, **base, **scales)
    lse = lse if base else lse * 0.6931471805599453
    lse = lse.view(count, tokens, -1).transpose(1, 2).contiguous()
    return out.view(torch.int16).cpu().numpy(), lse.cpu().numpy()


def ask_flashmla(library, torch, case):
    """As ask_fa3."""
    page, count = 64, len(case["lengths"])
    torch.ops.load_library(library)
    q, rows, *_ = inputs(case)
    q, rows = (torch.from_numpy(x.view(np.int16)).cuda().view(torch.bfloat16) for x in (q, rows))
    table = torch.randperm(count * POSITIONS // page, generator=torch.Generator().manual_seed(1)).cuda()
    pool = torch.empty(len(table), page, *rows.shape[2:], dtype=rows.dtype, device="cuda")
    pool[table] = rows.view(pool.shape)
    out, lse, *_ = torch.ops.flash_mla_legacy.dense_decode_fwd(
        q, pool, case["v_dim"], torch.tensor(case["lengths"], dtype=torch.int32, device="cuda"),
        table.view(count, -1).to(torch.int32), case["scale"], case["tokens"] > 1, None, None)
    return out.view(torch.int16).cpu().numpy(), lse.cpu().numpy()


def ask_vllm(unified_attention, torch, case):
    """As ask_fa3; the kernel gives no LSE."""
    page, count, tokens, segments = 16, len(case["lengths"]), case["tokens"], 16
    dtype = torch.float16 if case["dtype"] == "f16" else torch.bfloat16
    *rows, sinks = inputs(case)
    q, k, v = (torch.from_numpy(x.view(np.int16)).cuda().view(dtype) for x in rows)
    table = torch.randperm(count * POSITIONS // page, generator=torch.Generator().manual_seed(1)).cuda()
    pool = [torch.empty(len(table), page, *x.shape[2:], dtype=dtype, device="cuda") for x in (k, v)]
    for to, x in zip(pool, (k, v)):
        to[table] = x.view(to.shape)
    q = q.reshape(count * tokens, *q.shape[2:]).contiguous()
    out, options = torch.zeros_like(q), {}
    if case["profile"].endswith(".segments"):
        rows = *q.shape[:2], segments
        room = [torch.zeros(shape, device="cuda") for shape in ((*rows, 1 << (q.shape[2] - 1).bit_length()), rows, rows)]
        options = dict(zip(("softmax_segm_output", "softmax_segm_max", "softmax_segm_expsum"), room),
                       seq_threshold_3D=10 ** 6, num_par_softmax_segments=segments)
    if sinks is not None:
        options["sinks"] = torch.from_numpy(sinks).cuda().to(torch.bfloat16)
    unified_attention(
        q=q, k=pool[0], v=pool[1], out=out, max_seqlen_q=tokens, max_seqlen_k=max(case["lengths"]), causal=True,
        cu_seqlens_q=torch.arange(count + 1, dtype=torch.int32, device="cuda") * tokens,
        seqused_k=torch.tensor(case["lengths"], dtype=torch.int32, device="cuda"),
        softmax_scale=case["scale"] or case["dim"] ** -0.5, softcap=case["softcap"] or 0,
        window_size=(case["window"] - 1, 0) if case["window"] else (-1, -1),
        block_table=table.view(count, -1).to(torch.int32), q_descale=None, k_descale=None, v_descale=None, **options)
    return out.view(torch.int16).cpu().numpy(), None


def ask_sglang(decode_attention_fwd, torch, case):
    """As ask_vllm. Slots have no order, and a window is a list of the slots in it."""
    count, most, splits, window = len(case["lengths"]), 16, case["splits"], case["window"]
    dtype = torch.float16 if case["dtype"] == "f16" else torch.bfloat16
    *rows, sinks = inputs(case)
    q, k, v = (torch.from_numpy(x.view(np.int16)).cuda().view(dtype) for x in rows)
    slots = torch.randperm(count * POSITIONS, generator=torch.Generator().manual_seed(1)).cuda()
    pool = [torch.empty(len(slots), *x.shape[2:], dtype=dtype, device="cuda") for x in (k, v)]
    for to, x in zip(pool, (k, v)):
        to[slots] = x.reshape(to.shape)
    firsts = [max(0, n - window) if window else 0 for n in case["lengths"]]
    seen = [slots[s * POSITIONS + first: s * POSITIONS + n] for s, (first, n) in enumerate(zip(firsts, case["lengths"]))]
    ends = torch.tensor(np.cumsum([0] + [len(x) for x in seen]), dtype=torch.int32, device="cuda")
    q = q.reshape(count, *q.shape[2:]).contiguous()
    out = torch.zeros_like(q)
    parts = torch.zeros(count, q.shape[1], most, q.shape[2], device="cuda")
    decode_attention_fwd(
        q, *pool, out, ends, torch.cat(seen), parts, parts.new_zeros(parts.shape[:3]),
        torch.full((count,), splits, dtype=torch.int32, device="cuda"), most, case["scale"] or case["dim"] ** -0.5, 1.0, 1.0,
        logit_cap=case["softcap"] or 0, sinks=None if sinks is None else torch.from_numpy(sinks).cuda())
    return out.view(torch.int16).cpu().numpy(), None


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("fa3", "flashinfer", "flashmla", "vllm", "sglang"):
        sys.exit(__doc__)
    kernel, folder = sys.argv[1:]
    sys.path.insert(0, folder)
    import torch
    if kernel == "fa3":
        import flash_attn_interface as module
        ask = ask_fa3
    elif kernel == "flashmla":
        module, ask = os.path.join(folder, "flash_mla", "_C_legacy.abi3.so"), ask_flashmla
    elif kernel == "vllm":
        from vllm.v1.attention.ops.triton_unified_attention import unified_attention as module
        ask = ask_vllm
    elif kernel == "sglang":
        from sglang.kernels.ops.attention.decode_attention import decode_attention_fwd as module
        ask = ask_sglang
    else:
        import flashinfer.decode
        import flashinfer.prefill
        from flashinfer.xqa import xqa
        module = flashinfer.prefill, flashinfer.decode, xqa
        ask = ask_flashinfer
    cases, wrong = [case for case in known() if case["profile"].startswith(f"sm90.{kernel}.")], 0
    for case in cases:
        out, lse = ask(module, torch, case)
        if (digest(out), lse if lse is None else digest(lse)) != (case["out"], case["lse"]):
            print(f"differs: {case['name']}")
            wrong += 1
    print(f"{torch.cuda.get_device_name()}: {len(cases)} cases asked, {wrong} differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
