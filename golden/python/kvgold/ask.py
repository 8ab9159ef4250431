"""Answers that the program kvgold judges: the diagnosis of one, and a callable asked about a config.

    print(kvgold.explain(case, {"k_data": a, "v_data": b}))   # where the answer is wrong, and which defect it equals

    report = kvgold.check(my_engine, {"op": "append", "format": "nvfp4", "layout": "hnd", "kv_heads": 2, "head_dim": 64,
                                      "tokens": 10, "fill": "adversarial"})
    print(report); assert report.passed

The judge is a process of its own. A callable runs in this process: nothing holds it off the rest of the process or the
disk. While it runs there is no right answer to be found, neither here nor on the disk: the program makes the questions,
and makes them again, with their answers, when the callable is done."""

from __future__ import annotations

import html
import json
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass, replace
from typing import Any, Callable, Mapping

from .container import PackError
from .judge import raw, save_answer
from .pack import Case, Prompt, load_prompt
from .problem import Problem
from .program import run_program

# Takes the problem and the question's arrays by name (its own copies, BF16 as uint16 bits). Gives the answer's arrays by
# name, or a text: why it does not answer.
Engine = Callable[[Problem, "dict[str, Any]"], "Mapping[str, Any] | str"]

JUDGED = (0, 1, 77)  # exit statuses of `kvgold compare` that come with a report


@dataclass(frozen=True, repr=False)
class Verdict:
    """What `kvgold compare` says of a case. It is true if the case passed: `assert kvgold.explain(case, answer)`."""

    id: str
    verdict: str  # "PASS", "FAIL", "SKIP" (not answered), "ERROR"
    reason: str
    details: Mapping[str, Any]  # the case in the report for machines: docs/guide/compare.md section 5
    text: str = ""  # the report in words
    contained: bool | None = None  # of `check`: False, for the callable runs in the process that asks; else not known

    @property
    def passed(self) -> bool:
        return self.verdict == "PASS"

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        where = " (uncontained)" if self.contained is False else ""
        return self.text or f"{self.verdict} {self.id}{where}" + (f": {self.reason}" if self.reason else "")

    def __repr__(self) -> str:
        return f"<kvgold.Verdict {self.verdict} {self.id}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


@dataclass(frozen=True, repr=False)
class Report:
    """What `kvgold compare` says of all answers of a callable. It is true if it passed: `assert kvgold.check(...)`."""

    seed: str  # with it, the same questions again
    cases: tuple[Verdict, ...]
    text: str

    @property
    def passed(self) -> bool:
        """Every case is answered and right. A case without an answer is no pass."""
        return bool(self.cases) and all(self.cases)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return f"{self.text}seed {self.seed}; the callable ran uncontained, in the process that asked"

    def __repr__(self) -> str:
        return f"<kvgold.Report: {sum(map(bool, self.cases))} of {len(self.cases)} cases pass>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def explain(case: Case, answer: Mapping[str, Any]) -> Verdict:
    """Where the tensors of an answer to a pack's case are wrong, and why. Tensors as in `assert_matches`. Raises
    PackError if the program cannot judge them, Missing if there is no program."""
    with tempfile.TemporaryDirectory(prefix="kvgold-") as folder:
        path = os.path.join(folder, "answer.safetensors")
        save_answer(path, {case: answer})
        (verdict,) = _compare(case.pack.path, path, folder, "--case", case.key)[0]
    return verdict


def check(engine: Engine, *configs: Mapping[str, Any], seed: str | None = None) -> Report:
    """Asks `engine` the cases of configs (docs/guide/config.md), or of single case groups of one (section 3). Keys of a
    config beside `cases`, and `backend`, have no effect. Each call draws a seed that nobody knows before, unless `seed`
    ("0x...") is given. An exception of the engine, or an answer of another form, costs its case. Raises PackError if
    the groups are wrong, with the line of `kvgold golden make`."""
    groups = [{key: value for key, value in group.items() if key != "backend"}
              for config in configs for group in config.get("cases", [config])]
    seed = seed or f"0x{secrets.randbits(64):x}"
    with tempfile.TemporaryDirectory(prefix="kvgold-") as folder:
        config, pack, answers = (os.path.join(folder, name) for name in ("config.json", "pack", "answer.safetensors"))
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"kvgold_golden": 1, "name": "check", "version": "1.0.0", "licence": "Apache-2.0", "seed": seed,
                       "notes": {}, "groups": [{"flags": [], "stored": True, "cases": groups}]}, file)
        run_program("golden", "make", config, "-o", pack)
        prompts = load_prompt(pack)
        shutil.rmtree(pack)  # the questions stay mapped
        given, reasons = {}, {}
        for prompt in prompts:
            answer = _ask(engine, prompt)
            if isinstance(answer, str):
                reasons[prompt.id] = answer
            else:
                given[prompt] = answer
        if not given:
            raise PackError("no case is answered: " + next(iter(reasons.values()), "the config has none"))
        save_answer(answers, given)
        run_program("golden", "make", config, "-o", pack)
        cases, text = _compare(pack, answers, folder, "--verbose")
    unanswered = "".join(f"not answered: {name}: {reason}\n" for name, reason in reasons.items())
    return Report(seed, tuple(replace(case, contained=False) for case in cases), text + unanswered)


def _ask(engine: Engine, prompt: Prompt) -> Mapping[str, Any] | str:
    """The answer, fit for a file; or why there is none."""
    wanted = {answer.name: answer for answer in prompt.answers}
    try:
        given = engine(prompt.parsed, {name: tensor.array.copy() for name, tensor in prompt.tensors.items()})
        if isinstance(given, str):
            return given
        unknown = [name for name in given if name not in wanted]
        if unknown or not given:
            return f"{unknown[0] if unknown else 'nothing'} is given; {', '.join(wanted)} are asked for"
        return {name: raw(value, wanted[name], name) for name, value in given.items()}
    except Exception as error:  # noqa: BLE001: whatever an engine throws, or gives
        return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _compare(pack: str, answer: str, folder: str, *options: str) -> tuple[list[Verdict], str]:
    """The cases of a report, the first with its text, and the text of all."""
    report = os.path.join(folder, "report.json")
    text = run_program("compare", pack, answer, "--json", report, *options, statuses=JUDGED)
    with open(report, encoding="utf-8") as file:
        cases = json.load(file)["cases"]
    alone = text if len(cases) == 1 else ""
    return [Verdict(case["id"], case["verdict"], case.get("reason", ""), case, alone) for case in cases], text
