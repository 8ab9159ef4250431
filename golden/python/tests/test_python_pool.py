"""kvgold.pool.check of a manager that is right, and of the same one with a mistake."""

import pytest

import kvgold.pool
from kvgold.pool import Exhausted


class Right:
    """Blocks are known by all tokens up to their end. The one that was let go first is given away first."""

    def __init__(self, blocks, block_tokens):
        self.size, self.users = block_tokens, [0] * blocks
        self.idle = list(range(blocks))  # in the order in which they are given away
        self.known, self.name_of = {}, {}  # name to block, and back
        self.sequences = {}

    def name(self, salt, tokens):
        return salt, *tokens

    def find(self, salt, tokens):
        found = []
        for end in range(self.size, len(tokens), self.size):
            block = self.known.get(self.name(salt, tokens[:end]))
            if block is None:
                break
            found.append(block)
        return found

    def hold(self, block):
        self.users[block] += 1
        if self.users[block] == 1:
            self.idle.remove(block)

    def let_go(self, block):
        self.users[block] -= 1
        if self.users[block] == 0:
            self.idle.append(block)

    def take(self):
        block = self.idle[0]
        self.forget(block)
        self.hold(block)
        return block

    def forget(self, block):
        self.known.pop(self.name_of.pop(block, None), None)

    def extend(self, table, tokens):
        missing = -(-len(tokens) // self.size) - len(table)
        if missing > len(self.idle):
            raise Exhausted
        return table + [self.take() for _ in range(missing)]

    def admit(self, sequence, salt, tokens):
        found = self.find(salt, tokens)
        for block in found:
            self.hold(block)
        try:
            table = self.extend(found, tokens)
        except Exhausted:
            for block in found:
                self.let_go(block)
            raise
        self.sequences[sequence] = salt, list(tokens), table
        return table, len(found) * self.size

    def grow(self, sequence, tokens):
        salt, _, table = self.sequences[sequence]
        table = self.extend(table, tokens)
        self.sequences[sequence] = salt, list(tokens), table
        return table

    def written(self, sequence, count):
        salt, tokens, table = self.sequences[sequence]
        for i in range(count // self.size):
            name = self.name(salt, tokens[:(i + 1) * self.size])
            if name not in self.known and table[i] not in self.name_of:
                self.known[name], self.name_of[table[i]] = table[i], name

    def release(self, sequence):
        for block in reversed(self.sequences.pop(sequence)[2]):
            self.let_go(block)

    def available(self):
        return len(self.idle)


class ForgetsTheSalt(Right):
    def name(self, salt, tokens):
        return tuple(tokens)


class ForgetsTheTokensBefore(Right):
    def name(self, salt, tokens):
        return salt, len(tokens), *tokens[-self.size:]


class KeepsTheName(Right):
    def forget(self, block):
        pass


class Leaks(Right):
    def release(self, sequence):
        for block in reversed(self.sequences.pop(sequence)[2][:2]):
            self.let_go(block)


class FreesTwice(Right):
    def let_go(self, block):
        super().let_go(block)
        if block == 1 and self.users[block] == 0:
            self.idle.append(block)


class KeepsWhatItTook(Right):
    def extend(self, table, tokens):
        if -(-len(tokens) // self.size) - len(table) > self.available():
            if self.idle:
                self.take()
            raise Exhausted
        return super().extend(table, tokens)


class FindsAll(Right):
    def admit(self, sequence, salt, tokens):
        return super().admit(sequence, salt, tokens)[0], len(tokens) // self.size * self.size


class NeverServes(Right):
    def admit(self, sequence, salt, tokens):
        raise Exhausted


class NeverGrows(Right):
    def grow(self, sequence, tokens):
        raise Exhausted


class CountsInFloats(Right):
    def available(self):
        return float(len(self.idle))


class CountsBelow0(Right):
    def available(self):
        return len(self.idle) - len(self.users)


class Fails(Right):
    def grow(self, sequence, tokens):
        raise KeyError("no such sequence")


def test_a_right_manager_passes():
    verdict = kvgold.pool.check(Right)
    assert verdict.passed, verdict
    assert '"hit"' in verdict.log and '"end"' in verdict.log


@pytest.mark.parametrize("make, text", [
    (ForgetsTheSalt, ": A7: "), (ForgetsTheTokensBefore, ": A7: "), (KeepsTheName, ": A5: "), (Leaks, ": A25: "),
    (FreesTwice, ": A25: "), (KeepsWhatItTook, ": A25: "), (FindsAll, "below them"), (NeverServes, "too few blocks"),
    (NeverGrows, "too few blocks"), (CountsInFloats, "give an int"), (CountsBelow0, ": A25: "),
    (Fails, "no such sequence")])
def test_a_mistake_breaks_its_rule(make, text):
    verdict = kvgold.pool.check(make)
    assert not verdict and text in str(verdict), verdict
    again = kvgold.pool.check(make, seed=verdict.seed, operations=verdict.operations, pools=[verdict.pool])
    assert str(again) == str(verdict)
