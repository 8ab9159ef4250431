"""Modules of an engine without the engine: `import vllm.v1.attention.ops.x` where nothing else of vLLM can be imported.

An engine's package imports servers, models and compiled code before the one file that holds a kernel. `alone` lets its
modules be imported one by one: from a wheel that is installed, or unpacked into a folder of sys.path, its packages are
folders alone (no `__init__.py` of the engine runs), and what a module needs from the rest is a stub, which an adapter
gives by name. `stubbed` says which stubs were imported, so that a verdict can say what was not the engine's own."""

from __future__ import annotations

import importlib.abc
import importlib.metadata
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Mapping, Sequence


class Unavailable(ImportError):
    """An engine that cannot be asked here, and why: it is not there, or of another version."""


class _Stub(importlib.abc.Loader):
    def __init__(self, names: Mapping[str, Any]):
        self.names = names

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self.names)
        stubbed.append(module.__name__)


class _Engine(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, site: str, stubs: Mapping[str, Mapping[str, Any]]):
        self.name, self.site, self.stubs = name, site, stubs
        self.packages = {name, *(stub.partition(".")[0] for stub in stubs)}

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self.packages:
            return None
        place = os.path.join(self.site, *fullname.split("."))
        if fullname not in self.stubs and os.path.isfile(place + ".py"):
            return importlib.util.spec_from_file_location(fullname, place + ".py")
        if not os.path.isdir(place) and not any(f"{stub}.".startswith(fullname + ".") for stub in self.stubs):
            return None
        spec = ModuleSpec(fullname, _Stub(self.stubs[fullname]) if fullname in self.stubs else None)
        spec.submodule_search_locations = [place]  # stubs too: a module below one may be the engine's own
        return spec


stubbed: list[str] = []  # full names, in the order in which they were imported


def known_version(name: str, versions: Sequence[str]) -> str:
    """The version of an engine that is there, by its name on PyPI: one of those that an adapter knows, or any if
    KVGOLD_ANY_VERSION=1. Raises Unavailable."""
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise Unavailable(f"{name} is not there: install it, or unpack its wheel into a folder of PYTHONPATH") from None
    if found not in versions and not os.environ.get("KVGOLD_ANY_VERSION"):
        raise Unavailable(f"{name} {found} is there, and this adapter knows {' and '.join(versions)}")
    return found


def place_of(name: str) -> str:
    """The folder in which an engine's package lies, by its name on PyPI."""
    return str(importlib.metadata.distribution(name).locate_file(""))


def alone(name: str, versions: Sequence[str], stubs: Mapping[str, Mapping[str, Any]], package: str = "") -> str:
    """Makes modules of the engine importable alone, and returns its version. `stubs`: names of modules, of other
    packages too, and what each of them holds. `package`: what Python imports, if PyPI has another name for it. Raises
    Unavailable."""
    version, package = known_version(name, versions), package or name
    if not any(isinstance(finder, _Engine) and finder.name == package for finder in sys.meta_path):
        sys.meta_path.insert(0, _Engine(package, place_of(name), stubs))
    return version
