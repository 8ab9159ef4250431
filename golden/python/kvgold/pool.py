"""A block manager that Python can call, asked as an engine would ask it, and judged by `kvgold pool audit`:

    verdict = kvgold.pool.check(MyManager)  # MyManager(blocks, block_tokens) is a manager of an empty pool
    print(verdict)
    assert verdict.passed

    TestMyManager = kvgold.pool.machine(MyManager).TestCase  # the same questions, chosen and shortened by hypothesis

The questions are those of paging/paging_plugin.h, and so are the words and what a manager may choose:
docs/guide/pool-audit.md. The manager runs in this process. A class that declares `windows = True` or `groups = True`
is called with the groups of layers, MyManager(blocks, groups), and gives a list of tables, one for each group. A class
that declares neither is asked for pools of one group without a window. A manager that has `fork` is asked for it. A class
that declares a promise of PROMISES as True is held to it: docs/spec/paging.md section 7.3."""

from __future__ import annotations

import hashlib
import math
import os
import random
import sys
import tempfile
import traceback
from dataclasses import dataclass, field
from typing import Any, Callable, Protocol, Sequence, runtime_checkable

from .pool_log import PoolLog
from .program import run_program


@dataclass(frozen=True)
class Group:
    """Layers of one kind, which have all tokens of a sequence in blocks of their own."""
    block_tokens: int
    window: int = 0  # a token sees the last so many tokens, itself among them; 0: it sees all


Pool = tuple[int, int | Sequence[Group]]  # blocks, and the tokens of a block or the groups
Tables = Sequence[int] | Sequence[Sequence[int | None]]  # None: an entry that is given up, because its window passed it
Copies = Sequence[tuple[int, int]] | Sequence[Sequence[tuple[int, int]]]  # from, to; for each group, as the tables

SMALL_POOLS: tuple[Pool, ...] = ((4, 1), (12, 4), (4, [Group(1, 2)]), (12, [Group(4, 9)]), (24, [Group(4), Group(2)]),
                                 (24, [Group(4), Group(4, 9)]))
POOLS: tuple[Pool, ...] = (*SMALL_POOLS, (64, 16), (64, [Group(16, 40)]),
                           (96, [Group(16, 40), Group(8), Group(32, 70)]))
MOST_LIVE, MOST_BLOCKS, PREFIXES, SALTS = 48, 12, 6, 3
PREFIX_TOKENS = 50000  # those of prefixes are below
PROMISES = ("lowest_first", "free_first", "oldest_first", "tail_first")
ALL_HELD = "all rules held"  # of `kvgold pool audit`


class Exhausted(Exception):
    """Raised by `admit`, `grow` and `fork`: fewer blocks are available than the sequence has not yet, and in `grow` of a
    manager that forks one more in each group for a copy. Nothing has changed."""


class Manager(Protocol):
    def admit(self, sequence: int, salt: int, tokens: Sequence[int]) -> tuple[Tables, int]:
        """A sequence begins: its table, and how many leading tokens stand in its blocks already, from sequences of the
        same salt before: a multiple of block_tokens (of each group), below len(tokens)."""

    def grow(self, sequence: int, tokens: Sequence[int]) -> Tables | tuple[Tables, Copies]:
        """A sequence has more tokens, of which those that it had are the first: its table, which grew at its end. A
        manager that forks gives also the copies: where the tokens begin in a block that another sequence holds too,
        that block is replaced by another, into which all of it is copied."""

    def written(self, sequence: int, count: int) -> None:
        """The first `count` tokens of a sequence are in its blocks now."""

    def release(self, sequence: int) -> None:
        """A sequence ends, or is preempted."""

    def available(self) -> int:
        """How many blocks no sequence holds."""


@runtime_checkable
class Forks(Protocol):
    def fork(self, parent: int, child: int) -> tuple[Tables, Copies]:
        """Sequence `child` begins with the tokens and the salt of `parent`, which are all written: its table, of
        the same blocks or of copies of them, and the copies."""


