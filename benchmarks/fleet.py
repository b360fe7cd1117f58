"""rlctl as a contestant: a topology file and `rlctl deploy`."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clock import now_s
from contest import TIMEOUT_S, ContestError, Shape, Timing
from health import Access, Check, cluster_checks, first_spawn_s, sentinel_checks, wait_healthy
from processes import scratch

from rlctl.system.ports import free_base_port

NAME = "bench"


def rlctl_argv(*args: str) -> list[str]:
    """The command line of rlctl in the environment of this interpreter."""
    return [str(Path(sys.executable).with_name("rlctl")), *args]


def topology_of(shape: Shape, base_port: int) -> str:
    """A topology file with the shape only; everything else is the default."""
    shard_lines = f"cluster: {{shards: {shape.shards}, replicas: {shape.replicas}}}"
    if shape.sentinels:
        shard_lines = f"sentinel: {{replicas: {shape.replicas}, sentinels: {shape.sentinels}}}"
    kind = "sentinel" if shape.sentinels else "cluster"
    head = f"version: 1\nname: {NAME}\nkind: {kind}\ntarget: local\n"
    return f"{head}{shard_lines}\nlocal: {{base_port: {base_port}}}\n"


def environment(folder: Path) -> dict[str, str]:
    """The environment of the user with another RLCTL_HOME."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RLCTL_")}
    kept = {name: os.environ[name] for name in ("RLCTL_REDIS_SERVER",) if name in os.environ}
    return inherited | kept | {"RLCTL_HOME": str(folder / "home")}


@contextmanager
def deploying(folder: Path, env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run `rlctl deploy` during the block, then destroy the fleet."""
    argv = rlctl_argv("deploy", "-f", "topology.yaml", "--yes", "-o", "json")
    with (folder / "deploy.log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=folder, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()
            destroy = rlctl_argv("destroy", "-f", "topology.yaml", "--confirm", NAME)
            subprocess.run(
                destroy, cwd=folder, env=env, check=False, capture_output=True, timeout=TIMEOUT_S
            )  # the scratch folder ends processes that this leaves


def endpoint(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def access_from(answer: Mapping[str, Any]) -> Access:
    """Read the output of `rlctl env -o json`."""
    return Access(
        nodes=[endpoint(node) for node in answer["nodes"]],
        username=answer["username"],
        password=answer["password"],
        sentinels=[endpoint(node) for node in answer["sentinels"] or ()],
        sentinel_username=answer["sentinel_username"],
        sentinel_password=answer["sentinel_password"],
        master_name=answer["master_name"] or "",
    )


def ask_for_access(folder: Path, env: Mapping[str, str]) -> Access | None:
    """The connection settings of the admin user; None before they exist."""
    argv = rlctl_argv("env", "--as", "admin", "-f", "topology.yaml", "-o", "json")
    asked = subprocess.run(argv, cwd=folder, env=env, check=False, capture_output=True, timeout=TIMEOUT_S)
    return access_from(json.loads(asked.stdout)) if asked.returncode == 0 else None


def tail(folder: Path) -> str:
    """The end of what deploy said."""
    return (folder / "deploy.log").read_text(errors="replace")[-2000:]


def checks_of(shape: Shape, access: Access) -> Sequence[Check]:
    """The end condition of a shape."""
    found = (len(access.nodes), len(access.sentinels))
    if found != (shape.data_nodes, shape.sentinels):
        raise ContestError(f"{shape.label}: rlctl env names {found[0]} nodes and {found[1]} sentinels")
    if shape.sentinels:
        return sentinel_checks(access, shape.replicas)
    return cluster_checks(access, shape.shards, shape.replicas)


def form_with_rlctl(shape: Shape) -> Timing:
    """Time one fleet."""
    with scratch() as folder:
        (folder / "topology.yaml").write_text(
            topology_of(shape, free_base_port(max(shape.data_nodes, shape.sentinels))), encoding="utf-8"
        )
        env = environment(folder)
        started_s = now_s()
        with deploying(folder, env) as process:
            # An outside poller beside it would measure itself: on two cores it costs as much as the deploy.
            if process.wait(timeout=TIMEOUT_S) != 0:
                raise ContestError(f"rlctl deploy ended with {process.returncode}:\n{tail(folder)}")
            ended_s = now_s()
            access = ask_for_access(folder, env)
            if access is None:
                raise ContestError(f"rlctl env fails after deploy:\n{tail(folder)}")
            checks = checks_of(shape, access)
            healthy_s = ended_s if all(check() for check in checks) else wait_healthy(checks, timeout_s=TIMEOUT_S)
            return Timing(healthy_s=healthy_s - first_spawn_s(access), whole_s=healthy_s - started_s)
