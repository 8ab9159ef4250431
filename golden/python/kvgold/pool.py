"""A block manager that Python can call, asked as an engine would ask it, and judged by `kvgold pool audit`:

    verdict = kvgold.pool.check(MyManager)  # MyManager(blocks, block_tokens) is a manager of an empty pool
    print(verdict)
    assert verdict.passed

    TestMyManager = kvgold.pool.machine(MyManager).TestCase  # the same questions, chosen and shortened by hypothesis

The questions are those of paging/paging_plugin.h, and so is what a manager may choose: docs/guide/pool-audit.md. The
manager runs in this process."""

from __future__ import annotations

import hashlib
import os
import random
import sys
import tempfile
import traceback
from dataclasses import dataclass, field
from typing import Any, Callable, Protocol, Sequence

from .pool_log import PoolLog
from .program import run_program

POOLS = ((4, 1), (12, 4), (64, 16))  # blocks, tokens of a block
MOST_LIVE, MOST_BLOCKS, GROUPS, SALTS = 48, 12, 6, 3
ALL_HELD = "all rules held"  # of `kvgold pool audit`


class Exhausted(Exception):
    """Raised by `admit` and `grow`: fewer blocks are available than the sequence has not yet. Nothing has changed."""


class Manager(Protocol):
    def admit(self, sequence: int, salt: int, tokens: Sequence[int]) -> tuple[Sequence[int], int]:
        """A sequence begins: its table, and how many leading tokens stand in its blocks already, from sequences of the
        same salt before: a multiple of block_tokens, below len(tokens)."""

    def grow(self, sequence: int, tokens: Sequence[int]) -> Sequence[int]:
        """A sequence has more tokens, of which those that it had are the first: its table, which grew at its end."""

    def written(self, sequence: int, count: int) -> None:
        """The first `count` tokens of a sequence are in its blocks now."""

    def release(self, sequence: int) -> None:
        """A sequence ends, or is preempted."""

    def available(self) -> int:
        """How many blocks no sequence holds."""


@dataclass(frozen=True)
class Verdict:
    passed: bool
    text: str  # what broke, or what was asked
    pool: tuple[int, int]
    seed: int
    operations: int  # of the run that `text` is about: if it failed, the shortest one that was found
    log: str  # of that run

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return self.text


@dataclass(eq=False)
class _Sequence:
    id: int
    salt: int
    tokens: list[int]  # more than it has
    count: int
    written: int = 0
    table: list[int] = field(default_factory=list)


class _Broken(Exception):
    """What the manager's contract asks for does not hold. One line."""


