"""The program kvgold, where something needs it, and the files that come with it."""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Iterable

from .container import PackError

HOME = os.path.dirname(os.path.abspath(__file__))
# Where configs/ and golden/data/ lie: in an installed package, or in a checkout.
ROOTS = (os.path.join(HOME, "share", "kvgold"), os.path.dirname(os.path.dirname(os.path.dirname(HOME))))

LISTED = 20  # names that a message lists, at most
QUIET = 10.0  # seconds for which a run shows nothing: then its lines on stderr, which are its progress, go to ours


class Missing(RuntimeError):
    """The program is not there. One line."""


def show_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Progress:
    """While it is entered, a line on stderr, `what`, whenever none was shown for 20 s or KVGOLD_PROGRESS_SECONDS, as of
    the program. A callable that holds Python's lock all the time holds the line back."""

    def __init__(self, what: str):
        try:
            given = float(os.environ.get("KVGOLD_PROGRESS_SECONDS", ""))
        except ValueError:
            given = 0.0
        self.what, self._period = what, given if 0 < given <= threading.TIMEOUT_MAX else 20.0
        self._last, self._ended = time.monotonic(), threading.Event()
        self._writer = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Progress:
        self._writer.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._ended.set()
        self._writer.join()

    def show(self, line: str) -> None:
        self._last = time.monotonic()
        show_line(line)

    def _write(self) -> None:
        while not self._ended.wait(max(0.0, left := self._last + self._period - time.monotonic())):
            if left <= 0:
                self.show(self.what)


def find_program() -> str | None:
    """$KVGOLD, else the package's own program, else the one on the PATH."""
    own = os.path.join(HOME, "bin", "kvgold")
    return os.environ.get("KVGOLD") or (own if os.path.isfile(own) else shutil.which("kvgold"))


def shipped(path: str) -> str | None:
    """The file or folder that comes with the package: shipped("configs/schema.json")."""
    return next((found for root in ROOTS if os.path.exists(found := os.path.join(root, path))), None)


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the known one that is meant, if one is near."""
    found = difflib.get_close_matches(word, known, 1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def find_shipped(folder: str, name: str | os.PathLike[str], ending: str = "") -> str:
    """The file or folder that a user means by `name`, as for the program: itself if it exists or has a "/", else the
    shipped one of that name. find_shipped("golden/data/packs", "hnd"), find_shipped("configs", "ci_smoke", ".json").
    The error lists shipped ones, the nearest first."""
    path = os.fspath(name)
    if os.sep in path or os.path.exists(path):
        return path
    found = shipped(os.path.join(folder, path.removesuffix(ending) + ending)) if path else None
    if found is None:
        home = shipped(folder)
        entries = sorted(os.listdir(home)) if home else []
        known = [entry.removesuffix(ending) for entry in entries if entry.endswith(ending) and entry[0] != "."]
        listed = ", ".join(difflib.get_close_matches(path, known, LISTED, 0))
        raise PackError(f"{path}: no such file{nearest(path, known)}" + (f"; shipped: {listed}" if listed else ""))
    return found


def run_program(*arguments: str, statuses: tuple[int, ...] = (0,), progress: Progress | None = None) -> str:
    """Its output; raises Missing if there is no program, PackError if it ends with another exit status. What a run of
    more than QUIET seconds writes on stderr goes through to sys.stderr, line by line, by `progress` if there is one."""
    __tracebackhide__ = True
    program = find_program()
    environment = {"OMP_WAIT_POLICY": "passive", **os.environ}  # threads that spin starve each other on a busy machine
    if program is None:
        raise Missing(f"put the program kvgold on the PATH or its path into KVGOLD (for: kvgold {' '.join(arguments)})")
    show = progress.show if progress else show_line
    said, begin = "", time.monotonic()
    with tempfile.TemporaryFile("w+") as out:
        try:
            process = subprocess.Popen([program, *arguments], stdout=out, stderr=subprocess.PIPE, text=True,
                                       env=environment)
        except OSError as error:
            raise Missing(f"{program}: {error.strerror}") from None
        with process:
            try:
                for line in process.stderr or ():
                    said += line
                    if time.monotonic() - begin >= QUIET:
                        show(line.removesuffix("\n"))
            except BaseException:
                process.kill()
                raise
        out.seek(0)
        text = out.read()
    if process.returncode not in statuses:
        lines = (said or text).strip().splitlines()
        last = lines[-1] if lines else "no message"
        raise PackError(f"{program} {arguments[0]} exited with {process.returncode}: {last}")
    return text


def main() -> None:
    """The command `kvgold` of an installed package: becomes the package's program."""
    program = find_program()
    if program is None or os.path.realpath(program) == os.path.realpath(sys.argv[0]):
        sys.exit("kvgold: this package has no program: install a wheel for this system, or set KVGOLD")
    os.execv(program, [program, *sys.argv[1:]])
