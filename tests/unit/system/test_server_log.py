"""What a server's log says of one start."""

import pytest

from rlctl.system.server_log import ConfigError, config_error, is_ready, last_error, without_stamps

STAMP = "31:M 19 Nov 2026 23:51:29.923"
STARTING = f"{STAMP} # oO0OoO0OoO0Oo Redis is starting oO0OoO0OoO0Oo\n"
ADVICE = f"{STAMP} # WARNING Memory overcommit must be enabled! Without it, a background save may fail\n"


def refused(line: str, reason: str, *, header: str = "Redis 7.0.15") -> str:
    block = (
        f"*** FATAL CONFIG FILE ERROR ({header}) ***",
        "Reading the configuration file, at line 3",
        f">>> '{line}'",
    )
    return "\n".join(("", *block, reason, ""))


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("* The server is now ready to accept connections at trial.sock", id="redis 7.0"),
        pytest.param("* Ready to accept connections unix", id="redis 7.2"),
    ],
)
def test_ready(said: str) -> None:
    assert is_ready(f"{STARTING}{STAMP} {said}\n")
    assert not is_ready(STARTING)


@pytest.mark.parametrize(
    ("log", "error"),
    [
        pytest.param("", None, id="silence"),
        pytest.param(f"{STARTING}{STAMP} # Fatal: Can't initialize IO thread\n", None, id="another reason"),
        pytest.param(refused("hz x", "no number"), ConfigError(directive="hz", reason="no number"), id="redis"),
        pytest.param(
            refused("HZ 'x'", "no number", header="Version 8.1.1"),
            ConfigError(directive="hz", reason="no number"),
            id="valkey",
        ),
        pytest.param(refused("hz x", ""), ConfigError(directive="hz", reason="no reason given"), id="cut off"),
        pytest.param(
            refused("hz x", "no number") + STARTING + refused("tcp-backlog x", "neither"),
            ConfigError(directive="tcp-backlog", reason="neither"),
            id="the last of two",
        ),
        pytest.param(
            "*** FATAL CONFIG FILE ERROR (Redis 8) ***\nreplicaof in a cluster\n", None, id="no line is named"
        ),
    ],
)
def test_the_refused_line(log: str, error: ConfigError | None) -> None:
    assert config_error(log) == error


HEAD = "*** FATAL CONFIG FILE ERROR (Redis 7.0.15) *** / Reading the configuration file, at line 3"


@pytest.mark.parametrize(
    ("log", "told"),
    [
        pytest.param("", "", id="silence"),
        pytest.param(refused("hz x", "no number"), f"{HEAD} / >>> 'hz x' / no number", id="whole"),
        pytest.param(
            refused("masterauth p4ss and", "too many"),
            f"{HEAD} / >>> 'masterauth (value not shown)' / too many",
            id="a password is not shown",
        ),
        pytest.param(
            refused("sentinel auth-pass limiter p4ss x", "too many"),
            f"{HEAD} / >>> 'sentinel (value not shown)' / too many",
            id="nor a sentinel's",
        ),
        pytest.param(
            f"{STARTING}{ADVICE}{STAMP} # Bad file format reading the append only file\n",
            f"{STAMP} # Bad file format reading the append only file",
            id="advice is no reason",
        ),
        pytest.param(
            f"{STAMP} # Out Of Memory allocating 9 bytes!\n\n=== REDIS BUG REPORT START: Cut\n{STAMP} # error in EIP\n",
            f"{STAMP} # Out Of Memory allocating 9 bytes!",
            id="a crash report explains nothing",
        ),
        pytest.param("one\ntwo\nthree\nfour\n", "two / three / four", id="no complaint"),
    ],
)
def test_the_last_error(log: str, told: str) -> None:
    assert last_error(log) == told


def test_stamps_are_left_out() -> None:
    assert without_stamps(f"{STAMP} # Bad file / {STAMP} * two / three") == "Bad file / two / three"
