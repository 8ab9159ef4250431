"""Answers that the program kvgold judges: the diagnosis of one, and a callable asked about a config.

    print(kvgold.explain(case, {"k_data": a, "v_data": b}))   # where the answer is wrong, and which defect it equals

    report = kvgold.check(my_engine, "ci_smoke")              # a shipped config
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
import traceback
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Mapping

from .container import PackError, parse_json
from .judge import raw, save_answer
from .pack import Case, Prompt, load_prompt
from .problem import Problem
from .program import HOME, Progress, find_shipped, run_program

# Takes the problem and the question's arrays by name (its own copies; `check` has their shapes). Gives the answer's arrays
# by name, or a text: why it does not answer.
Engine = Callable[[Problem, "dict[str, Any]"], "Mapping[str, Any] | str"]

# A config of `kvgold check`: the name of a shipped one, the path of a file, or its object; or one case group.
Config = Mapping[str, Any] | str | os.PathLike[str]

DRAWS = 9  # as often as `kvgold check` draws a case that cannot tell right from wrong
TELLS_NOTHING = "a pack takes no case that a wrong answer passes"  # of `kvgold golden make`

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
    exception: Exception | None = field(default=None, compare=False)  # of the callable, with its traceback

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
        bad = sorted((case for case in self.cases if not case), key=lambda case: case.exception is None)
        first = f"; {bad[0].verdict} {bad[0].id}" + (f": {bad[0].reason}" if bad[0].reason else "") if bad else ""
        return f"<kvgold.Report: {len(self.cases) - len(bad)} of {len(self.cases)} cases pass{first}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def explain(case: Case, answer: Mapping[str, Any]) -> Verdict:
    """Where the tensors of an answer to a pack's case are wrong, and why. Tensors as in `assert_matches`. Raises
    PackError if the program cannot judge them, Missing if there is no program."""
    __tracebackhide__ = True
    with tempfile.TemporaryDirectory(prefix="kvgold-") as folder, \
            Progress(f"kvgold.explain: judging {case.id}") as progress:
        path = os.path.join(folder, "answer.safetensors")
        save_answer(path, {case: answer})
        (verdict,) = _compare(case.pack.path, path, folder, progress, "--case", case.key)[0]
    return verdict


def check(engine: Engine, *configs: Config, seed: str | None = None) -> Report:
    """Asks `engine` the cases of configs (docs/guide/config.md): names of shipped ones ("ci_smoke"), paths of files, or
    mappings, of a whole config or of one case group (section 3). A path of a model starts at the config's file, of a
    mapping at the working folder. Keys of a config beside `cases`, and the axes `backend`, `far_blocks` and `relations`,
    have no effect. Each call draws a seed that nobody knows before, unless `seed` ("0x...") is given, and
    another one if its data cannot tell right from wrong.

    An exception of the engine, or an answer of another form, costs its case: its Verdict has the exception. Raises
    PackError if no case is answered, from the first exception, and if the groups are wrong, cannot tell right from wrong
    or have what no pack holds (captures, `layer`, op generate), with the line of `kvgold golden make`. A line on stderr
    says how far it is, every 20 s or KVGOLD_PROGRESS_SECONDS.

    An engine gets the problem and a dict of arrays, by op and after -> what it gives. X is the model type (bf16 as
    uint16), `rows` the query tokens of all sequences, `pages` the blocks of the longest sequence. The pools are k_data,
    v_data, k_scale_pool, v_scale_pool: uint8 [bytes], as many as the layout and the format have (kvgold.pages gives
    views of them); formats with a tensor scale have k_tensor_scale, v_tensor_scale: float32 [1].

        append      k, v: X [tokens, kv_heads, head_dim]; slots: int64 [tokens], negative: not stored; the pools
                    with bias k_bias, v_bias: X [kv_heads, head_dim]
                    with rope positions: int32 [tokens]; cos_sin: float32 [positions, pairs, 2]
                    -> the pools
        flatten     the pools; block_table: int32 [sequences, pages]; lengths: int32 [sequences]
                    k_flat: X [sequences, kv_heads, tokens, head_dim]; v_flat: X [sequences, kv_heads, tokens, v_dim]
                    -> k_flat, v_flat, with what they held where no token is
        decode      q: X [rows, kv_heads * group, head_dim]; the pools, block_table and lengths as of flatten;
                    query_lengths: int32 [sequences], how many rows of q each has, its last tokens
                    with sinks sinks: float32 [kv_heads * group]
                    -> out: X [rows, kv_heads * group, v_dim]; lse: float32 [rows, kv_heads * group]
        merge       out_a, out_b: X [tokens, kv_heads, head_dim]; lse_a, lse_b: float32 [tokens, kv_heads]
                    -> out: X [tokens, kv_heads, head_dim]; lse: float32 [tokens, kv_heads]
        quantise    k, v: X [tokens, kv_heads, head_dim]
                    -> k_codes, v_codes: uint8 [tokens, kv_heads, codes]; k_scales, v_scales: uint8 [tokens, kv_heads, scales]
        dequantise  what quantise gives -> k, v
        expand      as flatten -> k_flat_e4m3, v_flat_e4m3: uint8 [sequences, kv_heads, tokens, head_dim]
        probe       the pools; slots: int64 [tokens] -> the codes and scales of quantise"""
    __tracebackhide__ = True
    groups = [group for config in configs for group in _groups(config)]
    draws = [seed] if seed else [f"0x{secrets.randbits(64):x}" for _ in range(DRAWS)]
    with tempfile.TemporaryDirectory(prefix="kvgold-") as folder, Progress("kvgold.check: making the questions") as progress:
        config, pack, answers = (os.path.join(folder, name) for name in ("config.json", "pack", "answer.safetensors"))
        for drawn in draws:
            with open(config, "w", encoding="utf-8") as file:
                json.dump({"kvgold_golden": 1, "name": "check", "version": "1.0.0", "licence": "Apache-2.0", "seed": drawn,
                           "notes": {}, "groups": [{"flags": [], "stored": True, "cases": groups}]}, file)
            try:
                run_program("golden", "make", config, "-o", pack, progress=progress)
                break
            except PackError as error:
                if drawn == draws[-1] or TELLS_NOTHING not in str(error):  # as places in the caller's config, not in ours
                    raise PackError(str(error).replace(f"{config}: ", "").replace("$.groups[0]: ", "")) from None
        prompts = load_prompt(pack)
        shutil.rmtree(pack)  # the questions stay mapped
        given: dict[Prompt, Mapping[str, Any]] = {}
        reasons: dict[str, str] = {}
        exceptions: dict[str, Exception] = {}
        for done, prompt in enumerate(prompts):
            progress.what = f"kvgold.check: {done} of {len(prompts)} cases asked, now {prompt.id}"
            answer = _ask(engine, prompt)
            if isinstance(answer, Mapping):
                given[prompt] = answer
                continue
            if isinstance(answer, Exception):
                exceptions[prompt.id] = answer
            reasons[prompt.id] = answer if isinstance(answer, str) else reason_of(answer)
        if not given:
            name, reason = next(iter(reasons.items()), ("", "the config has none"))
            raise PackError(f"no case is answered: {reason}") from exceptions.get(name)
        progress.what = f"kvgold.check: judging the answers of {len(given)} cases"
        save_answer(answers, given)
        # the first run has refused what it refuses
        run_program("golden", "make", config, "-o", pack, "--no-separation", progress=progress)
        cases, text = _compare(pack, answers, folder, progress, "--verbose")
    unanswered = "".join(f"not answered: {name}: {reason}\n" for name, reason in reasons.items())
    verdicts = (replace(case, contained=False, reason=reasons.get(case.id, case.reason), exception=exceptions.get(case.id))
                for case in cases)
    return Report(drawn, tuple(verdicts), text + unanswered)


def _groups(config: Config) -> list[Any]:
    """The case groups of a config, fit for a config in another folder."""
    __tracebackhide__ = True
    folder = os.getcwd()
    if not isinstance(config, Mapping):
        path = os.path.abspath(find_shipped("configs", config, ".json"))
        folder = os.path.dirname(path)
        try:
            with open(path, "rb") as file:
                config = parse_json(file.read(), path)
        except OSError as error:
            raise PackError(f"{path}: {error.strerror}") from None
        if not isinstance(config, dict) or "cases" not in config:
            raise PackError(f"{path}: no list 'cases': not a config of `kvgold check`")
    groups = config.get("cases", [config])
    return [_asked(group, folder) for group in groups] if isinstance(groups, list) else [groups]


def _asked(group: Any, folder: str) -> Any:
    """A group, or an object that it includes, without its backend and with its models as seen from any folder."""
    if not isinstance(group, Mapping):
        return group  # `kvgold golden make` says what is wrong
    asked = {key: value for key, value in group.items() if key != "backend"}
    if "model" in asked:
        names = asked["model"]
        asked["model"] = [_model(n, folder) for n in names] if isinstance(names, list) else _model(names, folder)
    if isinstance(asked.get("include"), list):
        asked["include"] = [_asked(value, folder) for value in asked["include"]]
    return asked


def _model(name: Any, folder: str) -> Any:
    beside = os.path.join(folder, name if str(name).endswith(".json") else f"models/{name}.json")
    return beside if os.path.isfile(beside) else name


def reason_of(error: Exception) -> str:
    """An exception of an engine in one line: its type, the first line of its text, and the engine's line of code."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(HOME)]
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}{place}"


