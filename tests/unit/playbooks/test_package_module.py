"""Installing packages: their own units masked first, a second try after an update, and a record of what came."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.calling import Answer, Failed, load, run

PACKAGE = load("rlctl_package")
SERVER, TOOLS, LIBRARY = "redis-server", "redis-tools", "liblzf1"
UNIT = "redis-server.service"


@dataclass
class Host:
    """A dpkg, and an apt-get that fails so many times."""

    installed: set[str]
    failures: int = 0
    said: str = ""
    done: list[str] = field(default_factory=list)

    def __call__(self, argv: list[str]) -> Answer:
        match argv:
            case ["dpkg-query", *_, text] if text.startswith("${db"):
                lines = [*(f"installed {name}" for name in sorted(self.installed)), "config-files nginx", "odd"]
                return 0, "".join(f"{line}\n" for line in lines), ""
            case ["dpkg-query", *_, name]:
                return (0, "5:7.0.15-1~deb12u7", "") if name in self.installed else (1, "", "no such package")
            case ["apt-get", *words] if "install" in words:
                return self._install([word for word in words if word in {SERVER, TOOLS}])
            case _:
                self.done.append(" ".join([argv[0], *(["update"] if "update" in argv else argv[1:])]))
                return 0, "Err:1 updated\n" if "update" in argv else "", ""

    def _install(self, names: list[str]) -> Answer:
        self.done.append(f"install {' '.join(names)}")
        if self.failures:
            self.failures -= 1
            return 100, self.said, "E: cannot fetch\n"
        self.installed |= {*names, LIBRARY}
        return 0, "", ""


def install(
    monkeypatch: pytest.MonkeyPatch, record: Path, host: Host, *, check: bool = False, **more: Any
) -> dict[str, Any]:
    given = {"names": [SERVER, TOOLS], "masked": [UNIT], "record": str(record)} | more
    return run(PACKAGE, monkeypatch, host, check=check, **given)[0]


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / ".host" / "packages.json"


def recorded(record: Path) -> dict[str, Any] | None:
    return json.loads(record.read_text(encoding="utf-8")) if record.exists() else None


MASK, CONFIGURE, INSTALL = f"systemctl mask {UNIT}", "dpkg --configure -a", f"install {SERVER} {TOOLS}"


def test_a_server_comes_with_its_own_unit_masked(monkeypatch: pytest.MonkeyPatch, record: Path) -> None:
    host = Host({"bash"})
    result = install(monkeypatch, record, host)
    assert result == {"changed": True, "packages": [SERVER, TOOLS], "version": "7.0.15"}
    assert host.done == [MASK, CONFIGURE, INSTALL]
    assert recorded(record) == {"packages": [LIBRARY, SERVER, TOOLS], "masked": [UNIT]}


def test_a_server_that_is_there_keeps_its_units(monkeypatch: pytest.MonkeyPatch, record: Path) -> None:
    host = Host({SERVER})
    assert install(monkeypatch, record, host)["packages"] == [TOOLS]
    assert host.done == [CONFIGURE, f"install {TOOLS}"]
    assert recorded(record) == {"packages": [LIBRARY, TOOLS], "masked": []}


def test_what_is_there_is_not_installed_again(monkeypatch: pytest.MonkeyPatch, record: Path) -> None:
    host = Host({SERVER, TOOLS})
    assert install(monkeypatch, record, host) == {"changed": False, "packages": [], "version": "7.0.15"}
    assert (host.done, recorded(record)) == ([], None)


def test_check_mode_tells_what_would_come(monkeypatch: pytest.MonkeyPatch, record: Path) -> None:
    host = Host(set())
    found = {"changed": True, "packages": [SERVER, TOOLS], "version": ""}
    assert install(monkeypatch, record, host, check=True) == found
    assert (host.done, recorded(record)) == ([], None)


def test_no_names_have_no_version(monkeypatch: pytest.MonkeyPatch, record: Path) -> None:
    assert install(monkeypatch, record, Host({SERVER}), names=[])["version"] == ""


def test_a_second_try_comes_after_an_update(monkeypatch: pytest.MonkeyPatch, record: Path) -> None:
    host = Host(set(), failures=1)
    assert install(monkeypatch, record, host)["changed"] is True
    assert host.done == [MASK, CONFIGURE, INSTALL, "apt-get update", INSTALL]


@pytest.mark.parametrize(
    ("said", "says"),
    [
        pytest.param("reading lists\n", "Err:1 updated / E: cannot fetch. Check", id="its complaints"),
        pytest.param(
            "".join(f"E: {number}\n" for number in range(5)),
            "E: 2 / E: 3 / E: 4 / E: cannot fetch. Check",
            id="the last",
        ),
    ],
)
def test_a_failure_says_what_apt_complained_of(
    monkeypatch: pytest.MonkeyPatch, record: Path, said: str, says: str
) -> None:
    with pytest.raises(Failed, match=f"cannot install redis-server, redis-tools: {says}"):
        install(monkeypatch, record, Host(set(), failures=2, said=said))
    # A run that was ended in the middle: what came is known by its names at least.
    assert recorded(record) == {"packages": [SERVER, TOOLS], "masked": [UNIT]}


def test_where_nothing_is_a_complaint_the_end_is_told() -> None:
    assert PACKAGE._why([SERVER], "a\nb\nc\nd\ne").startswith("cannot install redis-server: b / c / d / e. Check")


def test_what_earlier_runs_brought_stays_in_the_record(monkeypatch: pytest.MonkeyPatch, record: Path) -> None:
    record.parent.mkdir()
    record.write_text(json.dumps({"packages": ["older"], "masked": ["older.service"]}), encoding="utf-8")
    install(monkeypatch, record, Host(set()))
    assert recorded(record) == {"packages": [LIBRARY, "older", SERVER, TOOLS], "masked": ["older.service", UNIT]}


@pytest.mark.parametrize("check", [True, False])
def test_packages_that_were_left_here_are_taken_over(
    monkeypatch: pytest.MonkeyPatch, record: Path, *, check: bool
) -> None:
    record.parent.mkdir()
    record.write_text(json.dumps({"packages": [SERVER], "masked": [], "kept": True}), encoding="utf-8")
    result = install(monkeypatch, record, Host({SERVER, TOOLS}), check=check)
    assert (result["changed"], result["packages"]) == (True, [])
    assert ("kept" in (recorded(record) or {})) is check


def test_a_record_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, record: Path) -> None:
    record.parent.touch()
    with pytest.raises(Failed, match=r"cannot write .*packages.json: File exists. Fix the cause"):
        install(monkeypatch, record, Host(set()))
