"""The lab's hosts behave like real Debian machines."""

import subprocess
from collections.abc import Callable

import pytest

from tests.lab.engine import things
from tests.lab.hosts import Lab, start_lab
from tests.lab.images import HOSTS
from tests.lab.shell import run, wait_for

SERVER = {"bookworm": "v=7.0.", "trixie": "v=8.0."}


@pytest.fixture(scope="module", params=sorted(HOSTS))
def lab(request: pytest.FixtureRequest, make_lab: Callable[..., Lab]) -> Lab:
    """One host of each release for these tests only."""
    return make_lab(request.param)


def as_root(lab: Lab, command: str) -> str:
    done = lab.ssh(lab.hosts[0], f"sudo {command}")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_systemd_runs_whole(lab: Lab) -> None:
    assert as_root(lab, "systemctl is-system-running") == "running"
    assert as_root(lab, "cat /proc/1/comm") == "systemd"


def test_the_user_of_ssh_becomes_root_by_sudo_only(lab: Lab) -> None:
    assert lab.ssh(lab.hosts[0], "id -un").stdout.strip() == "ops"
    assert as_root(lab, "id -un") == "root"


def test_a_strangers_key_is_refused(lab: Lab) -> None:
    """ssh checks the host key, also when another host answers at the address."""
    stranger = lab.folder / "known_hosts.stranger"
    kind = "ssh-ed25519"
    public = lab.key.with_suffix(".pub").read_text(encoding="ascii").split()[1]
    stranger.write_text(f"{lab.hosts[0].address} {kind} {public}\n", encoding="ascii")
    argv = ["ssh", "-o", f"UserKnownHostsFile={stranger}", "-F", str(lab.ssh_config), lab.hosts[0].address, "true"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 255
    assert "Host key verification failed" in done.stderr


def test_programs_find_the_hosts_through_path(lab: Lab) -> None:
    argv = ["ssh", lab.hosts[0].address, "hostname"]
    assert subprocess.run(argv, env=lab.env(), capture_output=True, text=True, check=True).stdout.strip() == "host-0"


def test_a_timer_fires(lab: Lab) -> None:
    as_root(lab, "systemd-run --on-active=1 --timer-property=AccuracySec=100ms touch /tmp/fired")
    wait_for(lambda: lab.ssh(lab.hosts[0], "test -e /tmp/fired").returncode == 0, "the timer fired")


def test_nft_makes_tables(lab: Lab) -> None:
    as_root(lab, "nft add table inet trial")
    assert "table inet trial" in as_root(lab, "nft list tables")
    as_root(lab, "nft delete table inet trial")


def test_a_masked_server_is_installed_without_a_network(lab: Lab) -> None:
    release = lab.hosts[0].release
    assert lab.ssh(lab.hosts[0], "command -v redis-server").returncode != 0
    as_root(lab, "systemctl mask redis-server")
    as_root(lab, "ip route replace blackhole default")
    as_root(lab, "apt-get -qq update")
    as_root(lab, "env DEBIAN_FRONTEND=noninteractive apt-get -qq -y install redis-server")
    assert SERVER[release] in as_root(lab, "redis-server --version")
    assert as_root(lab, "sh -c 'pgrep -c redis-server || true'") == "0"


def test_a_host_boots_again_with_the_keys_and_files_it_had(lab: Lab) -> None:
    as_root(lab, "touch /etc/kept")
    run("docker", "restart", lab.hosts[0].container)
    wait_for(lambda: lab.ssh(lab.hosts[0], "test -e /etc/kept").returncode == 0, "the host answers again")
    as_root(lab, "systemctl is-system-running --wait")


def test_hosts_vanish_even_when_their_block_fails() -> None:
    made: list[Lab] = []

    def fail() -> None:
        with start_lab(["bookworm"]) as lab:
            made.append(lab)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not any(made[0].network in thing for thing in things())
    assert not made[0].folder.exists()
