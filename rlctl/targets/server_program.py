"""Which server program a local fleet runs: found, checked for family and age."""

import os
import re
from dataclasses import dataclass

from rlctl.errors import Refused, Unreachable
from rlctl.render.acl import Version
from rlctl.system.process import Runner, find_program
from rlctl.topology.model import Engine, Flavor

OLDEST: dict[Flavor, Version] = {Flavor.REDIS: (7, 0), Flavor.VALKEY: (7, 2)}
_BANNER = re.compile(r"^(Redis|Valkey) server v=(\d+(?:\.\d+)*)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProgram:
    """A server binary that can be used."""

    path: str
    flavor: Flavor
    version: Version


def find_server(engine: Engine, runner: Runner) -> ServerProgram:
    """RLCTL_REDIS_SERVER, else the family's program on PATH; Unreachable says what is wrong with it."""
    wanted = f"{engine.flavor}-server"
    named = os.environ.get("RLCTL_REDIS_SERVER")
    path = named or find_program([wanted])
    if path is None:
        raise Unreachable(
            f"{wanted} is not on PATH", hint=f"install the package {wanted}, or name a binary in RLCTL_REDIS_SERVER"
        )
    program = _identify(path, runner)
    oldest = OLDEST[program.flavor]
    if program.flavor is not engine.flavor:
        raise Unreachable(
            f"{path} is {program.flavor} {dotted(program.version)}, the topology says {engine.flavor}",
            hint="set engine.flavor in the topology, or name another binary in RLCTL_REDIS_SERVER",
        )
    if program.version < oldest:
        raise Unreachable(
            f"{path} is {program.flavor} {dotted(program.version)}; rlctl needs {dotted(oldest)} or newer",
            hint="install a newer server, or name another binary in RLCTL_REDIS_SERVER",
        )
    if engine.version is not None and not _fits(engine.version, program.version):
        raise Refused(
            f"{path} is version {dotted(program.version)}, the topology says {engine.version}",
            hint="on target local the version is what is installed: change engine.version or the binary",
        )
    return program


def find_any_server(runner: Runner) -> ServerProgram:
    """RLCTL_REDIS_SERVER, else the first family's program on PATH."""
    path = os.environ.get("RLCTL_REDIS_SERVER") or find_program([f"{flavor}-server" for flavor in Flavor])
    if path is None:
        raise Unreachable(
            "neither redis-server nor valkey-server is on PATH",
            hint="install one of them, or name a binary in RLCTL_REDIS_SERVER",
        )
    return _identify(path, runner)


def parse_version(text: str) -> Version:
    """`7.0.15` as numbers; what is no number ends it."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def dotted(version: Version) -> str:
    """`7.0.15`."""
    return ".".join(str(part) for part in version)


def _identify(path: str, runner: Runner) -> ServerProgram:
    done = runner.run([path, "--version"], timeout_s=10)
    found = _BANNER.search(done.output)
    if found is None:
        raise Unreachable(
            f"{path} --version does not answer like a Redis or Valkey server",
            hint="name a redis-server or valkey-server in RLCTL_REDIS_SERVER",
        )
    return ServerProgram(path=path, flavor=Flavor(found.group(1).lower()), version=parse_version(found.group(2)))


def _fits(wanted: str, found: Version) -> bool:
    numbers = parse_version(wanted)
    return found[: len(numbers)] == numbers
