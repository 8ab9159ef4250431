"""LMCache's ChunkedTokenDatabase and LocalCPUBackend (https://github.com/LMCache/LMCache), as its engine calls them.

    python -m kvgold.adapters.managers lmcache_index:Manager -o pool.jsonl

Manager           evicts by LRU, LMCache's default
Lfu, Fifo, Mru    evict by LMCache's other policies

LMCache keeps chunks of KV in the host's memory, from which an engine loads its own pool. A block of the log is a chunk:
its id is its place in the memory of LMCache's allocator, and its hash is LMCache's key. `hit` is what a lookup pins and
a retrieve takes a reference to. `write` is the copy of an engine's KV into a chunk, and `store` is the put of a full
chunk. As in LMCacheEngine, a request gives up what it loaded or put once the copies of that step are done: here, when
it has its slots of the next step. Only the last chunk of a request has its memory earlier than in LMCache, before the
chunk is full. A salt is a tag of the request (lmcache.tag.salt), which is a part of LMCache's key.

LMCache's own are token_database, local_cpu_backend, the cache policies, memory_management, the allocators and the keys.
The stubs are logging, metrics, the device and its pinned memory, the timeout of pins, messages to a controller, and
settings. A chunk has 16 tokens, and the other settings are LMCache's defaults, such as the hash of Python itself."""

from __future__ import annotations

import importlib
import logging
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Mapping

import torch

from .alone import alone
from .managers import Request, Stored, Table

SIZE = 16
SHAPE, DTYPE, BYTES = torch.Size([2, 1, SIZE, 64]), torch.bfloat16, 4096  # of a chunk: as large as the alignment
MEMORY: list[torch.Tensor] = []  # what stands for pinned memory, which Python must not free


class Silent:
    """In place of metrics and monitors: all methods do nothing."""
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def pinned(size: int, flags: int) -> int:
    MEMORY.append(torch.empty(size, dtype=torch.uint8))
    return MEMORY[-1].data_ptr()


def policy(name: str) -> Any:
    """LMCache's own function of this name stands in an __init__."""
    module = importlib.import_module(f"lmcache.v1.storage_backend.cache_policy.{name.lower()}")
    return getattr(module, f"{name}CachePolicy")()


SILENT = SimpleNamespace(GetOrCreate=lambda *_, **__: Silent())
VERSION = alone("lmcache", ["0.5.6"], {
    "cachetools": {"TTLCache": SimpleNamespace},
    "lmcache": {"torch_dev": SimpleNamespace(is_available=lambda: False), "torch_device_type": "cpu",
                "device_ops": SimpleNamespace(alloc_pinned_ptr=pinned, free_pinned_ptr=None)},
    "lmcache.integration.vllm.utils": {"get_size_bytes": None},  # of the allocator of P2P alone
    "lmcache.logging": {"init_logger": logging.getLogger},
    "lmcache.observability": {"LMCStatsMonitor": SILENT, "PrometheusLogger": SILENT},
    "lmcache.v1.cache_controller.message": {"OpType": SimpleNamespace},
    "lmcache.v1.config": {"LMCacheEngineConfig": SimpleNamespace},
    "lmcache.v1.metadata": {"LMCacheMetadata": SimpleNamespace},
    "lmcache.v1.pin_monitor": {"PinMonitor": SILENT},
    "lmcache.v1.platform": {"current_device_spec": None},
    "lmcache.v1.storage_backend.batched_message_sender": {"BatchedMessageSender": SimpleNamespace},
    "lmcache.v1.storage_backend.cache_policy": {"get_cache_policy": policy},
    "lmcache.v1.system_detection": dict.fromkeys(("NUMADetector", "NUMAMapping", "SystemMemoryDetector")),
    "transformers": {"AutoTokenizer": None},
    "vllm.utils.hashing": {}, "vllm.v1.core": {}})

from lmcache.v1.memory_allocators.mixed_memory_allocator import MixedMemoryAllocator  # noqa: E402
from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend  # noqa: E402
from lmcache.v1.token_database import ChunkedTokenDatabase  # noqa: E402


def counts_only(record: logging.LogRecord) -> bool:
    """A count of uses or pins below 0 ends the trace. The rest says that memory is full, or that the process ends."""
    assert "negative" not in record.msg, record.getMessage()
    return False


logging.getLogger("lmcache.v1.memory_management").addFilter(counts_only)
for quiet in ("v1.storage_backend.local_cpu_backend", "v1.token_database"):  # they warn that nothing is connected
    logging.getLogger(f"lmcache.{quiet}").setLevel(logging.ERROR)


