"""Files of the user's are written whole or not at all, and stay theirs."""

import os
import stat
from pathlib import Path

import pytest

from rlctl.errors import Refused, Unreachable
from rlctl.system.files import replace_text

OTHER = 4_711


def test_mode_stays_and_links_are_followed(tmp_path: Path) -> None:
    place, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    place.write_bytes(b"before\r\n")
    place.chmod(0o640)
    link.symlink_to(place)
    replace_text(link, "before\r\n", "after\r\n")
    assert link.is_symlink()
    assert place.read_bytes() == b"after\r\n"
    assert stat.S_IMODE(place.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.yaml", "real.yaml"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_stays(tmp_path: Path) -> None:
    place = tmp_path / "t.yaml"
    place.write_text("before", encoding="utf-8")
    os.chown(place, OTHER, OTHER)
    replace_text(place, "before", "after")
    assert (place.stat().st_uid, place.stat().st_gid) == (OTHER, OTHER)


def test_what_somebody_else_changed_is_left(tmp_path: Path) -> None:
    place = tmp_path / "t.yaml"
    place.write_text("theirs", encoding="utf-8")
    with pytest.raises(Refused, match="changed meanwhile"):
        replace_text(place, "before", "after")
    assert place.read_text(encoding="utf-8") == "theirs"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_may_not_be_written_is_left(tmp_path: Path, what: str) -> None:
    place = tmp_path / "t.yaml"
    place.write_text("before", encoding="utf-8")
    locked = place if what == "file" else tmp_path
    locked.chmod(0o500)
    try:
        with pytest.raises(Unreachable, match="Permission denied"):
            replace_text(place, "before", "after")
    finally:
        locked.chmod(0o700)
    assert place.read_text(encoding="utf-8") == "before"


def test_a_name_with_no_room_for_a_second_one_is_told(tmp_path: Path) -> None:
    place = tmp_path / ("t" * 250)
    place.write_text("before", encoding="utf-8")
    with pytest.raises(Unreachable, match="cannot write"):
        replace_text(place, "before", "after")
    assert place.read_text(encoding="utf-8") == "before"
