"""Files of the user's are written whole or not at all, and stay theirs."""

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from rlctl.cli import main
from rlctl.cli.capacity.options import read_lines
from rlctl.errors import InvalidFile, Refused, Unreachable
from rlctl.system import files
from rlctl.system.files import open_own, read_given, read_text, replace_text

OTHER = 4_711
PATIENCE_S = 60.0


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


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device_is_no_file(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    for read in (read_given, read_text, lambda path: read_lines(str(path))):
        with pytest.raises(InvalidFile, match="a device, neither a file nor a pipe"):
            read(Path(device))
    for words in (("-f", device, "status"), ("rules", "plan", device)):
        assert main.run(words) == 3
        assert f"{device}:1: this is a device" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [("-f", "%s", "status"), ("rules", "plan", "%s")], ids=lambda words: " ".join(words[:2])
)
def test_of_an_endless_pipe_no_more_is_read_than_is_wanted(
    tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    with endless(pipe):
        assert main.run([word.replace("%s", str(pipe)) for word in words]) == 3
    assert "the file is larger than 1 MiB" in capsys.readouterr().err


def test_a_text_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 2**20)
    pipe = tmp_path / "pipe"
    with endless(pipe), pytest.raises(InvalidFile, match="larger than 1 MiB"):
        read_text(pipe)


@contextmanager
def endless(pipe: Path) -> Iterator[None]:
    """A pipe that is written into for as long as it is read."""
    os.mkfifo(pipe)

    def write() -> None:
        with suppress(BrokenPipeError), pipe.open("wb") as stream:
            while True:
                stream.write(b"#" * 2**16)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    yield
    writer.join(timeout=PATIENCE_S)
    assert not writer.is_alive()


def test_a_file_of_rlctls_own_blocks_as_programs_expect_of_their_output(tmp_path: Path) -> None:
    handle = open_own(tmp_path / "ansible.log", os.O_WRONLY | os.O_CREAT)
    assert os.get_blocking(handle)
    os.close(handle)
