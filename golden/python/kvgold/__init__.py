"""kvgold: golden packs for quantised KV caches, in numpy.

    load, load_prompt        a pack, checked whole; its questions alone
    Pack, Case, Prompt       what they give
    unpack_nibbles, typed, floats
    pages                    the pages of a cache as strided views
    assert_matches           is this tensor right?
    save_answer              a file for `kvgold compare`
    explain                  where an answer is wrong, and why
    check                    a callable asked about a config
    predict, which           what a kernel gives for q, k and v, bit for bit; whose bits an answer has
    invariance, Batch        in whose company the rows of an attention change their bits
    rollout                  how far a model's rollout is from one forward pass, and in which layer they part
    pytest_cases             a pack's cases as pytest parameters
    pool.check               a block manager, asked as an engine would ask it (import kvgold.pool)
    torch, transformers      operators of torch, and a model's cache (import kvgold.torch, kvgold.transformers)
    library                  the C library by ctypes (import kvgold.library)

docs/spec/golden-pack.md is the format, docs/guide/adapters.md the manual. The package needs numpy alone; adapters need what their
names say."""

from .ask import Report, Verdict, check, explain
from .company import Batch
from .container import PackError
from .invariant import invariance
from .judge import assert_matches, save_answer
from .pack import Answer, Case, ErratumWarning, Pack, Prompt, Unjudged, floats, load, load_prompt, typed, unpack_nibbles
from .pages import pages
from .predict import Kernel, predict, which
from .rollout import rollout
from .testing import pytest_cases

__all__ = ["Answer", "Batch", "Case", "ErratumWarning", "Kernel", "Pack", "PackError", "Prompt", "Report", "Unjudged",
           "Verdict", "assert_matches", "check", "explain", "floats", "invariance", "load", "load_prompt", "pages", "predict", "pytest_cases",
           "rollout", "save_answer", "typed", "unpack_nibbles", "which"]


def _version() -> str:
    """Of the installed package; of a checkout's CMakeLists.txt, which is the one place of the number; else "unknown"."""
    import importlib.metadata
    import os
    import re

    from .program import ROOTS

    if not os.path.isdir(ROOTS[0]) and os.path.isfile(path := os.path.join(ROOTS[1], "CMakeLists.txt")):
        with open(path, encoding="utf-8") as file:
            found = re.search(r"project\(kvgold VERSION ([0-9.]+)", file.read())
        return found.group(1) if found else "unknown"
    try:
        return importlib.metadata.version("kvgold")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


__version__ = _version()
