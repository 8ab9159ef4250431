"""What the adapters' command lines share: ask an implementation every question of a prompt, write what it answers."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any, Callable, Mapping

from ..ask import reason_of, what_is_asked
from ..container import PackError
from ..judge import save_answer
from ..pack import Prompt, load_prompt

# Answers by name without the key; or, as a string, why there is none.
Implementation = Callable[[Prompt], "Mapping[str, Any] | str"]


class Failed(Exception):
    """An exception of an implementation in another process, in words of reason_of."""


def answer_all(path: str, output: str, implement: Implementation, only: str | None = None) -> int:
    """Exit status: 0 something was answered, 1 the implementation gave a tensor that nobody asked for or of another
    shape, 2 the prompt cannot be read, 3 the answers cannot be written, 77 nothing was answered (no file is written).
    An exception of the implementation costs its case."""
    try:
        prompts = load_prompt(path)
    except PackError as error:
        print(f"{error}", file=sys.stderr)
        return 2
    if only is not None and not any(only in (prompt.key, prompt.id) for prompt in prompts):
        print(f"{path}: no stored case '{only}': `kvgold golden inspect` lists keys and ids", file=sys.stderr)
        return 2
    answers: dict[Prompt, Mapping[str, Any]] = {}
    reasons: Counter[str] = Counter()
    for prompt in prompts:
        if only is not None and only not in (prompt.key, prompt.id):
            continue
        try:
            given = implement(prompt)
        except Exception as error:  # noqa: BLE001: whatever an engine throws
            given = str(error) if isinstance(error, Failed) else reason_of(error)
            print(f"{prompt}: {given}", file=sys.stderr)
        if isinstance(given, str):
            reasons[given] += 1
        else:
            answers[prompt] = what_is_asked(given, prompt)
    for reason, count in sorted(reasons.items()):
        print(f"unanswered {count}: {reason}")
    print(f"answered {len(answers)} of {len(answers) + reasons.total()} cases")
    if not answers:
        return 77
    try:
        save_answer(output, answers)
    except (AssertionError, PackError) as error:
        print(f"{error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{output}: cannot write: {error.strerror}", file=sys.stderr)
        return 3
    return 0
