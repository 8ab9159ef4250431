"""The packs that must be refused (golden/bad/packs): kvgold.load refuses what a reader without kvgold can, in one line."""

import importlib.util
import os

import pytest

import kvgold

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SPEC = importlib.util.spec_from_file_location("make_bad_packs", f"{ROOT}/golden/bad/packs/make_bad_packs.py")
PACKS = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(PACKS)
EXPECT = [line.split("\t")[:2] for line in PACKS.expect().decode().splitlines() if line]


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    """A folder with all of them, and the good one that they come from."""
    folder = tmp_path_factory.mktemp("packs")
    for path, content in PACKS.files().items():
        place = folder / path
        place.parent.mkdir(exist_ok=True)
        if isinstance(content, str):
            place.symlink_to(content)
        else:
            place.write_bytes(content)
    return str(folder)


def test_there_are_all(bad):
    folders = {name for name in os.listdir(bad) if os.path.isdir(f"{bad}/{name}")} - {"good"}
    assert folders == {name for name, _ in EXPECT} and len(folders) > 150


def test_the_good_one_loads(bad):
    assert len(kvgold.load(f"{bad}/good")) > 0


@pytest.mark.parametrize("name", [name for name, by in EXPECT if by == "open"])
def test_refused(name, bad):
    with pytest.raises(kvgold.PackError) as raised:
        kvgold.load(f"{bad}/{name}")
    assert "\n" not in str(raised.value) and str(raised.value).startswith(f"{bad}/{name}: ")


@pytest.mark.parametrize("name", [name for name, by in EXPECT if by == "verify"])
def test_only_computing_again_can_tell(name, bad):
    kvgold.load(f"{bad}/{name}")
