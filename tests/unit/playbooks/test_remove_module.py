"""Removing nodes: whose files go, what the last node takes along, and what stays with a node that does not end."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.playbooks.calling import Answer, Called, Failed, load, run

REMOVE = load("rlctl_remove")
UNIT_FILES = ("rlctl-limiter@.service", "rlctl-limiter-sentinel@.service", "rlctl-limiter-firewall.service")


@dataclass
class Host:
    """A host with folders of fleets and a systemd; `slow` are nodes that still run for so many looks."""

    root: Path
    slow: dict[str, int] = field(default_factory=dict)
    loaded: tuple[str, ...] = ()
    now_s: float = 0.0

    def place(self, fleet: str, *nodes: str) -> None:
        for base in ("etc", "var"):
            for node in nodes:
                (self.root / base / fleet / node).mkdir(parents=True)
                (self.root / base / fleet / node / "file").touch()

    def token(self, node: str) -> Path:
        path = self.root / "run/limiter" / f"{node}.go"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    def there(self) -> list[str]:
        """Folders of nodes, as base/fleet/node."""
        return sorted(
            path.relative_to(self.root).as_posix() for base in ("etc", "var") for path in (self.root / base).glob("*/*")
        )

    def __call__(self, argv: list[str]) -> Answer:
        if argv[1] == "list-units":
            assert argv[-2:] == ["rlctl-limiter@*", "rlctl-limiter-sentinel@*"]
            return 0, "".join(f"{unit} loaded active running\n" for unit in self.loaded), ""
        if argv[1] == "show":
            return 0, "".join(f"{self._state(unit)}\n" for unit in argv if unit.endswith(".service")), ""
        return 0, "", ""

    def _state(self, unit: str) -> str:
        node = unit.partition("@")[2].removesuffix(".service")
        self.slow[node] = self.slow.get(node, 0) - 1
        return "deactivating" if self.slow[node] >= 0 else "failed" if node.endswith("1") else "inactive"

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host(root=tmp_path)
    for name, base in {"CONFIG": "etc", "STATE": "var", "RUN": "run", "UNITS": "units"}.items():
        monkeypatch.setattr(REMOVE, name, tmp_path / base)
        (tmp_path / base).mkdir()
    for name in (*UNIT_FILES, "rlctl-orders@.service"):
        (tmp_path / "units" / name).touch()
    monkeypatch.setattr(REMOVE, "time", SimpleNamespace(monotonic=lambda: made.now_s, sleep=made.sleep))
    made.place("limiter", "node-0", "node-1", "sentinel-0")
    return made


def remove(
    monkeypatch: pytest.MonkeyPatch, host: Host, nodes: Iterable[str] | None = None, *, check: bool = False
) -> tuple[dict[str, Any], Called]:
    named = {} if nodes is None else {"nodes": list(nodes)}
    return run(REMOVE, monkeypatch, host, check=check, fleet="limiter", **named)


def units(host: Host) -> list[str]:
    return sorted(path.name for path in (host.root / "units").iterdir())


def test_one_node_goes_and_the_fleet_stays(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    token = host.token("node-1")
    result, called = remove(monkeypatch, host, ["node-1", "node-7"])
    assert result == {
        "changed": True,
        "nodes": {"node-1": {"status": "changed", "message": ""}},
        "fleets_left": ["limiter"],
    }
    assert host.there() == [f"{base}/limiter/{node}" for base in ("etc", "var") for node in ("node-0", "sentinel-0")]
    assert not token.exists()
    assert called.said("stop") == [["systemctl", "stop", "--no-block", "rlctl-limiter@node-1.service"]]
    assert len(units(host)) == 4


def test_the_last_nodes_take_the_fleet_along(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    host.token("node-9")
    result, called = remove(monkeypatch, host)
    assert set(result["nodes"]) == {"node-0", "node-1", "sentinel-0"}
    assert result["fleets_left"] == []
    assert host.there() == []
    assert not any((host.root / base / "limiter").exists() for base in ("etc", "var", "run"))
    assert units(host) == ["rlctl-orders@.service"]
    disabled = [argv[-1] for argv in called.said("disable")]
    assert disabled == ["rlctl-limiter-sentinel@sentinel-0.service", "rlctl-limiter-firewall.service"]
    assert called.ran[-1] == ["systemctl", "daemon-reload"]


def test_a_neighbour_keeps_all_that_is_its_own(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    host.place("orders", "node-0")
    (host.root / "etc/.host").mkdir()
    assert remove(monkeypatch, host)[0]["fleets_left"] == ["orders"]
    assert host.there() == ["etc/orders/node-0", "var/orders/node-0"]


def test_check_mode_tells_and_touches_nothing(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    before = host.there()
    result, called = remove(monkeypatch, host, check=True)
    assert (result["changed"], set(result["nodes"]), result["fleets_left"]) == (
        True,
        {"node-0", "node-1", "sentinel-0"},
        [],
    )
    assert host.there() == before
    assert not called.said("stop")


def test_a_fleet_that_is_not_there_changes_nothing(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    remove(monkeypatch, host)
    for check in (True, False):
        result, called = remove(monkeypatch, host, check=check)
        assert result == {"changed": False, "nodes": {}, "fleets_left": []}
        assert [argv[1] for argv in called.ran] == ["list-units"]


def test_what_an_interrupted_run_left_of_a_fleet_goes(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    for node in ("node-0", "node-1", "sentinel-0"):
        for base in ("etc", "var"):
            (host.root / base / "limiter" / node / "file").unlink()
            (host.root / base / "limiter" / node).rmdir()
    assert remove(monkeypatch, host, check=True)[0]["changed"] is True
    assert remove(monkeypatch, host)[0] == {"changed": True, "nodes": {}, "fleets_left": []}
    assert units(host) == ["rlctl-orders@.service"]


def test_a_node_without_files_is_found_by_its_unit(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    host.loaded = ("rlctl-limiter@node-5.service",)
    assert "node-5" in remove(monkeypatch, host)[0]["nodes"]


def test_files_go_only_after_their_server_has_ended(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    host.slow = {"node-0": 30}
    remove(monkeypatch, host, ["node-0"])
    assert host.now_s == pytest.approx(3.0)
    assert "etc/limiter/node-0" not in host.there()


def test_a_node_that_does_not_end_keeps_its_files_and_the_fleets(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    host.slow = {"node-0": 10**6}
    with pytest.raises(Failed, match=r"^rlctl-limiter@node-0\.service did not stop; its files were kept$"):
        remove(monkeypatch, host)
    assert host.now_s == pytest.approx(150, abs=0.2)
    assert host.there() == ["etc/limiter/node-0", "var/limiter/node-0"]
    assert len(units(host)) == 4


def test_what_cannot_be_removed_is_named(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    def refuse(path: Path) -> None:
        raise OSError(30, "Read-only file system", str(path))

    monkeypatch.setattr(REMOVE.shutil, "rmtree", refuse)
    with pytest.raises(Failed, match=r"cannot remove .*/etc/limiter/node-0: Read-only file system. Fix the cause"):
        remove(monkeypatch, host)
