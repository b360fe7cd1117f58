"""The lab's server images behave like the official ones."""

import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import images
from tests.lab.shell import LabError, run, wait_for

TABLE = [
    pytest.param("rlctl-lab/redis:7.0", "redis", "7.0.", id="redis 7.0"),
    pytest.param("rlctl-lab/redis:8.0", "redis", "8.0.", id="redis 8.0"),
    pytest.param("rlctl-lab/valkey:8.1", "valkey", "8.1.", id="valkey 8.1"),
]


@pytest.fixture
def name() -> Iterator[str]:
    """The name of a running container, which is removed with its anonymous volume."""
    made = f"rlctl-lab-image-{secrets.token_hex(4)}"
    yield made
    run("docker", "rm", "--force", "--volumes", made)


def ping(name: str, flavor: str) -> str:
    try:
        return run("docker", "exec", name, f"{flavor}-cli", "ping").strip()
    except LabError as failure:
        return str(failure)


@pytest.mark.parametrize(("image", "flavor", "version"), TABLE)
def test_a_server_answers_and_has_dropped_root(name: str, image: str, flavor: str, version: str) -> None:
    run("docker", "run", "--detach", "--name", name, image, "--maxmemory", "32mb")
    wait_for(lambda: ping(name, flavor) == "PONG", f"{image} answers")
    info = run("docker", "exec", name, f"{flavor}-cli", "info", "server")
    assert f"{flavor}_version:{version}" in info
    status = run("docker", "exec", name, "cat", "/proc/1/status")
    assert [line.split()[1:] for line in status.splitlines() if line.startswith("Uid:")] == [["999"] * 4]
    assert run("docker", "inspect", "--format", "{{(index .Mounts 0).Destination}}", name).strip() == "/data"


@pytest.mark.parametrize(("image", "flavor", "version"), TABLE)
def test_an_image_brings_no_tool_for_networks(name: str, image: str, flavor: str, version: str) -> None:
    asked = "command -v nft iptables ip; " + f"{flavor}-server --version"
    said = run("docker", "run", "--name", name, image, "sh", "-c", asked)
    assert said.startswith(("Redis server", "Valkey server", "Server")), said
    assert f"v={version}" in said


def test_compose_is_there() -> None:
    assert run("docker", "compose", "version", "--short").startswith("2.")


def test_a_changed_recipe_is_another_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = shutil.copytree(images.RECIPES, tmp_path / "recipes")
    before = images.REDIS_8.pinned
    monkeypatch.setattr(images, "RECIPES", recipes)
    assert images.REDIS_8.pinned == before
    with (recipes / "redis.Dockerfile").open("a", encoding="utf-8") as recipe:
        recipe.write("ENV CHANGED=1\n")
    assert images.REDIS_8.pinned != before
