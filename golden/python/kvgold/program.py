"""The program kvgold, where something needs it: $KVGOLD, else what is on the PATH."""

from __future__ import annotations

import os
import shutil
import subprocess

from .container import PackError


class Missing(RuntimeError):
    """The program is not there. One line."""


def find_program() -> str | None:
    return os.environ.get("KVGOLD") or shutil.which("kvgold")


def run_program(*arguments: str) -> str:
    """Its output; raises Missing if there is no program, PackError if it does not exit with 0."""
    program = find_program()
    if program is None:
        raise Missing(f"put the program kvgold on the PATH or its path into KVGOLD (for: kvgold {' '.join(arguments)})")
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise Missing(f"{program}: {error.strerror}") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        last = lines[-1] if lines else "no message"
        raise PackError(f"{program} {arguments[0]} exited with {done.returncode}: {last}")
    return done.stdout
