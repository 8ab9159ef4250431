"""kvgold.pool.check of examples/manager/manager.py and of one with windows, groups and forks, which are right, and of
the same ones with a mistake."""

import math
import pathlib
import re
import runpy

import pytest

import kvgold.pool
from kvgold.pool import Exhausted, Group

ROOT = pathlib.Path(__file__).resolve().parents[3]
Right = runpy.run_path(str(ROOT / "examples/manager/manager.py"))["Manager"]


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


class GivesTheYoungest(Right):
    def let_go(self, block):
        super().let_go(block)
        if self.users[block] == 0:
            self.idle.insert(0, self.idle.pop())


class LetsGoTheHeadFirst(Right):
    def release(self, sequence):
        for block in self.sequences.pop(sequence)[2]:
            self.let_go(block)


class GivesAnyFree(Right):
    lowest_first = True


class GivesCachedBlocksToo(Right):
    free_first = True


class PromisesNothing(GivesTheYoungest):
    oldest_first = tail_first = False


class Hybrid(Right):
    """With windows, groups and forks. A block is known by its group, too, which stands beside the salt."""
    windows = groups = True
    oldest_first = tail_first = False

    def __init__(self, blocks, groups):
        super().__init__(blocks, None)
        self.kinds, self.whole = groups, math.lcm(*(group.block_tokens for group in groups))

    def hold(self, block):
        if block is not None:
            super().hold(block)

    def let_go(self, block):
        if block is not None:
            super().let_go(block)

    def passed(self, group, written):
        return max(0, written + 1 - group.window) // group.block_tokens if group.window else 0

    def find_in(self, g, salt, tokens):
        """None for what the window has passed, -1 for what is not there."""
        size, passed = self.kinds[g].block_tokens, self.passed(self.kinds[g], len(tokens))
        return [None if i < passed else self.known.get(self.name((g, salt), tokens[:(i + 1) * size]), -1)
                for i in range(len(tokens) // size)]

    def find(self, salt, tokens):
        """The most tokens that all groups find."""
        for count in range((len(tokens) - 1) // self.whole * self.whole, 0, -self.whole):
            tables = [self.find_in(g, salt, tokens[:count]) for g in range(len(self.kinds))]
            if not any(-1 in table for table in tables):
                return tables, count
        return [[] for _ in self.kinds], 0

    def is_shared(self, group, table, written):
        return written % group.block_tokens > 0 and self.users[table[-1]] > 1

    def copy(self, table):
        source, table[-1] = table[-1], self.take()
        self.let_go(source)
        return [(source, table[-1])]

    def give_up(self, table, count):
        for i in range(count):
            self.let_go(table[i])
            table[i] = None

    def begin(self, sequence, salt, tokens, tables):
        self.sequences[sequence] = salt, tokens, tables
        for table in tables:
            for block in table:
                self.hold(block)

    def admit(self, sequence, salt, tokens):
        tables, cached = self.find(salt, tokens)
        self.begin(sequence, salt, tokens[:cached], tables)
        try:
            return self.extend(sequence, tokens)[0], cached
        except Exhausted:
            self.release(sequence)
            raise

    def grow(self, sequence, tokens):
        return self.extend(sequence, tokens)

    def extend(self, sequence, tokens):
        salt, before, tables = self.sequences[sequence]
        missing = [-(-len(tokens) // group.block_tokens) - len(table) for group, table in zip(self.kinds, tables)]
        shared = [self.is_shared(group, table, len(before)) for group, table in zip(self.kinds, tables)]
        if sum(missing) + sum(shared) > len(self.idle):
            raise Exhausted
        copies = [self.copy(table) if of else [] for table, of in zip(tables, shared)]
        for group, table, count in zip(self.kinds, tables, missing):
            self.give_up(table, self.passed(group, len(before)))
            table += [self.take() for _ in range(count)]
        self.sequences[sequence] = salt, list(tokens), tables
        return tables, copies

    def fork(self, parent, child):
        salt, tokens, tables = self.sequences[parent]
        self.begin(child, salt, tokens, [list(table) for table in tables])
        return tables, [[] for _ in tables]

    def written(self, sequence, count):
        salt, tokens, tables = self.sequences[sequence]
        for g, (group, table) in enumerate(zip(self.kinds, tables)):
            for i in range(count // group.block_tokens):
                name = self.name((g, salt), tokens[:(i + 1) * group.block_tokens])
                if table[i] is not None and name not in self.known and table[i] not in self.name_of:
                    self.known[name], self.name_of[table[i]] = table[i], name

    def release(self, sequence):
        for table in self.sequences.pop(sequence)[2]:
            for block in reversed(table):
                self.let_go(block)


class Windowed(Hybrid):
    groups = False


class Forking(Hybrid):
    """With forks alone: a call gives a table, and no list of them. Every second child begins with copies."""
    windows = groups = False

    def __init__(self, blocks, block_tokens):
        super().__init__(blocks, [Group(block_tokens)])

    def admit(self, sequence, salt, tokens):
        tables, cached = super().admit(sequence, salt, tokens)
        return tables[0], cached

    def grow(self, sequence, tokens):
        tables, copies = super().grow(sequence, tokens)
        return tables[0], copies[0]

    def fork(self, parent, child):
        salt, tokens, (table,) = self.sequences[parent]
        if child % 2:
            return super().fork(parent, child)[0][0], []
        if len(table) > len(self.idle):
            raise Exhausted
        self.sequences[child] = salt, tokens, [[self.take() for _ in table]]
        return self.sequences[child][2][0], list(zip(table, self.sequences[child][2][0]))


class SeesATokenLess(Hybrid):
    def passed(self, group, written):
        return super().passed(group, written + 1)


class LosesWhatIsPassed(Hybrid):
    def give_up(self, table, count):
        table[:count] = [None] * count


class KeepsWhatIsPassed(Hybrid):
    def give_up(self, table, count):
        super().give_up(list(table), count)


class TakesAgain(Hybrid):
    def fork(self, parent, child):
        tables, copies = super().fork(parent, child)
        return [[block or 0 for block in table] for table in tables], copies


class ForgetsTheGroup(Hybrid):
    def name(self, salt, tokens):
        return salt[1], *tokens


class FindsHalfABlock(Hybrid):
    def admit(self, sequence, salt, tokens):
        tables, cached = super().admit(sequence, salt, tokens)
        return tables, cached + self.whole - min(group.block_tokens for group in self.kinds)


class LeavesAGroupOut(Hybrid):
    def admit(self, sequence, salt, tokens):
        tables, cached = super().admit(sequence, salt, tokens)
        return tables[:1], cached


class WritesInPlace(Hybrid):
    def is_shared(self, group, table, written):
        return False


class HidesTheCopy(Forking):
    def copy(self, table):
        return super().copy(table)[1:]


class CopiesIntoItself(Hybrid):
    def copy(self, table):
        return super().copy(table) + [(table[-1], table[-1])]


class ForksWithoutHolding(Hybrid):
    def fork(self, parent, child):
        tables, copies = super().fork(parent, child)
        for block in tables[0]:
            self.let_go(block)
        return tables, copies


class GrowsWithoutCopies(Hybrid):
    def grow(self, sequence, tokens):
        return super().grow(sequence, tokens)[0]


class GrowsByATableAlone(Forking):
    def grow(self, sequence, tokens):
        return super().grow(sequence, tokens)[0]


class GivesOneTable(Hybrid):
    def grow(self, sequence, tokens):
        tables, copies = super().grow(sequence, tokens)
        return tables[0], copies


class CopiesABlockAlone(Forking):
    def copy(self, table):
        return [target for _, target in super().copy(table)]


class AdmitsByATableAlone(Right):
    def admit(self, sequence, salt, tokens):
        return super().admit(sequence, salt, tokens)[0]


class NeverForks(Hybrid):
    def fork(self, parent, child):
        raise Exhausted


@pytest.mark.parametrize("manager, events", [
    (Right, ["hit", "end"]), (PromisesNothing, ["hit", "end"]), (Forking, ["hit", "copy", "end"]),
    (Windowed, ["window", "hit", "copy", "end"]),
    (Hybrid, ["window", "hit", "copy", "end"])])
def test_a_right_manager_passes(manager, events):
    verdict = kvgold.pool.check(manager)
    assert verdict.passed, verdict
    assert all(f'"{event}"' in verdict.log for event in events)


@pytest.mark.parametrize("manager, group, taken", [
    (Right, Group(4), True), (Forking, Group(4, 9), False), (Windowed, Group(4, 9), True)])
def test_a_manager_is_asked_for_what_it_declares(manager, group, taken):
    assert not taken or kvgold.pool.check(manager, operations=50, pools=[(24, [group])])
    with pytest.raises(ValueError, match="declares"):
        kvgold.pool.check(manager, operations=50, pools=[(24, [group] * (1 + taken))])


@pytest.mark.parametrize("pool", [(1, [Group(4), Group(2)]), (0, 4), (4, [])])
def test_what_is_no_pool_is_refused_by_name(pool):
    with pytest.raises(ValueError, match=re.escape(f"{pool!r} is no pool")):
        kvgold.pool.check(Hybrid, pools=[(24, 4), pool])


@pytest.mark.parametrize("make, text", [
    (ForgetsTheSalt, ": A7: "), (ForgetsTheTokensBefore, ": A7: "), (KeepsTheName, ": A[57]: "), (Leaks, ": A25: "),
    (FreesTwice, ": A25: "), (KeepsWhatItTook, ": A25: "), (FindsAll, "below them"), (NeverServes, "too few blocks"),
    (NeverGrows, "too few blocks"), (CountsInFloats, "give an int"), (CountsBelow0, ": A25: "),
    (Fails, "no such sequence"), (GivesTheYoungest, ": B[34]: "), (LetsGoTheHeadFirst, ": B4: "),
    (GivesAnyFree, ": B1: "), (GivesCachedBlocksToo, ": B2: "),
    (SeesATokenLess, "as entry 1: no window has passed its tokens"), (LosesWhatIsPassed, ": A25: "),
    (KeepsWhatIsPassed, ": A(2|3|25): "), (TakesAgain, "which it had given up"), (ForgetsTheGroup, ": A7: "),
    (FindsHalfABlock, "a multiple of 4 below them"), (LeavesAGroupOut, "for 1 groups: give one for each of 2"),
    (WritesInPlace, ": A14: "), (HidesTheCopy, "or copy them"), (CopiesIntoItself, ": A17: "),
    (ForksWithoutHolding, ": A3: "), (NeverForks, "fork of sequence"),
    (GrowsWithoutCopies, "grow of sequence .*: give a tuple, of that and copies"),
    (GrowsByATableAlone, "grow of sequence .*: give a tuple, of that and copies"),
    (GivesOneTable, "grow of sequence .*: give a list for each group"),
    (CopiesABlockAlone, "grow of sequence .*: give a tuple, of that and the block"),
    (AdmitsByATableAlone, "admit of sequence .*: give a tuple, of that and cached")])
def test_a_mistake_breaks_its_rule(make, text):
    verdict = kvgold.pool.check(make)
    assert not verdict and re.search(text, str(verdict)), verdict
    assert "Traceback" not in str(verdict) or make is Fails
    again = kvgold.pool.check(make, seed=verdict.seed, operations=verdict.operations, pools=[verdict.pool])
    assert str(again) == str(verdict)


@pytest.mark.parametrize("manager, broken", [(Right, None), (ForgetsTheSalt, ": A7: "), (KeepsTheName, ": A[57]: "), (FreesTwice, ": A2: "),
                                             (FindsAll, "below them"), (NeverServes, "too few blocks"),
                                             (Hybrid, None), (SeesATokenLess, "no window has passed"),
                                             (ForgetsTheGroup, ": A7: "), (WritesInPlace, ": A14: ")])
def test_machine(manager, broken):
    """hypothesis chooses the operations: the right manager passes, and a wrong one fails by the rule that it breaks."""
    hypothesis = pytest.importorskip("hypothesis")
    from hypothesis.stateful import run_state_machine_as_test
    examples = 100 if broken is None else 2000  # the first one that fails is the last one
    settings = hypothesis.settings(max_examples=examples, stateful_step_count=60, derandomize=True, deadline=None, database=None,
                                   report_multiple_bugs=False, phases=[hypothesis.Phase.generate],
                                   suppress_health_check=list(hypothesis.HealthCheck))
    machine = kvgold.pool.machine(manager)
    if broken is None:
        run_state_machine_as_test(machine, settings=settings)
        return
    with pytest.raises(Exception, match=broken) as raised:
        run_state_machine_as_test(machine, settings=settings)
    assert not isinstance(raised.value, hypothesis.errors.HypothesisException)
