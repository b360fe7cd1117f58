"""Finds the server program that a fleet runs, and checks its family and version."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from rlctl.errors import Refused, Unreachable
from rlctl.render.acl import Version
from rlctl.system.process import Runner, find_program
from rlctl.topology.model import Engine, Flavor

OLDEST: dict[Flavor, Version] = {Flavor.REDIS: (7, 0), Flavor.VALKEY: (7, 2)}
_BANNER = re.compile(r"^(Redis|Valkey) server v=(\d+(?:\.\d+)*)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProgram:
    path: str
    flavor: Flavor
    version: Version


def find_server(engine: Engine, runner: Runner) -> ServerProgram:
    """The program in RLCTL_REDIS_SERVER, else the server of `engine` on PATH.

    Raises Unreachable or Refused if no program is found or if it does not fit.
    """
    wanted = f"{engine.flavor}-server"
    named = os.environ.get("RLCTL_REDIS_SERVER")
    path = named or find_program([wanted])
    if path is None:
        raise Unreachable(
            f"{wanted} is not on PATH", hint=f"install the package {wanted}, or name a binary in RLCTL_REDIS_SERVER"
        )
    program = _identify(path, runner)
    check_fit(program, engine, "name another binary in RLCTL_REDIS_SERVER")
    return program


def check_fit(program: ServerProgram, engine: Engine, alternative: str) -> None:
    """Raise Unreachable or Refused if the program does not fit the topology. The hint includes `alternative`."""
    found, oldest = f"{program.path} is {program.flavor} {dotted(program.version)}", OLDEST[program.flavor]
    if program.flavor is not engine.flavor:
        raise Unreachable(
            f"{found}, the topology says {engine.flavor}", hint=f"set engine.flavor in the topology, or {alternative}"
        )
    if program.version < oldest:
        raise Unreachable(
            f"{found}; rlctl needs {dotted(oldest)} or newer", hint=f"install a newer server, or {alternative}"
        )
    if engine.version is not None and not _fits(engine.version, program.version):
        raise Refused(
            f"{program.path} is version {dotted(program.version)}, the topology says {engine.version}",
            hint=f"rlctl does not install another version: change engine.version, or {alternative}",
        )


def identity(program: ServerProgram) -> str:
    """A text that changes with the installed binary, even if the version stays the same."""
    state = Path(program.path).stat()
    return f"{program.path} {program.flavor} {dotted(program.version)} {state.st_size} {state.st_mtime_ns}"


def find_any_server(runner: Runner) -> ServerProgram:
    """The program in RLCTL_REDIS_SERVER, else the first of redis-server and valkey-server on PATH."""
    path = os.environ.get("RLCTL_REDIS_SERVER") or find_program([f"{flavor}-server" for flavor in Flavor])
    if path is None:
        raise Unreachable(
            "neither redis-server nor valkey-server is on PATH",
            hint="install one of them, or name a binary in RLCTL_REDIS_SERVER",
        )
    return _identify(path, runner)


def parse_version(text: str) -> Version:
    """The leading numbers of a version: (7, 0, 15) for `7.0.15` and for `7.0.15-rc1`."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def dotted(version: Version) -> str:
    """A version as text, such as `7.0.15`."""
    return ".".join(str(part) for part in version)


def read_banner(output: str, path: str) -> ServerProgram | None:
    """The program that printed this version line; None if it is neither Redis nor Valkey."""
    found = _BANNER.search(output)
    if found is None:
        return None
    return ServerProgram(path=path, flavor=Flavor(found.group(1).lower()), version=parse_version(found.group(2)))


def _identify(path: str, runner: Runner) -> ServerProgram:
    program = read_banner(runner.run([path, "--version"], timeout_s=10).output, path)
    if program is None:
        raise Unreachable(
            f"{path} --version does not answer like a Redis or Valkey server",
            hint="name a redis-server or valkey-server in RLCTL_REDIS_SERVER",
        )
    return program


def _fits(wanted: str, found: Version) -> bool:
    numbers = parse_version(wanted)
    return found[: len(numbers)] == numbers
