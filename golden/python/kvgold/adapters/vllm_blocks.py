"""vLLM's KVCacheManager over its BlockPool (https://github.com/vllm-project/vllm), as its scheduler calls them.

    python -m kvgold.adapters.managers vllm_blocks:Manager -o pool.jsonl

Manager    one group of layers with full attention; a victim of preemption has no slots of this step
Priority   the same, and the victim is the request of the lowest priority, as with --scheduling-policy priority
Window     a group of full attention and one with a window, which share the pool

Block 0 is vLLM's null block, which is never given away: block n of the log is vLLM's block n + 1. All of
vllm/v1/core is the engine's own. The stubs are cbor2, logging, settings, metrics, KV events, and
types of other modules."""

from __future__ import annotations

import enum
import logging
from types import SimpleNamespace
from typing import Any, Mapping

import torch

from .alone import alone
from .managers import Request, Stored, Table


class Anything:
    """In place of types that nothing here makes."""
    def __init__(self, *_: Any, **__: Any):
        pass


def types(*names: str) -> dict[str, type]:
    return {name: Anything for name in names}


VERSION = alone("vllm", ["0.33.0"], {
    "cbor2": {},  # of another hash than sha256
    "vllm.logger": {"init_logger": logging.getLogger},
    "vllm.envs": {"VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES": False},
    "vllm.config": {"VllmConfig": Anything, "get_current_vllm_config_or_none": lambda: None},
    "vllm.config.cache": {"get_kv_cache_dtype_handler": lambda _: None},
    "vllm.distributed.kv_events": {**types("AllBlocksCleared", "BlockRemoved", "BlockStored", "KVCacheEvent"),
                                   "MEDIUM_GPU": "GPU", "MEDIUM_CPU": "CPU"},
    "vllm.multimodal.inputs": types("MultiModalFeatureSpec"),
    "vllm.multimodal.utils": {"get_mm_features_in_window": None},
    "vllm.platforms": {"current_platform": SimpleNamespace(register_custom_kv_cache_specs=lambda *_: None)},
    "vllm.pooling_params": types("PoolingParams"),
    "vllm.sampling_params": types("SamplingParams"),
    "vllm.utils": {"length_from_prompt_token_ids_or_embeds": lambda tokens, embeds: len(tokens)},
    "vllm.utils.torch_utils": {"get_dtype_size": lambda dtype: dtype.itemsize},
    "vllm.v1.attention.backends.registry": {"MambaAttentionBackendEnum": SimpleNamespace(MAMBA2=None)},
    "vllm.v1.engine": {**types("EngineCoreEvent", "EngineCoreEventType", "EngineCoreRequest"),
                       "FinishReason": enum.Enum("FinishReason", "STOP LENGTH ABORT ERROR REPETITION")},
    "vllm.v1.kv_hints": types("KvHintsEnvelope"),
    "vllm.v1.metrics.stats": types("KVCacheEvictionEvent", "PrefillStats", "PrefixCacheStats", "RequestSpecDecodeMetrics"),
    "vllm.v1.structured_output.request": {
        "StructuredOutputRequest": SimpleNamespace(from_sampling_params=lambda _: None)},
    "vllm.v1.utils": {"tensor_data": None, "ConstantList": lambda items: items},
})

from vllm.utils.hashing import sha256  # noqa: E402
from vllm.v1.core import kv_cache_utils  # noqa: E402
from vllm.v1.core.kv_cache_manager import KVCacheManager  # noqa: E402
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, SlidingWindowSpec  # noqa: E402
from vllm.v1.request import Request as EngineRequest, RequestStatus  # noqa: E402

LONGEST = 1 << 20  # tokens of a request
SIZE = {"block_size": 16, "num_kv_heads": 1, "head_size": 16, "dtype": torch.bfloat16}

kv_cache_utils.init_none_hash(sha256)


