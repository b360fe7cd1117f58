"""Resource limits of the shell that are too low: an error that names the limit, and an unchanged fleet."""

import subprocess

import pytest

from tests.local.driver import PATIENCE_S, LocalFleet, Ran


def limited(fleet: LocalFleet, limit: str, *words: str) -> Ran:
    """Run a command in a shell with this limit."""
    done = subprocess.run(
        ["sh", "-c", f'ulimit {limit}; exec "$@"', "sh", *fleet.argv(*words)],
        env=fleet.env(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


@pytest.mark.parametrize("limit", ["-v 60000", "-v 100000", "-v 200000", "-v 300000"])
def test_a_limit_that_is_too_low_is_no_bug(shared_cluster: LocalFleet, limit: str) -> None:
    """The limit that is too low depends on the interpreter and the C library; the error does not."""
    drifted = shared_cluster.connect("node-1")
    drifted.config_set("maxmemory", "50mb")
    for words in (("status",), ("deploy", "--yes"), ("history",)):
        for output in ("table", "json"):
            ran = limited(shared_cluster, limit, "-o", output, *words)
            assert ran.code in {0, 6, 11, 12}, ran
            assert "Traceback" not in ran.err
            assert not (shared_cluster.home / "bugs").exists(), ran
    shared_cluster.deploy()
    assert shared_cluster.status()["state"] == "healthy"
    drifted.close()


def test_the_error_names_the_limit(shared_cluster: LocalFleet) -> None:
    ran = limited(shared_cluster, "-v 60000", "status")
    assert (ran.code, ran.out) == (6, "")
    assert "`ulimit -v` is 60000" in ran.err
    assert "hint: " in ran.err
    error = limited(shared_cluster, "-v 60000", "status", "-o", "json").error()
    assert error["code"] == "resource-limit"
    assert "`ulimit -v` is 60000" in error["message"]