Make = Callable[[int, Any], Manager]  # of the blocks, and of the tokens of a block or the groups


@dataclass(frozen=True)
class Verdict:
    passed: bool
    text: str  # what broke, or what was asked
    pool: Pool
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
    tables: list[list[Any]] = field(default_factory=list)  # of each group
    names: dict[int, list[str]] = field(default_factory=dict)  # of each group's full blocks, as far as they are known


class _Broken(Exception):
    """What the manager's contract asks for does not hold. One line."""


def _groups(pool: Pool) -> Sequence[Group]:
    return [Group(pool[1])] if isinstance(pool[1], int) else pool[1]


def _declares(make: Make, what: str) -> bool:
    return bool(getattr(make, what, False))


def _pools(make: Make, pools: Sequence[Pool]) -> list[Pool]:
    """The pools that a manager takes, by what its class declares."""
    for pool in pools:
        if not 0 < len(_groups(pool)) <= pool[0]:
            raise ValueError(f"pools: {pool!r} is no pool: give a group, and a block for each group at least")
    taken = [pool for pool in pools if (_declares(make, "groups") or len(_groups(pool)) == 1) and
             (_declares(make, "windows") or not any(group.window for group in _groups(pool)))]
    if not taken:
        raise ValueError("pools: give at least one that the manager declares to take")
    return taken


def _open_log(make: Make, path: str, pool: Pool) -> PoolLog:
    promises: dict[str, Any] = {promise: True for promise in PROMISES if _declares(make, promise)}
    if any(group.window for group in _groups(pool)):
        promises["window"] = True
    largest = max(group.block_tokens for group in _groups(pool))
    return PoolLog(path, pool[0], largest, evicts_on_allocate=True, **promises)


def _passed(group: Group, written: int) -> int:
    """How many leading blocks the window has passed."""
    return max(0, written + 1 - group.window) // group.block_tokens if group.window else 0


def _pair(call: str, given: Any, second: str) -> tuple[Any, Any]:
    """What has to be a tuple of two: a table, or a block of one, and something else."""
    if not isinstance(given, tuple) or len(given) != 2:
        raise _Broken(f"{call} gives {given!r}: give a tuple, of that and {second}")
    return given