def what_is_asked(given: Mapping[str, Any], prompt: Prompt) -> dict[str, Any]:
    """An answer without the LSE that a case with "answers": "out" does not ask for."""
    asked = {answer.name for answer in prompt.answers}
    return {name: given[name] for name in given if name != "lse" or name in asked}


def _ask(engine: Engine, prompt: Prompt) -> Mapping[str, Any] | str | Exception:
    """The answer, fit for a file; or why there is none."""
    __tracebackhide__ = True
    wanted = {answer.name: answer for answer in prompt.answers}
    try:
        given = engine(prompt.problem, {name: tensor.array.copy() for name, tensor in prompt.tensors.items()})
        if isinstance(given, str):
            return given
        given = what_is_asked(given, prompt)
        unknown = [name for name in given if name not in wanted]
        if unknown or not given:
            return f"{unknown[0] if unknown else 'nothing'} is given; {', '.join(wanted)} are asked for"
        return {name: raw(value, wanted[name], name) for name, value in given.items()}
    except Exception as error:  # noqa: BLE001: whatever an engine throws, or gives
        return error


def _compare(pack: str, answer: str, folder: str, progress: Progress, *options: str) -> tuple[list[Verdict], str]:
    """The cases of a report, the first with its text, and the text of all."""
    __tracebackhide__ = True
    report = os.path.join(folder, "report.json")
    text = run_program("compare", pack, answer, "--json", report, *options, statuses=JUDGED, progress=progress)
    with open(report, encoding="utf-8") as file:
        cases = json.load(file)["cases"]
    alone = text if len(cases) == 1 else ""
    return [Verdict(case["id"], case["verdict"], case.get("reason", ""), case, alone) for case in cases], text