@dataclass
class Own:
    """What LMCache's engine holds for a request."""
    pins: list[Any]  # the keys of the chunks that the lookup found
    chunks: list[Any] = field(default_factory=list)  # memory objects; None: given up
    done: int = 0  # so many chunks are loaded, or put


class Manager:
    engine = f"lmcache {VERSION}"
    block_tokens = SIZE
    promises: Mapping[str, bool] = {}
    preempts_scheduled = False
    policy = "LRU"

    def __init__(self, blocks: int):
        self.blocks = blocks
        config = SimpleNamespace(cache_policy=self.policy, local_cpu=True, lmcache_instance_id=None,
                                 use_layerwise=False, enable_blending=False, chunk_size=SIZE,
                                 save_unfull_chunk=False, remote_url=None, enable_pd=False,
                                 pre_caching_hash_algorithm="builtin",
                                 get_extra_config_value=lambda name, default: default)
        self.database = ChunkedTokenDatabase(config, SimpleNamespace(
            model_name="model", world_size=1, worker_id=0, kv_dtype=DTYPE, use_mla=False))
        self.allocator = MixedMemoryAllocator(blocks * BYTES)
        self.backend = LocalCPUBackend(config, memory_allocator=self.allocator)
        self.owns: dict[Request, Own] = {}
        self.entries: dict[Any, Stored] = {}

    def _keys(self, request: Request, count: int) -> list[Any]:
        """LMCache's keys of the chunks that the first tokens fill."""
        tags = None if request.salt is None else {"lmcache.tag.salt": request.salt}
        keys = [key for _, _, key in self.database.process_tokens(request.tokens[:count], request_configs=tags)]
        names = [key.to_string() for key in keys]
        self.entries.update(zip(keys, map(Stored, names, [None, *names])))
        return keys

    def start(self, request: Request, chunk: int) -> list[Table] | None:
        keys = self._keys(request, len(request.tokens))
        found = keys[:self.backend.batched_contains(keys, pin=True)]
        self.backend.touch_cache()
        self.owns[request] = Own(found, [self.backend.get_blocking(key) for key in found])
        prefix = self.tables(request)
        if not self.extend(request, min(len(found) * SIZE + chunk, len(request.tokens))):
            self.release(request, finished=False)
            return None
        return prefix or [[]]

    def extend(self, request: Request, goal: int) -> bool:
        own = self.owns[request]
        new: list[Any] = []
        while (len(own.chunks) + len(new)) * SIZE < goal:
            new.append(self.backend.allocate(SHAPE, DTYPE, busy_loop=False))
            if new[-1] is None:
                for chunk in new[:-1]:
                    chunk.ref_count_down()
                return False
        own.chunks += new
        return True

    def _give_up(self, own: Own, count: int) -> None:
        for i, chunk in enumerate(own.chunks[:count]):
            if chunk is not None:
                if i < len(own.pins):
                    self.backend.unpin(own.pins[i])
                chunk.ref_count_down()
                own.chunks[i] = None

    def scheduled(self, request: Request) -> None:
        self._give_up(self.owns[request], self.owns[request].done)

    def computed(self, request: Request) -> None:
        own, keys = self.owns[request], self._keys(request, request.goal)
        first, own.done = max(own.done, len(own.pins)), len(keys)
        self.backend.batched_submit_put_task(keys[first:], own.chunks[first:len(keys)])

    def release(self, request: Request, finished: bool) -> None:
        own = self.owns.pop(request)
        self._give_up(own, len(own.chunks))

    def tables(self, request: Request) -> list[Table]:
        own = self.owns.get(request)
        chunks = own.chunks if own else []
        return [[None if chunk is None else chunk.meta.address // BYTES for chunk in chunks]] if chunks else []

    def stored(self) -> Mapping[int, Stored]:
        return {chunk.meta.address // BYTES: self.entries[key] for key, chunk in self.backend.hot_cache.items()}

    def counts(self) -> Mapping[str, int]:
        free = self.blocks - self.allocator.pin_allocator.total_allocated_size // BYTES
        return {"free": free, "cached": sum(chunk.can_evict for chunk in self.backend.hot_cache.values())}


class Lfu(Manager):
    engine, policy = f"{Manager.engine} by LFU", "LFU"


class Fifo(Manager):
    engine, policy = f"{Manager.engine} by FIFO", "FIFO"


class Mru(Manager):
    engine, policy = f"{Manager.engine} by MRU", "MRU"
