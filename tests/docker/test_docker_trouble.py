"""rlctl names a problem before it changes anything; once the problem is fixed, the same command succeeds."""

import os
import socket
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rlctl.system.docker import DockerEngine
from rlctl.system.process import ProcessRunner
from tests.conftest import skip_or_fail
from tests.docker.driver import DockerFleet, document
from tests.lab.shell import LabError, run
from tests.local.servers import script

MakeFleet = Callable[[dict[str, Any]], DockerFleet]
USER = 51_234
TAKEN = "172.31.250.0/24"
# An image of a registry on this machine that does not exist.
NOWHERE = "127.0.0.1:9/nobody/redis:8.0"


@pytest.fixture
def fleet(make_fleet: MakeFleet, image: str) -> DockerFleet:
    """A cluster's topology, not deployed yet."""
    return make_fleet(document("cluster", image))


@pytest.fixture
def taken_network() -> Iterator[str]:
    """A network that rlctl did not create."""
    name = f"test-taken-{os.getpid()}"
    run("docker", "network", "create", "--subnet", TAKEN, name)
    yield name
    run("docker", "network", "rm", name)


def assert_untouched(fleet: DockerFleet) -> None:
    assert not fleet.root.exists()
    assert (fleet.containers(), fleet.networks()) == ({}, [])


def refusal(fleet: DockerFleet, expect: int, **env: str) -> str:
    """The message and the hint of a deploy that fails."""
    error = fleet.run("deploy", "--yes", "-o", "json", expect=expect, **env).error()
    assert error["hint"]
    return error["message"]


@pytest.mark.parametrize(
    ("host", "code", "message"),
    [
        pytest.param("unix:///nonexistent/docker.sock", 6, "no Docker engine answers at /nonexistent", id="none"),
        pytest.param("tcp://127.0.0.1:9", 8, "not reached through a socket of this machine", id="remote"),
        pytest.param("ssh://somewhere", 8, "not reached through a socket of this machine", id="by ssh"),
    ],
)
def test_no_engine_of_this_machine(fleet: DockerFleet, host: str, code: int, message: str) -> None:
    assert message in refusal(fleet, code, DOCKER_HOST=host)
    assert_untouched(fleet)
    for command in (("status",), ("doctor",), ("destroy", "--confirm", fleet.name)):
        assert message in fleet.run(*command, "-o", "json", expect=code, DOCKER_HOST=host).error()["message"]


def test_an_engine_that_went_away(shared: DockerFleet) -> None:
    """Without an engine, commands that need none still work, and no state is lost."""
    gone = {"DOCKER_HOST": "unix:///nonexistent/docker.sock"}
    shared.run("destroy", "--confirm", shared.name, expect=6, **gone)
    shared.run("history", **gone)
    assert shared.access() == shared.run("env", "--as", "admin", "-o", "json", **gone).json()
    assert shared.status()["state"] == "healthy"


def test_an_operator_who_is_not_root(fleet: DockerFleet) -> None:
    """Containers run as the operator. Without access to the engine's socket, the operator gets a clear error."""
    if os.geteuid() != 0:
        skip_or_fail("docker", "to become another user needs root")
    os.chown(fleet.folder, USER, USER)
    socket_group = Path("/var/run/docker.sock").stat().st_gid
    with pytest.raises(LabError, match="this user may not use the Docker socket"):
        run(*as_user(fleet, USER, "deploy", "--yes"))
    run(*as_user(fleet, socket_group, "deploy", "--yes"))
    assert {one["Config"]["User"] for one in fleet.containers().values()} == {f"{USER}:{USER}"}
    assert {path.stat().st_uid for path in fleet.root.rglob("*")} == {USER}
    run(*as_user(fleet, socket_group, "destroy", "--confirm", fleet.name))


def as_user(fleet: DockerFleet, group: int, *words: str) -> list[str]:
    """Run a command as an unprivileged user that can read this checkout and nothing else."""
    who = ("--reuid", str(USER), "--regid", str(USER), "--groups", str(group))
    may_read = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
    home = (f"--chdir={fleet.folder}", f"HOME={fleet.folder}", f"RLCTL_HOME={fleet.home}", "PYTHONDONTWRITEBYTECODE=1")
    return ["setpriv", *who, *may_read, "env", *home, sys.executable, "-m", "rlctl", *words]


