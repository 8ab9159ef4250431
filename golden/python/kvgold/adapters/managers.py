"""Drives an engine's block manager with a random serving trace and logs what it does, for `kvgold pool audit`:

    python -m kvgold.adapters.managers vllm_blocks:Manager --seed 1 -o pool.jsonl

One loop drives all managers. It does what an engine's scheduler does: it admits requests, prefills them in chunks,
decodes, preempts a request if the pool is full, and finishes or aborts requests. Their prompts share prefixes, and some
have salts. The log has what the manager answered and what its own tables, cache and counters say after each operation.
Of its own the loop knows only which tokens a request has, and so what is written into a block."""

from __future__ import annotations

import argparse
import importlib
import random
import sys
from dataclasses import dataclass, field
from typing import Mapping, NamedTuple, Protocol, Sequence

from ..pool_log import PoolLog
from .alone import Unavailable

Table = list[int | None]  # the blocks of a request in the order of its tokens; None: a block that a window has passed


@dataclass(eq=False)
class Request:
    name: str
    salt: str | None
    tokens: list[int]  # the prompt, and behind it what was generated
    limit: int  # so many tokens at the end
    priority: int
    computed: int = 0  # the KV of so many tokens is in the cache, or is computed in this step
    goal: int = 0  # `computed` after this step
    engine: object = None  # what the adapter keeps for it


class Stored(NamedTuple):
    hash: str
    parent: str | None  # the hash of the block before it; None: there is none


class Manager(Protocol):
    """An adapter. Block ids are 0 to blocks - 1, without a block that is never given to a request."""
    blocks: int
    block_tokens: int
    engine: str
    promises: Mapping[str, bool]  # flags of the log's head, besides evicts_on_allocate
    # True: a victim of preemption may be one that has its slots of this step already
    preempts_scheduled: bool

    def start(self, request: Request, chunk: int) -> list[Table] | None:
        """Looks for the prefix of a request that holds nothing, and takes slots for up to `chunk` tokens behind it. The
        blocks of the prefix, by group of layers; None, and nothing is held, if there is no room."""

    def extend(self, request: Request, goal: int) -> bool:
        """Takes slots for the tokens up to `goal`; False if there is no room."""

    def scheduled(self, request: Request) -> None:
        """The request has its slots of this step: what the engine does then, before the step."""

    def computed(self, request: Request) -> None:
        """The step has written the tokens up to request.goal."""

    def release(self, request: Request, finished: bool) -> None:
        """The request is finished, or is preempted."""

    def tables(self, request: Request) -> list[Table]:
        """What the manager's own block tables say, by group of layers; [] if the request holds nothing."""

    def stored(self) -> Mapping[int, Stored]:
        """Under which hash each block can be found, as the manager's own cache says."""

    def counts(self) -> Mapping[str, int]:
        """The manager's own counters, by the names of the event `counts`."""