class _Play:
    def __init__(self, make: Make, pool: Pool, seed: int, log: PoolLog):
        self.log, self.random = log, random.Random(seed)
        self.blocks, self.groups = pool[0], _groups(pool)
        self.lists = _declares(make, "windows") or _declares(make, "groups")  # of tables and copies, for each group
        self.manager: Any = make(self.blocks, list(self.groups) if self.lists else self.groups[0].block_tokens)
        self.forks = isinstance(self.manager, Forks)
        sizes = [group.block_tokens for group in self.groups]
        self.whole, self.largest = math.lcm(*sizes), max(sizes)
        self.most = min(sizes) * min(self.blocks // len(sizes), MOST_BLOCKS)
        self.prefixes = [[self.random.randrange(PREFIX_TOKENS) for _ in range(self.most)] for _ in range(PREFIXES)]
        self.live: list[_Sequence] = []
        self.preempted: _Sequence | None = None
        self.begun = 0

    def _own(self) -> range:
        """The tokens of one more sequence, which no other one has."""
        self.begun += 1
        return range(PREFIX_TOKENS + self.begun * self.most, PREFIX_TOKENS + (self.begun + 1) * self.most)

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
        elif what == 6 and self.forks:
            self.fork(sequence)
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
        """A new sequence, or one that was preempted. It has the tokens of a prefix up to some length, then perhaps
        those of another, which stand behind other tokens there; then its own."""
        again, self.preempted = self.preempted, None
        if again:
            return again
        shared = self.random.randint(0, self.most)
        cut = self.random.randint(0, 2 * shared)
        first, second = self.random.choice(self.prefixes), self.random.choice(self.prefixes)
        tokens = [*(first[:cut] + second[cut:])[:shared], *self._own()[shared:]]
        return _Sequence(self.begun, self.random.randrange(SALTS), tokens, self.random.randint(1, self.most))

    def admit(self) -> None:
        if len(self.live) == MOST_LIVE:
            self.release(self.random.choice(self.live))
        sequence = self._draw()
        call, sequence.tables = f"admit of sequence {sequence.id}", [[] for _ in self.groups]
        try:
            answer = self.manager.admit(sequence.id, sequence.salt, sequence.tokens[:sequence.count])
        except Exhausted:
            self._preempt(call, sequence, sequence.count)
            return
        tables, cached = _pair(call, answer, "cached")
        if cached % self.whole or 0 < sequence.count <= cached:
            raise _Broken(f"{call} finds {cached} of {sequence.count} tokens: "
                          f"give a multiple of {self.whole} below them")
        sequence.written = cached
        self._take(call, sequence, tables, cached=cached)
        self.live.append(sequence)

    def _grow(self, sequence: _Sequence) -> None:
        before, call = sequence.count, f"grow of sequence {sequence.id}"
        sequence.count = min(self.most, before + self.random.randint(1, 3))
        try:
            answer = self.manager.grow(sequence.id, sequence.tokens[:sequence.count])
        except Exhausted:
            wanted, sequence.count = sequence.count, before
            self._preempt(call, sequence, wanted)
            return
        tables, copies = _pair(call, answer, "copies") if self.forks else (answer, None)
        self._take(call, sequence, tables, copies)

    def fork(self, parent: _Sequence) -> None:
        """A copy of a sequence, which goes on with tokens of its own. A sequence that is not written yet goes on."""
        if parent.written < parent.count or len(self.live) == MOST_LIVE:
            self.go_on(parent)
            return
        tokens = [*parent.tokens[:parent.count], *self._own()]
        child = _Sequence(self.begun, parent.salt, tokens, parent.count, parent.count, [[] for _ in self.groups])
        call = f"fork of sequence {parent.id}"
        try:
            answer = self.manager.fork(parent.id, child.id)
        except Exhausted:
            self._preempt(call, child, child.count)
            return
        tables, copies = _pair(call, answer, "copies")
        self._take(call, child, tables, copies, parent=parent)
        self.live.append(child)

    def _each(self, call: str, given: Any) -> list[Any]:
        """What a call gives for each group."""
        each = list(given) if self.lists and isinstance(given, Sequence) else [given]
        if not all(isinstance(one, Sequence) for one in each):
            raise _Broken(f"{call} gives {given!r}: give a list" + " for each group" * self.lists)
        if len(each) != len(self.groups):
            raise _Broken(f"{call} gives lists for {len(each)} groups: give one for each of {len(self.groups)}")
        return each

    def _check(self, call: str, sequence: _Sequence, g: int, table: Sequence[Any], copies: Sequence[Any],
               had: Sequence[int | None]) -> None:
        """An entry is what it was, or what that was copied to; no block, if the window has passed it."""
        wanted, passed = -(-sequence.count // self.groups[g].block_tokens), _passed(self.groups[g], sequence.written)
        if len(table) != wanted:
            raise _Broken(f"{call} gives {len(table)} blocks for {sequence.count} tokens: give {wanted}")
        for i, block in enumerate(table):
            old = had[i] if i < len(had) else block
            if block is None:
                if i >= passed:
                    raise _Broken(f"{call} gives no block as entry {i}: no window has passed its tokens")
            elif type(block) is not int:
                raise _Broken(f"{call} gives blocks that are no int: {table!r}")
            elif old is None:
                raise _Broken(f"{call} gives block {block} as entry {i}, which it had given up")
            elif block != old and (old, block) not in copies:
                raise _Broken(f"{call} gives block {block} in place of {old}: keep the blocks that a table has"
                              + ", or copy them" * self.forks)

    def _take(self, call: str, sequence: _Sequence, given: Any, copies: Any = None, *, cached: int = 0,
              parent: _Sequence | None = None) -> None:
        """An answer to a call: tables and copies. What a window has passed may be given out at once. What a group finds
        comes before all that the answer takes. A block that is replaced is given back when it was copied. `parent`:
        of a fork, whose child begins with its tables."""
        tables, before = self._each(call, given), (parent or sequence).tables
        none: list[Any] = [[] for _ in self.groups]
        copied = [[_pair(call, pair, "the block that it is copied into") for pair in pairs]
                  for pairs in self._each(call, copies)] if copies else none
        for g, table in enumerate(tables):
            self._check(call, sequence, g, table, copied[g], before[g])
        sequence.tables = [list(table) for table in tables]
        for g, (table, had) in enumerate([] if parent else zip(sequence.tables, before)):
            self._event(self.log.free, sequence, g, [old for old, new in zip(had, table) if new is None])
            size = self.groups[g].block_tokens
            names, found = self._names(sequence, g, cached // size), table[:cached // size]
            # The tokens of an event are those of its blocks from the first on, of as many tokens as the head says.
            tokens = sequence.tokens[:cached] if None not in found and size == self.largest else None
            self._event(self.log.hit, sequence, g, found, salt=sequence.salt, tokens=tokens,
                        hashes=[name for name, block in zip(names, found) if block is not None])
        for g, (table, pairs, had) in enumerate(zip(sequence.tables, copied, before)):
            size, entries = self.groups[g].block_tokens, list(zip(had, table))
            if parent:
                self._event(self.log.hit, sequence, g, [new for old, new in entries if new == old], salt=sequence.salt)
            self._event(self.log.allocate, sequence, g, [new for old, new in entries if new != old])
            for source, target in pairs:
                self.log.copy(self._name(sequence, g), source, target)
            if parent:
                self._store(sequence, g, [i for i in range(sequence.count // size) if table[i] not in (None, had[i])])
                continue
            self._event(self.log.free, sequence, g, [old for old, new in entries if new not in (old, None)])
            self._event(self.log.allocate, sequence, g, table[len(had) + cached // size:])

    def _name(self, sequence: _Sequence, g: int) -> int | str:
        return sequence.id if len(self.groups) == 1 else f"{sequence.id}.{g}"

    def _event(self, write: Any, sequence: _Sequence, g: int, entries: Sequence[int | None], **fields: Any) -> None:
        """An event about entries of a table, of those that are blocks."""
        if blocks := [block for block in entries if block is not None]:
            write(self._name(sequence, g), blocks, **fields)

    def _names(self, sequence: _Sequence, g: int, count: int) -> list[str]:
        """Of the first blocks: blocks with one name hold the same tokens behind the same."""
        names, size = sequence.names.setdefault(g, []), self.groups[g].block_tokens
        for i in range(len(names), count):
            before = names[-1] if names else (sequence.salt, g)
            names.append(hashlib.sha256(repr((before, sequence.tokens[i * size:(i + 1) * size])).encode()).hexdigest()[:16])
        return names[:count]

    def _store(self, sequence: _Sequence, g: int, which: Sequence[int]) -> None:
        names, size = self._names(sequence, g, max(which, default=-1) + 1), self.groups[g].block_tokens
        for i in which:
            self.log.store(sequence.tables[g][i], names[i], parent=names[i - 1] if i else None, salt=sequence.salt,
                           tokens=sequence.tokens[i * size:(i + 1) * size])

    def _step(self, sequence: _Sequence) -> None:
        begin, end = sequence.written, self.random.randint(sequence.written + 1, sequence.count)
        for g, group in enumerate(self.groups):
            table, size = sequence.tables[g], group.block_tokens
            self._event(self.log.read, sequence, g, table[_passed(group, begin):-(-begin // size)])
            for i in range(begin // size, -(-end // size)):
                first, last = max(begin, i * size), min(end, (i + 1) * size)
                self.log.write(self._name(sequence, g), table[i], first - i * size, last - first)
            self._store(sequence, g, range(begin // size, end // size))
        sequence.written = end
        self.manager.written(sequence.id, end)

    def release(self, sequence: _Sequence) -> None:
        self.live.remove(sequence)
        self.manager.release(sequence.id)
        for g, table in enumerate(sequence.tables):
            self._event(self.log.free, sequence, g, table)

    def _preempt(self, call: str, sequence: _Sequence, count: int) -> None:
        missing = sum(-(-count // group.block_tokens) - len(table) + (self.forks and len(table) > 0)
                      for group, table in zip(self.groups, sequence.tables))
        held = {block for other in self.live for table in other.tables for block in table}
        available = self.blocks - len(held - {None})
        if missing <= available:
            raise _Broken(f"{call} says that too few blocks are available: it needs {missing} at most, "
                          f"and {available} are")
        self.preempted = self.random.choice(self.live)
        self.release(self.preempted)


def _audit(log: PoolLog, path: str) -> str:
    return run_program("pool", "audit", path, statuses=(0, 1)).replace(path, "log") if log.events else ""


def _judge(make: Make, pool: Pool, seed: int, operations: int) -> Verdict:
    with tempfile.TemporaryDirectory() as folder:
        path, broken = os.path.join(folder, "manager.jsonl"), ""
        with _open_log(make, path, pool) as log:
            try:
                _Play(make, pool, seed, log).run(operations)
            except _Broken as error:
                broken = str(error)
            except Exception:  # of the manager
                broken = traceback.format_exc()
        said = _audit(log, path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
    passed = not broken and ALL_HELD in said
    sizes = " and ".join(f"{group.block_tokens} tokens" + f" with a window of {group.window}" * (group.window > 0)
                         for group in _groups(pool))
    where = f"a pool of {pool[0]} blocks of {sizes}, seed {seed}, {operations} operations"
    return Verdict(passed, f"PASS: {where}" if passed else f"FAIL: {where}\n{said}{broken}".rstrip(), pool, seed, operations, text)


def check(make: Make, *, seed: int = 0, operations: int = 2000, pools: Sequence[Pool] = POOLS) -> Verdict:
    """Plays an engine on those pools that the manager takes, until a run fails; then halves its operations while it
    still does."""
    for pool in _pools(make, pools):
        verdict = _judge(make, pool, seed, operations)
        if not verdict:
            break
    right = 0
    while not verdict and right + 1 < verdict.operations:
        half = right + (verdict.operations - right) // 2
        shorter = _judge(make, verdict.pool, seed, half)
        if shorter:
            right = half
        else:
            verdict = shorter
    return verdict


def machine(make: Make, *, pools: Sequence[Pool] = SMALL_POOLS) -> Any:
    """A state machine of hypothesis: it chooses operations, and makes those that break a rule few. Its `TestCase` is a test;
    hypothesis' settings say how many examples and steps. The log of an example is audited at its end."""
    from hypothesis import strategies as draw
    from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

    class PoolMachine(RuleBasedStateMachine):
        folder: Any = None
        play: Any = None

        @initialize(pool=draw.sampled_from(_pools(make, pools)), seed=draw.integers(0, 999))
        def begin(self, pool: Pool, seed: int) -> None:
            self.folder = tempfile.TemporaryDirectory()
            self.path = os.path.join(self.folder.name, "manager.jsonl")
            self.log = _open_log(make, self.path, pool)
            self.play = _Play(make, pool, seed, self.log)  # tokens and lengths: the seed's

        @rule()
        def admit(self) -> None:
            self.play.admit()

        @precondition(lambda self: self.play.live)
        @rule(which=draw.integers(0, MOST_LIVE - 1))
        def go_on(self, which: int) -> None:
            self.play.go_on(self.play.live[which % len(self.play.live)])

        @precondition(lambda self: self.play.forks and self.play.live)
        @rule(which=draw.integers(0, MOST_LIVE - 1))
        def fork(self, which: int) -> None:
            self.play.fork(self.play.live[which % len(self.play.live)])

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
