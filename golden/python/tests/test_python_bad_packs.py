"""The packs that must be refused, golden/bad/packs: kvgold.load refuses what a reader without kvgold can, in one line."""

import os

import pytest

import kvgold

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BAD = os.path.join(ROOT, "golden", "bad", "packs")

with open(f"{BAD}/expect_packs.txt", encoding="utf-8") as lines:
    EXPECT = [line.split("\t")[:2] for line in lines.read().splitlines() if line]


def test_there_are_all():
    folders = {name for name in os.listdir(BAD) if os.path.isdir(f"{BAD}/{name}")} - {"good", "__pycache__"}
    assert folders == {name for name, _ in EXPECT} and len(folders) > 150


def test_the_good_one_loads():
    assert len(kvgold.load(f"{BAD}/good")) > 0


@pytest.mark.parametrize("name", [name for name, by in EXPECT if by == "open"])
def test_refused(name):
    with pytest.raises(kvgold.PackError) as raised:
        kvgold.load(f"{BAD}/{name}")
    assert "\n" not in str(raised.value) and str(raised.value).startswith(f"{BAD}/{name}: ")


@pytest.mark.parametrize("name", [name for name, by in EXPECT if by == "verify"])
def test_only_computing_again_can_tell(name):
    kvgold.load(f"{BAD}/{name}")
