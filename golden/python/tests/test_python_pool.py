"""kvgold.pool.check of examples/manager/manager.py, which is right, and of the same one with a mistake."""

import pathlib
import runpy

import pytest

import kvgold.pool
from kvgold.pool import Exhausted

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


@pytest.mark.parametrize("manager, broken", [(Right, None), (ForgetsTheSalt, ": A7: "), (KeepsTheName, ": A5: "), (FreesTwice, ": A2: "),
                                             (FindsAll, "below them"), (NeverServes, "too few blocks")])
def test_machine(manager, broken):
    """hypothesis chooses the operations: the right manager passes, and a wrong one fails by the rule that it breaks."""
    hypothesis = pytest.importorskip("hypothesis")
    from hypothesis.stateful import run_state_machine_as_test
    settings = hypothesis.settings(max_examples=100, stateful_step_count=60, derandomize=True, deadline=None, database=None,
                                   report_multiple_bugs=False, phases=[hypothesis.Phase.generate],
                                   suppress_health_check=list(hypothesis.HealthCheck))
    machine = kvgold.pool.machine(manager)
    if broken is None:
        run_state_machine_as_test(machine, settings=settings)
        return
    with pytest.raises(Exception, match=broken) as raised:
        run_state_machine_as_test(machine, settings=settings)
    assert not isinstance(raised.value, hypothesis.errors.HypothesisException)
