"""Whether a topology is possible: every setting for itself, then the settings together."""

from collections.abc import Iterator

from rlctl.files.mistakes import Problem, printable
from rlctl.topology.directives import refuse_directive
from rlctl.topology.host_checks import refuse_docker, refuse_engines, refuse_hosts
from rlctl.topology.model import LocalPlace, TargetName, Topology
from rlctl.topology.shape_checks import refuse_ports, refuse_shapes
from rlctl.topology.table import settings


def check(topology: Topology) -> tuple[Problem, ...]:
    """Everything that makes this topology impossible; empty when it is possible."""
    alone = (*_refuse_settings(topology), *_refuse_redis(topology))
    wrong = {problem.paths[0] for problem in alone}
    # What follows from a setting that is wrong by itself would only be noise.
    together = (problem for problem in _refuse_together(topology) if wrong.isdisjoint(problem.paths))
    return (*alone, *together)


def _refuse_together(topology: Topology) -> Iterator[Problem]:
    for refuse in (
        refuse_shapes,
        refuse_ports,
        refuse_hosts,
        refuse_docker,
        refuse_engines,
        _refuse_open,
        _refuse_users,
        _refuse_two_places,
    ):
        yield from refuse(topology)


def _refuse_settings(topology: Topology) -> Iterator[Problem]:
    for path, field, value in settings(topology):
        if text := field.type.refuse(value):
            yield Problem(paths=(path,), text=f"{path}: {text}")


def _refuse_redis(topology: Topology) -> Iterator[Problem]:
    for name, value in topology.redis:
        if text := refuse_directive(name, value):
            yield Problem(paths=(f"redis.{name}",), text=f"redis.{printable(name)}: {text}")


def _refuse_open(topology: Topology) -> Iterator[Problem]:
    on_loopback = topology.target is TargetName.LOCAL and topology.local.address.startswith("127.")
    if not topology.security.acl and not on_loopback:
        yield Problem(
            paths=("security.acl", "target", "local.address"),
            text="security.acl: false is possible only for target local on a loopback address; write true",
        )


def _refuse_users(topology: Topology) -> Iterator[Problem]:
    if topology.security.services and not topology.security.acl:
        yield Problem(
            paths=("security.services", "security.acl"),
            text="security.services: services have users only with acl: true; write it, or leave services out",
        )


def _refuse_two_places(topology: Topology) -> Iterator[Problem]:
    place, default = topology.local, LocalPlace().address
    if place.spread and place.address != default:
        yield Problem(
            paths=("local.spread", "local.address"),
            text=f"local.spread: true gives every node an address of its own, local.address says {place.address}; "
            "keep one of the two",
        )
