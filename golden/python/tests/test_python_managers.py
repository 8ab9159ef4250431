"""A random serving trace of a small block manager passes the audit, and each fault that is planted in the manager breaks
a rule of its own. No engine is needed."""

import os
import re
import subprocess

import pytest

from kvgold.adapters.managers import Stored, drive
from kvgold.pool_log import PoolLog

SIZE = 4
KVGOLD = os.environ.get("KVGOLD", "kvgold")


class Small:
    """A manager that frees by counts of uses, finds blocks by a hash of all tokens up to their ends, and evicts the
    oldest cached block when it has no free one."""
    engine = "small"
    block_tokens = SIZE
    promises: dict[str, bool] = {}
    preempts_scheduled = False

    def __init__(self, blocks):
        self.blocks, self.uses, self.free = blocks, [0] * blocks, list(range(blocks))
        self.hashes, self.rows = {}, {}

    def key(self, request, i):
        return repr((request.salt, request.tokens[:(i + 1) * SIZE]))

    def entry(self, request, i):
        return Stored(self.key(request, i), self.key(request, i - 1) if i else None)

    def take(self):
        if not self.free:
            victim = next((block for block in self.hashes if self.uses[block] == 0), None)
            if victim is None:
                return None
            del self.hashes[victim]
            self.free.append(victim)
        block = self.free.pop()
        self.uses[block] = 1
        return block

    def give_back(self, block):
        self.uses[block] -= 1
        if self.uses[block] == 0 and block not in self.hashes:
            self.free.append(block)

    def start(self, request, chunk):
        found, blocks = [], {entry.hash: block for block, entry in self.hashes.items()}
        while (len(found) + 1) * SIZE < len(request.tokens) and self.key(request, len(found)) in blocks:
            found.append(blocks[self.key(request, len(found))])
            self.uses[found[-1]] += 1
        self.rows[request] = [*found]
        if self.extend(request, min(len(found) * SIZE + chunk, len(request.tokens))):
            return [found]
        for block in self.rows.pop(request):
            self.give_back(block)
        return None

    def extend(self, request, goal):
        row, before = self.rows[request], len(self.rows[request])
        while len(row) * SIZE < goal:
            block = self.take()
            if block is None:
                while len(row) > before:
                    self.give_back(row.pop())
                return False
            row.append(block)
        return True

    def scheduled(self, request):
        pass

    def computed(self, request):
        for i, block in enumerate(self.rows[request][:request.goal // SIZE]):
            self.hashes.setdefault(block, self.entry(request, i))

    def release(self, request, finished):
        for block in self.rows.pop(request):
            self.give_back(block)

    def tables(self, request):
        return [[*self.rows[request]]] if request in self.rows else []

    def stored(self):
        return dict(self.hashes)

    def counts(self):
        held = sum(uses > 0 for uses in self.uses)
        return {"held": held, "free": len(self.free), "cached": self.blocks - held - len(self.free)}


class FreesTwice(Small):
    def give_back(self, block):
        super().give_back(block)
        if block == 3 and self.uses[block] == 0 and block not in self.hashes:
            self.free.append(block)


class LosesSalt(Small):
    def key(self, request, i):
        return repr(request.tokens[:(i + 1) * SIZE])


class HashesLastTokens(Small):
    def key(self, request, i):
        return repr((request.salt, i, request.tokens[(i + 1) * SIZE - 1]))


class EvictsHeld(Small):
    def take(self):
        if self.hashes and len(self.hashes) % 7 == 0:
            del self.hashes[next(iter(self.hashes))]
        return super().take()


class GivesHeld(Small):
    def take(self):
        if not self.free and self.hashes:
            self.uses[next(iter(self.hashes))] = 0
        return super().take()


class FreesWithOneUser(Small):
    def give_back(self, block):
        self.uses[block] = min(self.uses[block], 1)
        super().give_back(block)


class StoresPartly(Small):
    def computed(self, request):
        for i, block in enumerate(self.rows[request][:-(-request.goal // SIZE)]):
            self.hashes.setdefault(block, self.entry(request, i))


class StoresAnother(Small):
    def computed(self, request):
        super().computed(request)
        if self.free:
            self.hashes[self.free[0]] = self.entry(request, 0)


class StoresEarly(Small):
    """Right as long as a victim has no slots of this step."""
    promises = {"stores_before_write": True}

    def scheduled(self, request):
        super().computed(request)

    def computed(self, request):
        pass


class StoresEarlyAndPreempts(StoresEarly):
    preempts_scheduled = True


class Drifts(Small):
    def counts(self):
        return {**super().counts(), "free": min(len(self.free), self.blocks - 2)}


class Leaks(Small):
    def release(self, request, finished):
        if not finished or request.name != "r5":
            super().release(request, finished)


def audit(path):
    done = subprocess.run([KVGOLD, "pool", "audit", path], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout, set(re.findall(r"(A\d+) \d+", done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("make", [Small, StoresEarly])
@pytest.mark.parametrize("blocks", [12, 40, 150])
def test_right_managers_pass(tmp_path, make, blocks):
    path = str(tmp_path / "log.jsonl")
    what = drive(make(blocks), path, seed=blocks, operations=4000)
    assert blocks == 150 or " 0 preemptions" not in what
    text, rules = audit(path)
    assert not rules, text


@pytest.mark.parametrize("make, rule", [
    (FreesTwice, "A3"), (LosesSalt, "A7"), (HashesLastTokens, "A23"), (EvictsHeld, "A10"), (GivesHeld, "A3"),
    (FreesWithOneUser, "A25"),
    (StoresPartly, "A22"), (StoresAnother, "A20"),
    (StoresEarlyAndPreempts, "A22"), (Drifts, "A25"), (Leaks, "A26")])
def test_planted_faults_break_rules(tmp_path, make, rule):
    path = str(tmp_path / "log.jsonl")
    drive(make(30), path, seed=1, operations=4000)
    text, rules = audit(path)
    assert rule in rules, text


def test_all_events_are_known(tmp_path):
    path = str(tmp_path / "log.jsonl")
    with PoolLog(path, 4, 2, engine="mine", host_blocks=2, evicts_on_allocate=False) as log:
        log.allocate("a", [0])
        log.write("a", 0, 0, 2)
        log.store(0, "h", salt="s", tokens=[1, 2])
        log.hit("b", [0], hashes=["h"], salt="s", tokens=[1, 2])
        log.allocate("b", [1])
        log.copy("b", 0, 1)
        log.write("b", 1, 1, 1)
        log.read("b", [0, 1])
        log.offload(0, 5)
        log.store(1, "i", parent="h")
        log.forget([1])
        log.free("a", [0])
        log.free("b")
        log.evict([0, 5])
        log.clear()
        log.counts(free=4, cached=0, held=0, available=4)
        log.end()
    assert log.events == 17
    text, rules = audit(path)
    assert "17 events" in text and not rules, text
