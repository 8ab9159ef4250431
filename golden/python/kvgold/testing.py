"""pytest over a pack: one test per case.

    import kvgold, pytest

    @pytest.mark.parametrize("case", kvgold.pytest_cases("hnd", op="append", format="nvfp4", dialect="canonical"))
    def test_append(case):
        kvgold.assert_matches(case, my_append(case.inputs))

golden/python/examples/test_torch_engine.py is a whole one."""

from __future__ import annotations

import os
from typing import Any

from .pack import PACKS, Pack, load
from .program import find_shipped

_loaded: dict[str, Pack] = {}


def pytest_cases(pack: Pack | str | os.PathLike[str], **axes: Any) -> list[Any]:
    """A pytest.param for each case that has these values (Pack.select), named by its id. None is an error: a test
    without cases would pass unseen. A pack given by its path is checked once and stays loaded."""
    import pytest

    if not isinstance(pack, Pack):
        path = os.path.abspath(find_shipped(PACKS, pack))
        pack = _loaded[path] if path in _loaded else _loaded.setdefault(path, load(path))
    return [pytest.param(case, id=case.id) for case in pack.select(**axes)]
