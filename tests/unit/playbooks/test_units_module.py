"""Units of a host: what is enabled, read anew, loaded and restarted, and what is left as it is."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.playbooks.calling import Answer, Answers, Failed, load, run

UNITS = load("rlctl_units")
FIREWALL = {"unit": "rlctl-limiter-firewall.service", "table": "rlctl_limiter", "revision": "0a1b"}
WELL = {"UnitFileState": "enabled", "NeedDaemonReload": "no", "ActiveState": "active"}
CHANGES = {"daemon-reload", "enable", "reload-or-restart", "restart"}


def host(
    units: Mapping[str, Mapping[str, str]] | None = None, *, has_revision: bool = True, broken: str = ""
) -> Answers:
    """A systemd that knows these units as well but for what is told, and a firewall."""

    def answer(argv: list[str]) -> Answer:
        if argv[0].endswith("nft"):
            assert argv[1:] == ["list", "chain", "inet", "rlctl_limiter", "revision_0a1b"]
            return (0 if has_revision else 1), "", ""
        if argv[1] == "show":
            asked = [word for word in argv if word.endswith(".service")]
            known = [{"Id": unit} | WELL | dict((units or {}).get(unit, {})) for unit in asked]
            return 0, "\n\n".join("\n".join(f"{k}={v}" for k, v in one.items()) for one in known) + "\n", ""
        return (1, "out\n", "no such unit\n") if broken in argv else (0, "", "")

    return answer


def settle(monkeypatch: pytest.MonkeyPatch, answer: Answers, **params: Any) -> tuple[dict[str, Any], list[list[str]]]:
    result, called = run(UNITS, monkeypatch, answer, **params)
    return result, [argv[1:] for argv in called.ran if CHANGES & set(argv)]


A, B = "rlctl-limiter@node-0.service", "rlctl-limiter@node-1.service"


@pytest.mark.parametrize(
    ("answer", "params", "changes", "enabled"),
    [
        pytest.param(host(), {"enabled": [A, B], "firewall": FIREWALL, "running": [B]}, [], [], id="all well"),
        pytest.param(host(), {}, [], [], id="nothing asked"),
        pytest.param(
            host({B: {"UnitFileState": "disabled"}}),
            {"enabled": [A, B]},
            [["enable", "--quiet", B]],
            [B],
            id="one is not enabled",
        ),
        pytest.param(
            host({A: {"UnitFileState": ""}}), {"enabled": [A]}, [["enable", "--quiet", A]], [A], id="one is not known"
        ),
        pytest.param(
            host({B: {"NeedDaemonReload": "yes"}}),
            {"enabled": [A, B]},
            [["daemon-reload"]],
            [],
            id="a file that systemd has not read",
        ),
        pytest.param(host(), {"enabled": [A], "reload": True}, [["daemon-reload"]], [], id="a file of this run"),
        pytest.param(
            host(has_revision=False),
            {"firewall": FIREWALL},
            [["reload-or-restart", FIREWALL["unit"]]],
            [],
            id="another table is in force",
        ),
        pytest.param(
            host({FIREWALL["unit"]: {"UnitFileState": "disabled"}}),
            {"firewall": FIREWALL},
            [["enable", "--quiet", FIREWALL["unit"]]],
            [FIREWALL["unit"]],
            id="the firewall is not enabled",
        ),
        pytest.param(
            host({B: {"ActiveState": "failed"}}), {"running": [A, B]}, [["restart", B]], [], id="one does not run"
        ),
        pytest.param(
            host(), {"running": [A, B], "restarted": True}, [["restart", A, B]], [], id="all must read their files"
        ),
        pytest.param(host({A: {"ActiveState": "failed"}}), {"enabled": [A]}, [], [], id="a node is never started"),
    ],
)
def test_what_is_done_to_units(
    monkeypatch: pytest.MonkeyPatch,
    answer: Answers,
    params: dict[str, Any],
    changes: list[list[str]],
    enabled: list[str],
) -> None:
    expected = {"changed": bool(changes), "enabled": enabled}
    assert settle(monkeypatch, answer, **params) == (expected, changes)
    assert settle(monkeypatch, answer, check=True, **params) == (expected, [])


def test_all_at_once_come_in_this_order(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = host({A: {"UnitFileState": "disabled"}, B: {"ActiveState": "inactive"}}, has_revision=False)
    _, changes = settle(monkeypatch, answer, enabled=[A], reload=True, firewall=FIREWALL, running=[B])
    assert [argv[0] for argv in changes] == ["daemon-reload", "enable", "reload-or-restart", "restart"]


def test_a_change_that_fails_says_what_systemd_said(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = host({A: {"UnitFileState": "disabled"}}, broken="enable")
    with pytest.raises(Failed, match=f"`systemctl enable --quiet {A}` failed on the host: no such unit. Fix the cause"):
        settle(monkeypatch, answer, enabled=[A])


def test_without_nft_no_table_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.playbooks.calling.Called.get_bin_path", lambda *_words, **_more: None)
    _, changes = settle(monkeypatch, host(), firewall=FIREWALL)
    assert changes == [["reload-or-restart", FIREWALL["unit"]]]
