"""A failure for want of memory, threads or open files names the limit that it met."""

import errno
import os
import threading

import pytest

from rlctl.cli import main
from rlctl.cli.shortage import shortage

NO_THREAD = "can't start new thread"


@pytest.mark.parametrize(
    ("failure", "option"),
    [
        (MemoryError(), "-v"),
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "-v"),
        (ImportError("_ssl.so: failed to map segment from shared object"), "-v"),
        (RuntimeError(NO_THREAD), "-u"),
    ],
    ids=str,
)
def test_it_names_the_limit(failure: Exception, option: str) -> None:
    named = shortage(failure)
    assert named is not None
    assert f"`ulimit {option}` is " in named.message
    assert f"`ulimit {option}" in named.hint


@pytest.mark.parametrize(
    "failure", [RuntimeError("else"), OSError(errno.EPERM, "no"), ImportError("no module"), ValueError()], ids=repr
)
def test_another_failure_is_none(failure: Exception) -> None:
    assert shortage(failure) is None


def test_a_thread_that_does_not_start_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError(NO_THREAD)

    monkeypatch.setattr(main.root, "invoke", refuse)
    assert main.run(["history"]) == 6
    assert "rlctl: cannot start a thread; `ulimit -u` is " in capsys.readouterr().err