class Observer:
    """Writes events from the manager's answers, and from its tables and cache before and after an operation. So a block
    that one operation evicts and gives away is in `allocate` alone."""

    def __init__(self, manager: Manager, log: PoolLog):
        self.manager, self.log = manager, log
        self.held: dict[Request, list[Table]] = {}
        self.stored: Mapping[int, Stored] = {}

    def see(self, request: Request, hits: Sequence[Table] = ()) -> None:
        """Logs what an operation of the request has changed. `hits`: the prefix that the manager found."""
        after, stored = self.manager.tables(request), self.manager.stored()
        before = self.held.get(request) or [[*table] for table in hits] or [[] for _ in after]
        after_all = after or [[] for _ in before]
        for group, table in enumerate(hits):
            self._hit(request, group, table)
        taken = {block for old, new in zip(before, after_all) for block in new[len(old):]}
        gone = [block for block, was in self.stored.items() if stored.get(block) != was and block not in taken]
        if gone:
            self.log.evict(gone)
        for group, (old, new) in enumerate(zip(before, after)):
            self._replaced(request, group, old, new)
        for group, (old, new) in enumerate(zip(before, after_all)):
            blocks = [block for block in new[len(old):] if block is not None]
            if blocks:
                self.log.allocate(self.name(request, group), blocks)
        self._store(request, [new or old for old, new in zip(before, after_all)], taken, stored)
        if not after:
            for group in range(len(before)):
                self.log.free(self.name(request, group))
        self.held[request], self.stored = after, stored
        if not after:
            del self.held[request]

    def name(self, request: Request, group: int) -> str:
        return f"{request.name}/{group}"

    def _hit(self, request: Request, group: int, table: Table) -> None:
        blocks = [block for block in table if block is not None]
        if blocks:
            self.log.hit(self.name(request, group), blocks, salt=request.salt,
                         hashes=[self.stored[block].hash if block in self.stored else "not stored" for block in blocks],
                         tokens=request.tokens[:len(blocks) * self.manager.block_tokens] if None not in table else None)

    def _replaced(self, request: Request, group: int, old: Table, new: Table) -> None:
        """A block that a window has passed, or the cache's block in the place of the request's own."""
        for was, now in zip(old, [*new, *[None] * len(old)]):
            if was != now and was is not None:
                self.log.free(self.name(request, group), [was])
            if was != now and now is not None:
                self.log.hit(self.name(request, group), [now], salt=request.salt)

    def _store(self, request: Request, tables: list[Table], taken: set[int | None], stored: Mapping[int, Stored]) -> None:
        """What is stored now. Only of blocks of the request it is known which tokens are in them."""
        size = self.manager.block_tokens
        new = {block: entry for block, entry in stored.items() if block in taken or self.stored.get(block) != entry}
        for i, block in (place for table in tables for place in enumerate(table)):
            entry = None if block is None else new.pop(block, None)
            if block is not None and entry:
                self.log.store(block, entry.hash, parent=entry.parent, salt=request.salt,
                               tokens=request.tokens[i * size:(i + 1) * size])
        for block, entry in new.items():
            self.log.store(block, entry.hash, parent=entry.parent)

    def write(self, request: Request) -> None:
        """The step writes the tokens from request.computed to request.goal - 1."""
        size = self.manager.block_tokens
        for group, table in enumerate(self.held[request]):
            for first in range(request.computed - request.computed % size, request.goal, size):
                begin, end, block = max(first, request.computed), min(first + size, request.goal), table[first // size]
                if block is not None:
                    self.log.write(self.name(request, group), block, begin - first, end - begin)

    def read(self, request: Request) -> None:
        count = -(-request.goal // self.manager.block_tokens)
        for group, table in enumerate(self.held[request]):
            self.log.read(self.name(request, group), [block for block in table[:count] if block is not None])


@dataclass
class Trace:
    """A seeded serving trace: which requests come, and what happens to them."""
    manager: Manager
    log: PoolLog
    seed: int
    operations: int = 0
    preempted: int = 0
    waiting: list[Request] = field(default_factory=list)
    running: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.observer = Observer(self.manager, self.log)
        self.prompts: list[list[int]] = [[]]
        self.made = 0
        self.chunk = 3 * self.manager.block_tokens + 1

    def run(self, operations: int) -> None:
        while self.operations < operations:
            self._step()
        for request in [*self.running]:
            self._release(request, finished=True)
        self.log.counts(**self.manager.counts())
        self.log.end()

    def _request(self) -> Request:
        """A prompt that continues a part of an older one, or repeats it."""
        most = self.manager.blocks * self.manager.block_tokens // 3
        old = self.random.choice(self.prompts)
        shared = old[:self.random.randint(0, len(old))] if self.random.random() < 0.7 else old
        tail = self.random.choice([0, 1, self.random.randint(0, max(4, self.manager.blocks // 8) * self.manager.block_tokens)])
        tokens = (shared + [self.random.randrange(1000) for _ in range(tail)])[:most] or [7]
        whole = len(tokens) // self.manager.block_tokens * self.manager.block_tokens
        tokens = tokens[:self.random.choice([whole, len(tokens)]) or len(tokens)]
        self.prompts = [*self.prompts[-20:], tokens]
        self.made += 1
        return Request(f"r{self.made}", self.random.choice([None, None, "a", "b"]), [*tokens],
                       len(tokens) + self.random.randint(1, 6 * self.manager.block_tokens), self.random.randrange(3))

    def _next(self, tokens: list[int]) -> int:
        """Mostly that of a greedy engine, which continues equal prompts by equal tokens."""
        return self.random.randrange(1000) if self.random.random() < 0.02 else sum(tokens[-8:]) * 31 % 997

    def _step(self) -> None:
        if len(self.waiting) < 4:
            self.waiting.append(self._request())
        scheduled: list[Request] = []
        preempted = self.preempted
        for request in [*self.running]:
            if request in self.running and self._extend(request, scheduled):
                scheduled.append(request)
        while self.waiting and len(self.running) < 16 and self.preempted == preempted and self._start(self.waiting[0]):
            self.running.append(self.waiting.pop(0))
            scheduled.append(self.running[-1])
        for request in scheduled:
            self.observer.write(request)
        for request in scheduled:
            self.observer.read(request)
            self.manager.computed(request)
            self.observer.see(request)
            request.computed = request.goal
            if request.computed == len(request.tokens):
                request.tokens.append(self._next(request.tokens))
        for request in scheduled:
            if len(request.tokens) > request.limit or self.random.random() < 0.01:
                self._release(request, finished=True)
        self.log.counts(**self.manager.counts())

    def _start(self, request: Request) -> bool:
        self.operations += 1
        hits = self.manager.start(request, self.chunk)
        if hits is None:
            self.observer.see(request)
            return False
        request.computed = max(map(len, hits)) * self.manager.block_tokens
        request.goal = min(request.computed + self.chunk, len(request.tokens))
        self.observer.see(request, hits)
        self._scheduled(request)
        return True

    def _scheduled(self, request: Request) -> None:
        self.manager.scheduled(request)
        self.observer.see(request)

    def _extend(self, request: Request, scheduled: list[Request]) -> bool:
        """False if the request itself had to be preempted."""
        request.goal = min(request.computed + self.chunk, len(request.tokens))
        while True:
            self.operations += 1
            there = self.manager.extend(request, request.goal)
            self.observer.see(request)
            if there:
                self._scheduled(request)
                return True
            victim = self.running[-1]
            if self.manager.preempts_scheduled:
                victim = max(self.running, key=lambda other: other.priority)
            if victim in scheduled:
                scheduled.remove(victim)
            self._release(victim, finished=False)
            if victim is request:
                return False

    def _release(self, request: Request, finished: bool) -> None:
        self.operations += 1
        self.running.remove(request)
        self.manager.release(request, finished)
        self.observer.see(request)
        if not finished:
            self.preempted += 1
            request.computed = 0
            self.waiting.insert(0, request)


def drive(manager: Manager, path: str, seed: int, operations: int) -> str:
    """Writes the log of a trace, and says how much is in it."""
    with PoolLog(path, manager.blocks, manager.block_tokens, engine=manager.engine, evicts_on_allocate=True,
                 **manager.promises) as log:
        trace = Trace(manager, log, seed)
        trace.run(operations)
    return (f"{manager.engine}: seed {seed}, {manager.blocks} blocks of {manager.block_tokens}: {trace.operations} operations, "
            f"{trace.made} requests, {trace.preempted} preemptions, {log.events} events")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kvgold.adapters.managers")
    parser.add_argument("manager", metavar="MODULE:CLASS", help="of kvgold.adapters, or with dots of any package")
    parser.add_argument("--blocks", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operations", type=int, default=10000)
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    module, _, name = options.manager.partition(":")
    try:
        make = getattr(importlib.import_module(module if "." in module else f"kvgold.adapters.{module}"), name)
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 3
    print(drive(make(options.blocks), options.output, options.seed, options.operations))
    return 0


if __name__ == "__main__":
    sys.exit(main())