class Manager:
    engine = f"vllm {VERSION}"
    block_tokens = SIZE["block_size"]
    promises: Mapping[str, bool] = {"stores_before_write": True}
    preempts_scheduled = False
    specs = [FullAttentionSpec(**SIZE)]

    def __init__(self, blocks: int):
        self.blocks = blocks
        groups = [KVCacheGroupSpec([f"layer {i}"], spec) for i, spec in enumerate(self.specs)]
        self.manager = KVCacheManager(KVCacheConfig(blocks + 1, [], groups), LONGEST, self.block_tokens, self.block_tokens)
        self.parents: dict[bytes, bytes | None] = {}  # the chains of requests' hashes
        self.entries: dict[bytes, Stored] = {}
        self.hasher = kv_cache_utils.get_request_block_hasher(self.block_tokens, sha256)

    def _engine(self, request: Request) -> Any:
        """vLLM's request, with the tokens that were generated since."""
        if request.engine is None:
            parameters = SimpleNamespace(max_tokens=LONGEST, extra_args=None, skip_reading_prefix_cache=None)
            request.engine = EngineRequest(request.name, [*request.tokens], parameters, None, cache_salt=request.salt,
                                           block_hasher=self.hasher)
        own: Any = request.engine
        own.append_output_token_ids(request.tokens[own.num_tokens:])
        own.num_computed_tokens = request.computed
        self.parents.update(zip(own.block_hashes, [None, *own.block_hashes]))
        return own

    def start(self, request: Request, chunk: int) -> list[Table] | None:
        own = self._engine(request)
        found, count, _ = self.manager.get_computed_blocks(own)
        prefix = [self._table(blocks) for blocks in found.blocks]
        if self.manager.allocate_slots(own, min(chunk, own.num_tokens - count), count, found) is None:
            return None
        own.status = RequestStatus.RUNNING
        return prefix

    def extend(self, request: Request, goal: int) -> bool:
        own = self._engine(request)
        return self.manager.allocate_slots(own, goal - request.computed) is not None

    def scheduled(self, request: Request) -> None:
        pass  # allocate_slots has stored the full blocks

    def computed(self, request: Request) -> None:
        pass

    def release(self, request: Request, finished: bool) -> None:
        own = self._engine(request)
        self.manager.free(own)
        own.status = RequestStatus.FINISHED_STOPPED if finished else RequestStatus.PREEMPTED

    @staticmethod
    def _table(blocks: Any) -> Table:
        return [None if block.is_null else block.block_id - 1 for block in blocks]

    def tables(self, request: Request) -> list[Table]:
        tables = [self._table(blocks) for blocks in self.manager.get_blocks(request.name).blocks]
        return tables if any(tables) else []

    def _entry(self, key: Any) -> Stored:
        if key not in self.entries:
            parent, group = self.parents[kv_cache_utils.get_block_hash(key)], kv_cache_utils.get_group_id(key)
            above = kv_cache_utils.make_block_hash_with_group_id(parent, group).hex() if parent else None
            self.entries[key] = Stored(key.hex(), above)
        return self.entries[key]

    def stored(self) -> Mapping[int, Stored]:
        found = {}
        for key, blocks in self.manager.block_pool.cached_block_hash_to_block._cache.items():
            for block in blocks.values() if isinstance(blocks, dict) else [blocks]:
                found[block.block_id - 1] = self._entry(key)
        return found

    def counts(self) -> Mapping[str, int]:
        pool = self.manager.block_pool
        return {"available": pool.get_num_free_blocks(), "held": sum(block.ref_cnt > 0 for block in pool.blocks)}


class Priority(Manager):
    engine = f"{Manager.engine} by priority"
    preempts_scheduled = True


class Window(Manager):
    engine = f"{Manager.engine} with windows"
    promises = {**Manager.promises, "window": True}
    specs = [FullAttentionSpec(**SIZE), SlidingWindowSpec(**SIZE, sliding_window=40)]