class _Play:
    def __init__(self, manager: Manager, pool: tuple[int, int], draws: random.Random, log: PoolLog):
        self.manager, self.log, self.random = manager, log, draws
        self.blocks, self.size = pool
        self.most = self.size * min(self.blocks, MOST_BLOCKS)
        self.groups = [[self.random.randrange(50000) for _ in range(self.most)] for _ in range(GROUPS)]
        self.live: list[_Sequence] = []
        self.preempted: _Sequence | None = None
        self.begun = 0

    def run(self, operations: int) -> None:
        for _ in range(operations):
            self._one()
        self.end()

    def end(self) -> None:
        while self.live:
            self.release(self.live[-1])
        self.count()
        self.log.end()

    def count(self) -> None:
        available = self.manager.available()
        if type(available) is not int:
            raise _Broken(f"available gives {available!r}: give an int")
        self.log.counts(available=available)

    def _one(self) -> None:
        what = self.random.randrange(16)
        if not self.live or what < 4:
            self.admit()
            return
        sequence = self.random.choice(self.live)
        if what == 4 or sequence.count == self.most:
            self.release(sequence)
        elif what == 5:
            self.count()
        else:
            self.go_on(sequence)

    def go_on(self, sequence: _Sequence) -> None:
        """A step over tokens that are not written yet, or more tokens; a sequence that is as long as can be ends."""
        if sequence.written < sequence.count:
            self._step(sequence)
        elif sequence.count < self.most:
            self._grow(sequence)
        else:
            self.release(sequence)

    def _draw(self) -> _Sequence:
        """A new sequence, or one that was preempted. It has the tokens of a group up to some length, then perhaps those
        of another, which stand behind other tokens there; then its own."""
        again, self.preempted = self.preempted, None
        if again:
            return again
        shared = self.random.randint(0, self.most)
        cut = self.random.randint(0, 2 * shared)
        first, second = self.random.choice(self.groups), self.random.choice(self.groups)
        own = [self.random.randrange(50000) for _ in range(self.most)]
        self.begun += 1
        return _Sequence(self.begun, self.random.randrange(SALTS), (first[:cut] + second[cut:])[:shared] + own[shared:],
                         self.random.randint(1, self.most))

    def admit(self) -> None:
        if len(self.live) == MOST_LIVE:
            self.release(self.random.choice(self.live))
        sequence = self._draw()
        try:
            table, cached = self.manager.admit(sequence.id, sequence.salt, sequence.tokens[:sequence.count])
        except Exhausted:
            self._preempt("admit", sequence, sequence.count)
            return
        if cached % self.size or 0 < sequence.count <= cached:
            raise _Broken(f"admit of sequence {sequence.id} finds {cached} of {sequence.count} tokens: "
                          f"give a multiple of {self.size} below them")
        self._take(sequence, "admit", table, cached // self.size)
        sequence.written = cached
        self.live.append(sequence)

    def _grow(self, sequence: _Sequence) -> None:
        before = sequence.count
        sequence.count = min(self.most, before + self.random.randint(1, 3))
        try:
            table = self.manager.grow(sequence.id, sequence.tokens[:sequence.count])
        except Exhausted:
            wanted, sequence.count = sequence.count, before
            self._preempt("grow", sequence, wanted)
            return
        self._take(sequence, "grow", table, 0)

    def _take(self, sequence: _Sequence, call: str, table: Sequence[int], found: int) -> None:
        wanted, before = -(-sequence.count // self.size), len(sequence.table)
        if len(table) != wanted:
            raise _Broken(f"{call} of sequence {sequence.id} gives {len(table)} blocks for {sequence.count} tokens: "
                          f"give {wanted}")
        if not all(type(block) is int for block in table):
            raise _Broken(f"{call} of sequence {sequence.id} gives blocks that are no int: {table!r}")
        if list(table[:before]) != sequence.table:
            raise _Broken(f"{call} of sequence {sequence.id} changes its table: keep the blocks that a table has")
        sequence.table = list(table)
        if found:
            self.log.hit(sequence.id, sequence.table[:found], hashes=self._names(sequence, found), salt=sequence.salt,
                         tokens=sequence.tokens[:found * self.size])
        if new := sequence.table[before + found:]:
            self.log.allocate(sequence.id, new)

    def _names(self, sequence: _Sequence, count: int) -> list[str]:
        """Of the first blocks: blocks with one name hold the same tokens behind the same."""
        names, digest = [], hashlib.sha256(b"%d" % sequence.salt)
        for i in range(count):
            digest.update(repr(sequence.tokens[i * self.size:(i + 1) * self.size]).encode())
            names.append(digest.hexdigest()[:16])
        return names

    def _step(self, sequence: _Sequence) -> None:
        begin, end, size = sequence.written, self.random.randint(sequence.written + 1, sequence.count), self.size
        if begin:
            self.log.read(sequence.id, sequence.table[:-(-begin // size)])
        for i in range(begin // size, -(-end // size)):
            first, last = max(begin, i * size), min(end, (i + 1) * size)
            self.log.write(sequence.id, sequence.table[i], first - i * size, last - first)
        names = self._names(sequence, end // size)
        for i in range(begin // size, end // size):
            self.log.store(sequence.table[i], names[i], parent=names[i - 1] if i else None, salt=sequence.salt,
                           tokens=sequence.tokens[i * size:(i + 1) * size])
        sequence.written = end
        self.manager.written(sequence.id, end)

    def release(self, sequence: _Sequence) -> None:
        self.live.remove(sequence)
        self.manager.release(sequence.id)
        self.log.free(sequence.id, sequence.table)

    def _preempt(self, call: str, sequence: _Sequence, count: int) -> None:
        missing = -(-count // self.size) - len(sequence.table)
        available = self.blocks - len({block for other in self.live for block in other.table})
        if missing <= available:
            raise _Broken(f"{call} of sequence {sequence.id} says that too few blocks are available: it needs {missing} at "
                          f"most, and {available} are")
        victim = self.random.choice(self.live)
        self.release(victim)
        victim.table, victim.written = [], 0
        self.preempted = victim


def _audit(log: PoolLog, path: str) -> str:
    return run_program("pool", "audit", path, statuses=(0, 1)).replace(path, "log") if log.events else ""


def _judge(make: Callable[[int, int], Manager], pool: tuple[int, int], seed: int, operations: int) -> Verdict:
    with tempfile.TemporaryDirectory() as folder:
        path, broken = os.path.join(folder, "manager.jsonl"), ""
        with PoolLog(path, *pool, evicts_on_allocate=True) as log:
            try:
                _Play(make(*pool), pool, random.Random(seed), log).run(operations)
            except _Broken as error:
                broken = str(error)
            except Exception:  # of the manager
                broken = traceback.format_exc()
        said = _audit(log, path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
    passed = not broken and ALL_HELD in said
    where = f"a pool of {pool[0]} blocks of {pool[1]} tokens, seed {seed}, {operations} operations"
    return Verdict(passed, f"PASS: {where}" if passed else f"FAIL: {where}\n{said}{broken}".rstrip(), pool, seed, operations, text)


def check(make: Callable[[int, int], Manager], *, seed: int = 0, operations: int = 2000,
          pools: Sequence[tuple[int, int]] = POOLS) -> Verdict:
    """Plays an engine on pools of several sizes, until a run fails; then halves its operations while it still does."""
    verdict = None
    for pool in pools:
        verdict = _judge(make, pool, seed, operations)
        if not verdict:
            break
    if verdict is None:
        raise ValueError("pools: give at least one")
    right = 0
    while not verdict and right + 1 < verdict.operations:
        half = right + (verdict.operations - right) // 2
        shorter = _judge(make, verdict.pool, seed, half)
        if shorter:
            right = half
        else:
            verdict = shorter
    return verdict


def machine(make: Callable[[int, int], Manager], *, pools: Sequence[tuple[int, int]] = POOLS[:2]) -> Any:
    """A state machine of hypothesis: it chooses operations, and makes those that break a rule few. Its `TestCase` is a test;
    hypothesis' settings say how many examples and steps. The log of an example is audited at its end."""
    from hypothesis import strategies as draw
    from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

    class PoolMachine(RuleBasedStateMachine):
        folder: Any = None
        play: Any = None

        @initialize(pool=draw.sampled_from(list(pools)), seed=draw.integers(0, 999))
        def begin(self, pool: tuple[int, int], seed: int) -> None:
            self.folder = tempfile.TemporaryDirectory()
            self.path = os.path.join(self.folder.name, "manager.jsonl")
            self.log = PoolLog(self.path, *pool, evicts_on_allocate=True)
            self.play = _Play(make(*pool), pool, random.Random(seed), self.log)  # tokens and lengths: the seed's

        @rule()
        def admit(self) -> None:
            self.play.admit()

        @precondition(lambda self: self.play.live)
        @rule(which=draw.integers(0, MOST_LIVE - 1))
        def go_on(self, which: int) -> None:
            self.play.go_on(self.play.live[which % len(self.play.live)])

        @precondition(lambda self: self.play.live)
        @rule(which=draw.integers(0, MOST_LIVE - 1))
        def release(self, which: int) -> None:
            self.play.release(self.play.live[which % len(self.play.live)])

        @rule()
        def count(self) -> None:
            self.play.count()

        def teardown(self) -> None:
            if self.folder is None:
                return
            said = ALL_HELD
            with self.folder, self.log:
                if self.play is not None and sys.exc_info()[0] is None:  # else the example has failed, or was cut short
                    self.play.end()
                    said = _audit(self.log, self.path)
            if ALL_HELD not in said:
                raise AssertionError(said)

    return PoolMachine
