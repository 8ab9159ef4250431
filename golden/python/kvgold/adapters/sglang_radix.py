"""SGLang's RadixCache over its PagedTokenToKVPoolAllocator (https://github.com/sgl-project/sglang), as its scheduler
calls them.

    python -m kvgold.adapters.managers sglang_radix:Manager -o pool.jsonl

The engine's own are radix_cache, base_prefix_cache, evict_policy, the allocators and `common`, whose functions match,
checkpoint and release a request. The stubs are kernels, settings, metrics, KV events, get_num_new_pages, and the table
of requests (ReqToTokenPool). Page 0 is never given away: block n of the log is SGLang's page n + 1. A page's hash in the
log is a digest of the tree's keys from the root to the page, because a tree without KV events has no hashes."""

from __future__ import annotations

import hashlib
from array import array
from types import SimpleNamespace
from typing import Any, Mapping

import torch

from .alone import alone
from .managers import Request, Stored, Table

PAGE = 16


def new_pages(seq_lens: torch.Tensor, page_size: int, prefix_lens: torch.Tensor | None = None, decode: bool = False) -> int:
    before = seq_lens - 1 if prefix_lens is None else prefix_lens
    return int(((seq_lens + page_size - 1) // page_size - (before + page_size - 1) // page_size).sum())


def anything(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, SimpleNamespace)


OFF = SimpleNamespace(get=lambda: False)
NO_KERNEL = anything(
    "get_mla_kv_buffer_kernel", "get_mla_kv_buffer_triton", "set_mla_kv_buffer_dcp_sharded_triton",
    "set_mla_kv_buffer_fp8_quant_kernel", "set_mla_kv_buffer_kernel", "set_mla_kv_buffer_triton",
    "set_mla_kv_buffer_triton_fp8_quant", "set_mla_kv_scale_buffer_kernel", "set_mla_kv_scale_buffer_triton")
VERSION = alone("sglang", ["0.5.23"], {
    "sglang.kernels.ops.kvcache.mla_buffer": NO_KERNEL,
    "sglang.kernels.ops.memory.allocator": anything("alloc_decode_kernel", "alloc_extend_kernel"),
    "sglang.kernels.ops.memory.common": anything("_get_last_loc_safe_kernel", "get_last_loc_kernel"),
    "sglang.srt.environ": {"envs": SimpleNamespace(SGLANG_RADIX_FORCE_MISS=OFF)},
    "sglang.srt.mem_cache.cpp_utils.native_hash": {"get_native_hash": lambda: None},
    "sglang.srt.mem_cache.events": {
        **anything("KvEventLoraNames", "LoRANameTable"),
        "KVCacheEventRecorder": lambda **_: SimpleNamespace(
            record_store=lambda *_: None, record_remove=lambda *_: None, record_all_cleared=lambda: None)},
    "sglang.srt.mem_cache.hicache_storage": anything("PoolTransfer"),
    "sglang.srt.mem_cache.memory_pool": anything("ReqToTokenPool"),
    "sglang.srt.mem_cache.allocator": anything("BaseTokenToKVPoolAllocator"),
    "sglang.srt.mem_cache.allocator.page_interleave": {"page_interleave_shard_size": lambda _: 1},
    "sglang.srt.observability.metrics_collector": anything(
        "STAT_LOGGER_ROLE_RADIX_CACHE", "RadixCacheMetricsCollector", "radix_cache_metric_labels", "resolve_collector_class"),
    "sglang.srt.platforms": {
        "current_platform": SimpleNamespace(capabilities=SimpleNamespace(supports_triton=False))},
    "sglang.srt.runtime_context": {
        **anything("get_observability", "get_parallel"), "get_spec": lambda: SimpleNamespace(speculative_algorithm=None),
        "get_serving": lambda: SimpleNamespace(strip_thinking_cache=False)},
    "sglang.srt.utils": {"get_bool_env_var": lambda _: True, "get_num_new_pages": new_pages, "is_hip": lambda: False,
                         "next_power_of_2": lambda n: n},
    "sglang.srt.utils.common": {"ceil_align": lambda n, to: -(-n // to) * to},
})

from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator  # noqa: E402
from sglang.srt.mem_cache.cache_init_params import CacheInitParams  # noqa: E402
from sglang.srt.mem_cache.common import checkpoint_kv_cache, evict_from_tree_cache, match_kv_cache, release_kv_cache  # noqa: E402
from sglang.srt.mem_cache.radix_cache import RadixCache  # noqa: E402


class Rows:
    """The table of requests: a row of slots for each."""
    def __init__(self, width: int):
        self.req_to_token = torch.zeros((64, width), dtype=torch.int32)
        self.spare = list(range(64))

    def write(self, indices: Any, values: torch.Tensor) -> None:
        self.req_to_token[indices] = values.to(torch.int32)

    def free(self, own: Own) -> None:
        assert own.kv.req_pool_idx is not None
        self.spare.append(own.kv.req_pool_idx)
        own.kv.req_pool_idx = None


class Kept(SimpleNamespace):
    """What a request holds outside of the tree (ReqKvInfo)."""
    req_pool_idx: int | None
    cache_protected_len: int

    @property
    def holds_kv(self) -> bool:
        return self.req_pool_idx is not None

    @property
    def is_kv_released(self) -> bool:
        return not self.holds_kv

    def get_evicted_seqlen(self, _: Any) -> int:
        return 0

    def swa_dead_lo(self, _: int) -> int:
        return self.cache_protected_len

    def mark_kv_released(self) -> None:
        self.kv_allocated_len = 0


class Own:
    """SGLang's Req, as far as the cache looks at it."""
    skip_radix_cache_insert = False
    extra_key = finished_len = lock = last_node = None

    def __init__(self, request: Request):
        self.request, self.rid, self.cache_salt, self.priority = request, request.name, request.salt, request.priority
        self.origin_input_ids, self.output_ids = array("q", request.tokens), array("q")
        self.ended, self.prefix_len, self.extend_end = False, 0, 0
        self.kv = Kept(req_pool_idx=None, cache_protected_len=0, cache_inserted_len=0, kv_committed_len=0,
                       kv_allocated_len=0, swa_evict_floor=0)

    def finished(self) -> bool:
        return self.ended

    def owned_kv_len(self) -> int:
        return self.kv.kv_allocated_len

    def refresh_fill_ids(self) -> None:
        self.full_untruncated_fill_ids = array("q", self.request.tokens)

    def _compute_max_prefix_len(self, length: int) -> int:
        return length - 1


class Manager:
    engine = f"sglang {VERSION}"
    block_tokens = PAGE
    promises: Mapping[str, bool] = {}
    preempts_scheduled = False

    def __init__(self, blocks: int):
        self.blocks = blocks
        self.rows = Rows(blocks * PAGE)
        self.allocator = PagedTokenToKVPoolAllocator(blocks * PAGE, PAGE, torch.bfloat16, "cpu", None, need_sort=False)
        self.tree = RadixCache(CacheInitParams(False, self.rows, self.allocator, PAGE))
        self.owns: dict[Request, Own] = {}

    def start(self, request: Request, chunk: int) -> list[Table] | None:
        own = Own(request)
        own.refresh_fill_ids()
        match_kv_cache(own, self.tree, own.full_untruncated_fill_ids, max_prefix_len=len(request.tokens) - 1)
        own.kv.cache_protected_len = own.prefix_len
        own.lock = self.tree.lock(own.last_node)
        own.kv.req_pool_idx = self.rows.spare.pop()
        own.kv.kv_allocated_len = own.prefix_len
        self.rows.write((own.kv.req_pool_idx, slice(0, own.prefix_len)), self.tree.prefix_device_indices(own))
        self.owns[request] = own
        prefix = self.tables(request)
        if not self.extend(request, min(own.prefix_len + chunk, len(request.tokens))):
            self.tree.unlock(own.lock)
            self.rows.free(own)
            del self.owns[request]
            return None
        return prefix or [[]]

    def extend(self, request: Request, goal: int) -> bool:
        own = self.owns[request]
        begin, row = own.kv.kv_allocated_len, own.kv.req_pool_idx
        last = self.rows.req_to_token[row, begin - 1:begin].long() if begin else torch.tensor([-1])
        before, after = torch.tensor([begin]), torch.tensor([goal])
        if goal == begin + 1 and begin >= len(own.origin_input_ids):
            evict_from_tree_cache(self.tree, PAGE * (begin % PAGE == 0))
            slots = self.allocator.alloc_decode(after, after, last)
        else:
            evict_from_tree_cache(self.tree, goal - begin + PAGE)
            slots = self.allocator.alloc_extend(before, before, after, after, last, goal - begin)
        if slots is None:
            return False
        self.rows.write((row, slice(begin, goal)), slots)
        own.kv.kv_allocated_len = own.kv.kv_committed_len = own.extend_end = goal
        return True

    def scheduled(self, request: Request) -> None:
        pass

    def computed(self, request: Request) -> None:
        own = self.owns[request]
        own.refresh_fill_ids()
        if request.goal <= len(own.origin_input_ids):  # a chunk of the prefill; what is generated is stored at the end
            checkpoint_kv_cache(own, self.tree)

    def release(self, request: Request, finished: bool) -> None:
        own = self.owns.pop(request)
        own.ended = finished
        release_kv_cache(own, self.tree, checkpoint=finished)

    def tables(self, request: Request) -> list[Table]:
        own = self.owns.get(request)
        if own is None:
            return []
        row = self.rows.req_to_token[own.kv.req_pool_idx, :own.kv.kv_allocated_len:PAGE]
        return [[int(slot) // PAGE - 1 for slot in row]] if len(row) else []

    def stored(self) -> Mapping[int, Stored]:
        found, nodes = {}, [(child, b"") for child in self.tree.root_node.children.values()]
        while nodes:
            node, digest = nodes.pop()
            tokens = node.key.raw_token_ids()
            for i, slot in enumerate(node.value[::PAGE].tolist()):
                key = repr((node.key.extra_key, node.key.cache_salt, tokens[i * PAGE:(i + 1) * PAGE].tolist()))
                above, digest = digest, hashlib.blake2b(digest + key.encode(), digest_size=16).digest()
                found[slot // PAGE - 1] = Stored(digest.hex(), above.hex() or None)
            nodes += [(child, digest) for child in node.children.values()]
        return found

    def counts(self) -> Mapping[str, int]:
        return {"free": self.allocator.available_size() // PAGE, "cached": self.tree.evictable_size() // PAGE}
