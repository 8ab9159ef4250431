"""LMDeploy's DefaultBlockManager and BlockTrie (https://github.com/InternLM/lmdeploy), as its scheduler calls them.

    python -m kvgold.adapters.managers lmdeploy_trie:Manager -o pool.jsonl

The engine's own are all of lmdeploy/pytorch/paging, block.py and prefix_cache_state.py. The stubs are logging and types
of settings; `Own` stands for SchedulerSequence. LMDeploy has no salts: a salt is the name of an adapter, which parts the
cache in the same way. The blocks of the log are physical ones, which the kernels see. A block's hash in the log is a
digest of the trie's tokens from the root to the block, because Python's hash of a node has no prefix in it."""

from __future__ import annotations

import hashlib
import logging
from types import SimpleNamespace
from typing import Any, Iterator, Mapping

import numpy as np

from .alone import alone
from .managers import Request, Stored, Table

VERSION = alone("lmdeploy", ["0.18.0"], {
    "lmdeploy.messages": {"QuantPolicy": SimpleNamespace},
    "lmdeploy.pytorch.config": {"CacheConfig": SimpleNamespace},
    "lmdeploy.pytorch.messages": {"SchedulerSequence": SimpleNamespace},
    "lmdeploy.utils": {"get_logger": logging.getLogger}})

from lmdeploy.pytorch.block import LogicalTokenBlocks  # noqa: E402
from lmdeploy.pytorch.paging.block_manager.default_block_manager import DefaultBlockManager  # noqa: E402
from lmdeploy.pytorch.paging.block_trie.trie import BlockTrie  # noqa: E402
from lmdeploy.pytorch.paging.eviction_helper.recompute_eviction_helper import RecomputeEvictionHelper  # noqa: E402
from lmdeploy.pytorch.prefix_cache_state import PrefixCacheState  # noqa: E402

SIZE = 16


class Own:
    """LMDeploy's SchedulerSequence, as far as the managers look at it."""
    block_size = SIZE
    return_routed_experts = False
    kv_token_limit: int | None = None
    session_id = input_start_pos = cached_tokens = 0

    def __init__(self, request: Request):
        self.request, self.seq_id, self.adapter_name = request, request.name, request.salt
        self.logical_blocks, self.prefix_cache = LogicalTokenBlocks(), PrefixCacheState()
        self.num_history_ids = 0

    @property
    def num_all_ids(self) -> int:
        return len(self.request.tokens)

    num_valid_ids = input_end_pos = num_all_ids

    @property
    def history_cache(self) -> Any:
        return np.array(self.request.tokens, dtype=np.int64)

    def set_step(self, step: int) -> None:
        self.num_history_ids = step

    def get_prefix_cache_extra_identity(self, start: int, end: int) -> tuple[()]:
        return ()

    def clamp_prefix_cache_match_step(self, step: int) -> int:
        return step // SIZE * SIZE

    def get_prefix_cache_max_match_step(self) -> int:
        return self.clamp_prefix_cache_match_step(self.num_all_ids - 1)


class Manager:
    engine = f"lmdeploy {VERSION}"
    block_tokens = SIZE
    promises: Mapping[str, bool] = {"stores_before_write": True}
    preempts_scheduled = False

    def __init__(self, blocks: int):
        self.blocks = blocks
        self.manager = DefaultBlockManager(blocks, 0)
        self.allocator = self.manager.allocator
        self.trie = BlockTrie(allocator=self.allocator, block_size=SIZE, enabled=True)
        self.helper = RecomputeEvictionHelper(block_manager=self.manager, block_trie=self.trie, state_manager=None,
                                              load_coordinator=None, is_ssm=False)
        self.owns: dict[Request, Own] = {}

    def start(self, request: Request, chunk: int) -> list[Table] | None:
        own = self.owns[request] = Own(request)
        self.trie.match(own)
        prefix = self._table(own)
        if not self.extend(request, min(own.num_history_ids + chunk, len(request.tokens))):
            self.release(request, finished=False)
            return None
        self.trie.finalize_match(own)
        return [prefix]

    def extend(self, request: Request, goal: int) -> bool:
        own = self.owns[request]
        whole = goal == len(request.tokens)
        own.kv_token_limit = None if whole else goal
        ahead = int(whole and goal == request.computed + 1)  # a decode step asks for one token more
        if self.manager.num_required_blocks(own, ahead):
            if not self.helper.try_make_capacity_for(own, (), ahead):
                return False
        self.manager.allocate(own, ahead)
        return True

    def scheduled(self, request: Request) -> None:
        self.trie.allocate(self.owns[request])

    def computed(self, request: Request) -> None:
        self.owns[request].set_step(request.goal)

    def release(self, request: Request, finished: bool) -> None:
        own = self.owns.pop(request)
        self.manager.free(own)

    def _table(self, own: Own) -> Table:
        return [int(block) for block in self.manager.get_block_table(own)]

    def tables(self, request: Request) -> list[Table]:
        own = self.owns.get(request)
        return [self._table(own)] if own is not None and len(own.logical_blocks) else []

    def _nodes(self) -> Iterator[tuple[Any, Stored]]:
        nodes: list[tuple[Any, str | None]] = [(root, None) for root in self.trie._roots.values()]
        while nodes:
            node, above = nodes.pop()
            for child in node.children.values():
                key = repr((child.adapter_name, above, child.token_ids.tolist()))
                digest = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
                yield child, Stored(digest, above)
                nodes.append((child, digest))

    def stored(self) -> Mapping[int, Stored]:
        return {int(self.allocator.get_physical_blocks(node.block_id)): stored for node, stored in self._nodes()}

    def counts(self) -> Mapping[str, int]:
        return {"free": self.manager.get_num_free_gpu_blocks(),
                "cached": sum(int(self.allocator.get_ref_count(node.block_id)) == 1 for node, _ in self._nodes())}
