"""The pytest plug-in of an installed kvgold: cases of packs as a parameter.

    # names or paths of packs, and axes
    @pytest.mark.kvgold("hnd", "trtllm", op="append", format=("nvfp4", "e4m3"), dialect="canonical")
    def test_append(kvgold_case):
        kvgold.assert_matches(kvgold_case, my_append(kvgold_case.inputs))

Without a name all shipped packs are meant. A marker that matches no case of a named pack is an error."""

from __future__ import annotations

import os

import pytest

from . import testing  # a name that begins with pytest_ would be taken for a hook
from .container import PackError
from .pack import PACKS
from .program import shipped

FIXTURE = "kvgold_case"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"kvgold(pack, ..., axis=value): runs the test for every such case, as {FIXTURE}")


def shipped_packs() -> list[str]:
    return sorted(entry.path for entry in os.scandir(shipped(PACKS) or PACKS) if entry.is_dir())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if FIXTURE not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("kvgold")
    if marker is None:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: {FIXTURE} needs @pytest.mark.kvgold(pack, ..., axis=value)")
    cases, last = [], None
    for pack in marker.args or shipped_packs():
        try:
            cases += testing.pytest_cases(pack, **marker.kwargs)
        except ValueError as error:
            if marker.args or isinstance(error, PackError):
                raise pytest.UsageError(f"{metafunc.definition.nodeid}: {error}") from None
            last = error
    if not cases:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: {last}")
    metafunc.parametrize(FIXTURE, cases)
