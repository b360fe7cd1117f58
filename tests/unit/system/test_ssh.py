from pathlib import Path

import pytest

from rlctl.errors import HostRefused, RlctlError, Unreachable
from rlctl.system.ssh import Machine, Ssh, ssh_argv, ssh_failure

MACHINE = Machine(name="h1", address="10.0.0.11", port=2222, user="ops")
# What OpenSSH 9 says, its log level at ERROR.
CHANGED = """@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
Host key for 10.0.0.11 has changed and you have requested strict checking.
Host key verification failed."""


def test_nothing_of_the_users_is_overruled() -> None:
    argv = ssh_argv(MACHINE, Path("/run/x"), "true")
    options = {word.partition("=")[0] for word in argv if "=" in word}
    assert options == {
        *("BatchMode", "ConnectTimeout", "ControlMaster", "ControlPath", "ControlPersist", "LogLevel"),
    }
    assert argv[-6:] == ["2222", "-l", "ops", "--", "10.0.0.11", "true"]
    assert "-l" not in ssh_argv(Machine(name="h1", address="10.0.0.11", port=22), Path("/run/x"), "true")


def test_a_socket_has_a_short_path_of_its_own_for_each_way_to_a_machine() -> None:
    def socket(machine: Machine) -> str:
        return next(
            word for word in ssh_argv(machine, Path("/run/x"), "true") if word.startswith("ControlPath=")
        ).removeprefix("ControlPath=")

    assert len(socket(MACHINE)) < 24
    assert socket(MACHINE) != socket(Machine(name="h1", address="10.0.0.11", port=2222, user="root"))


def test_a_connection_of_its_own_uses_and_leaves_no_socket() -> None:
    argv = ssh_argv(MACHINE, Path("/run/x"), "true", shared=False)
    options = dict(word.split("=") for word in argv if "=" in word)
    assert (options["ControlMaster"], options["ControlPath"]) == ("no", "none")
    assert "ControlPersist" not in options
    assert argv[-6:] == ssh_argv(MACHINE, Path("/run/x"), "true")[-6:]


def test_a_connection_is_open_where_its_socket_is(tmp_path: Path) -> None:
    ssh = Ssh(tmp_path)
    assert not ssh.is_open(MACHINE)
    place = next(word for word in ssh_argv(MACHINE, tmp_path, "true") if word.startswith("ControlPath="))
    Path(place.removeprefix("ControlPath=")).touch()
    assert ssh.is_open(MACHINE)


@pytest.mark.parametrize(
    ("code", "said", "kind", "text"),
    [
        pytest.param(
            255, "ssh: connect to host 10.0.0.11 port 2222: No route to host", Unreachable, "No route", id="no route"
        ),
        pytest.param(255, "", Unreachable, "ssh printed nothing", id="silent"),
        pytest.param(255, CHANGED, HostRefused, "not the one that is known", id="changed key"),
        pytest.param(255, "Host key verification failed.", HostRefused, "is not known here", id="unknown key"),
        pytest.param(
            255, "ops@10.0.0.11: Permission denied (publickey).", HostRefused, "Permission denied", id="no log-in"
        ),
        pytest.param(
            255,
            "Unable to negotiate with 10.0.0.11 port 2222: no matching host key type found. Their offer: ssh-rsa",
            Unreachable,
            "no matching host key type",
            id="no common algorithm",
        ),
        pytest.param(97, "", HostRefused, "sudo refused", id="sudo"),
        pytest.param(96, "", Unreachable, "no python3", id="no python"),
        pytest.param(1, "Traceback\nKeyError: 'x'", Unreachable, "KeyError", id="a bug over there"),
    ],
)
def test_each_reason_has_its_name(code: int, said: str, kind: type[RlctlError], text: str) -> None:
    failure = ssh_failure(MACHINE, code, said)
    assert type(failure) is kind
    assert failure.message.startswith("host h1")
    assert text in failure.message
    assert failure.hint
