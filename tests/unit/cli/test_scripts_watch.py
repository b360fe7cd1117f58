"""Failures after which `rlctl scripts watch` goes on, and those that end it."""

from collections.abc import Iterator

import pytest

from rlctl.cli.main import run
from rlctl.errors import AccessDenied, Exit, NotFound, RlctlError, Unreachable

DENIED = AccessDenied("node-0 refuses the password", hint="")
GONE = NotFound("fleet limiter is not deployed", hint="")
SILENT = Unreachable("node-1 does not answer", hint="")


def watch(monkeypatch: pytest.MonkeyPatch, *checks: RlctlError | None) -> int:
    """Run `scripts watch` with these results of its checks; return the exit code."""
    results: Iterator[RlctlError | None] = iter(checks)

    def check(*_arguments: object) -> None:
        if failure := next(results):
            raise failure

    monkeypatch.setattr("rlctl.cli.scripts._load_missing", check)
    return run(["scripts", "watch", "--interval", "1ms"])


def test_wrong_secrets_end_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watch(monkeypatch, DENIED) == Exit.DENIED
    assert watch(monkeypatch, SILENT, DENIED) == Exit.DENIED


def test_a_node_that_refuses_them_later_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert watch(monkeypatch, None, DENIED, SILENT, DENIED, GONE) == Exit.NOT_FOUND
    assert capsys.readouterr().err.count("node-0 refuses the password; next check in 0.001 s\n") == 2
