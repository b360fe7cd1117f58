from collections.abc import Callable

import pytest

from rlctl.errors import InvalidFile, NotFound
from rlctl.limits.release import Script
from rlctl.limits.shipped import FILE_NAME, shipped_release
from rlctl.scripts.release import load_release
from tests.unit.scripts.shipped import FOLDER, manifest_json, read_yaml

RELEASES = list(read_yaml().releases)


def test_the_json_says_what_the_manifest_says() -> None:
    """`.venv/bin/python -m tests.unit.scripts.shipped` writes it anew."""
    assert (FOLDER / FILE_NAME).read_text(encoding="ascii") == manifest_json(read_yaml())


@pytest.mark.parametrize("wanted", [None, *RELEASES])
def test_a_release_from_json_is_the_one_from_yaml(wanted: str | None) -> None:
    assert load_release(wanted=wanted) == load_release(FOLDER, wanted) == read_yaml().release(wanted)


def test_an_unknown_release_is_not_found() -> None:
    with pytest.raises(NotFound, match=r"manifest\.json: no release 9\.0\.0") as caught:
        load_release(wanted="9.0.0")
    assert caught.value.hint == f"the releases are {', '.join(RELEASES)}"


def edited(file: str) -> Callable[[str], bytes]:
    """Reads the shipped folder, with one more line in this file."""
    return lambda name: (FOLDER / name).read_bytes() + (b"\n" if name == file else b"")


@pytest.mark.parametrize("script", read_yaml().scripts, ids=lambda script: script.file)
def test_an_edited_script_is_refused(script: Script) -> None:
    with pytest.raises(InvalidFile) as caught:
        shipped_release("/lua", edited(script.file))
    assert str(caught.value).startswith(f"/lua/{script.file}:1: this script was edited: its sha1 is ")
    assert script.sha1 in str(caught.value)
    assert "--lua" in caught.value.hint