def test_an_old_compose(fleet: DockerFleet, tmp_path: Path) -> None:
    plugins = tmp_path / "docker" / "cli-plugins"
    plugins.mkdir(parents=True)
    told = '{"SchemaVersion": "0.1.0", "Vendor": "test", "Version": "2.2.3"}'
    script(plugins / "docker-compose", f"[ $1 = docker-cli-plugin-metadata ] && echo '{told}' || echo 2.2.3")
    message = refusal(fleet, 6, DOCKER_CONFIG=str(plugins.parent))
    assert message == "`docker compose` is version 2.2.3; rlctl needs 2.3 or newer"
    assert_untouched(fleet)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("echo \"docker: 'compose' is not a docker command.\" >&2; exit 1", "is missing", id="no plugin"),
        pytest.param(None, "cannot run docker", id="no docker command"),
    ],
)
def test_no_compose(fleet: DockerFleet, tmp_path: Path, text: str | None, message: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    if text is not None:
        script(programs / "docker", text)
    assert message in refusal(fleet, 6, PATH=f"{programs}")
    assert_untouched(fleet)


def test_a_taken_subnet(fleet: DockerFleet, image: str, taken_network: str) -> None:
    fleet.document["docker"] = {"image": image, "subnet": "172.31.240.0/20"}
    fleet.write()
    message = f"docker.subnet 172.31.240.0/20 is taken: Docker network {taken_network} has {TAKEN}"
    assert refusal(fleet, 6) == message
    assert_untouched(fleet)
    fleet.document["docker"]["subnet"] = "auto"
    fleet.write()
    fleet.deploy()
    fleet.document["docker"]["subnet"] = TAKEN
    fleet.write()
    assert "is deployed with node-0 at" in fleet.run("deploy", "--yes", expect=8).err


def test_a_taken_port(fleet: DockerFleet) -> None:
    with socket.create_server(("127.0.0.1", fleet.base_port + 3)):
        assert f"node-3: another process holds port {fleet.base_port + 3}" in refusal(fleet, 8)
        assert_untouched(fleet)
    fleet.deploy()
    run("docker", "stop", fleet.container("node-3"))
    with socket.create_server(("127.0.0.1", fleet.base_port + 3)):
        assert f"127.0.0.1:{fleet.base_port + 3}" in refusal(fleet, 13)
    fleet.deploy()


def test_an_image_that_cannot_be_had(fleet: DockerFleet, image: str) -> None:
    fleet.document["docker"] = {"image": NOWHERE}
    fleet.write()
    assert "`rlctl deploy` pulls it" in fleet.run("doctor", "-v", expect=None).out
    assert f"`docker pull {NOWHERE}` failed" in refusal(fleet, 13)
    assert fleet.containers() == {}
    fleet.document["docker"] = {"image": image}
    fleet.write()
    fleet.deploy()


@pytest.mark.parametrize(
    ("holds", "flavor"), [("rlctl-lab/valkey:8.1", "redis"), ("rlctl-lab/redis:8.0", "valkey")], ids=["redis", "valkey"]
)
def test_an_image_without_the_server(fleet: DockerFleet, holds: str, flavor: str) -> None:
    # An image name that does not show the server or its version.
    unnamed = f"test-unnamed/server:{os.getpid()}"
    run("docker", "tag", holds, unnamed)
    try:
        fleet.document |= {"docker": {"image": unnamed}, "engine": {"flavor": flavor}}
        fleet.write()
        assert f"image {unnamed} does not run {flavor}-server" in refusal(fleet, 6)
        assert_untouched(fleet)
    finally:
        run("docker", "image", "rm", unnamed)


def test_directives_that_the_image_refuses(fleet: DockerFleet) -> None:
    fleet.document["redis"] = {"hz": "fast", "no-such-thing": "1", "maxclients": "2000"}
    fleet.write()
    message = refusal(fleet, 3)
    assert fleet.run("deploy", "--dry-run", "-o", "json", expect=3).error()["message"] == message
    said = message.splitlines()
    assert [line.partition("redis.")[2].partition(":")[0] for line in said] == ["hz", "no-such-thing"]
    assert f"image {fleet.document['docker']['image']} (" in said[0]
    assert "argument couldn't be parsed into an integer" in said[0]
    # Redis 8 treats an unknown directive as one of a module, starts, and exits because no module defines it.
    assert "Bad directive or wrong number of arguments" in said[1] or "Module Configuration detected" in said[1]
    assert_untouched(fleet)
    fleet.document["redis"] = {"maxclients": "2000"}
    fleet.write()
    fleet.deploy()
    assert (fleet.home / "accepted.json").exists()


def test_a_containers_last_start_is_read_without_earlier_ones(image: str) -> None:
    name = f"test-starts-{os.getpid()}"
    run(
        "docker",
        "create",
        "--name",
        name,
        "--entrypoint",
        "sh",
        image,
        "-c",
        "read -r up rest </proc/uptime; echo at $up",
    )
    try:
        for _ in range(3):
            since = datetime.now(UTC)
            run("docker", "start", "--attach", name)
        whole = run("docker", "logs", name).splitlines()
        assert len(whole) == 3
        assert DockerEngine(ProcessRunner()).log_since(name, since).split("\n")[:2] == [whole[-1], ""]
    finally:
        run("docker", "rm", "--force", "--volumes", name)


def test_a_fleet_of_this_name_from_elsewhere(fleet: DockerFleet, make_fleet: MakeFleet) -> None:
    fleet.deploy()
    other = make_fleet(fleet.document)
    assert "this machine has no secrets for it" in refusal(other, 4)
    fleet.kill("node-0")
    run("docker", "stop", *(one["Id"] for one in fleet.containers().values()))
    assert "were made from another RLCTL_HOME" in refusal(other, 8)
    other.run("destroy", "--confirm", other.name)
    assert len(fleet.containers()) == 6
    fleet.deploy()


def test_a_full_disk(fleet: DockerFleet) -> None:
    if os.geteuid() != 0:
        skip_or_fail("docker", "a small file system needs root")
    fleet.home.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=60k,mode=700", "none", fleet.home)
    try:
        assert "No space left on device" in refusal(fleet, 13)
        run("mount", "-o", "remount,size=500m", fleet.home)
        fleet.deploy()
        assert fleet.status()["state"] == "healthy"
        fleet.run("destroy", "--confirm", fleet.name)
    finally:
        fleet.end_all()
        run("umount", fleet.home)
