"""Check a topology: each setting by itself, then combinations of settings."""

from collections.abc import Iterator

from rlctl.files.mistakes import Problem, printable
from rlctl.topology.directives import refuse_directive
from rlctl.topology.host_checks import refuse_docker, refuse_engines, refuse_hosts
from rlctl.topology.model import LocalPlace, TargetName, Topology
from rlctl.topology.shape_checks import refuse_ports, refuse_shapes
from rlctl.topology.table import settings


def check(topology: Topology) -> tuple[Problem, ...]:
    """Every problem that makes this topology impossible."""
    alone = (*_refuse_settings(topology), *_refuse_redis(topology))
    wrong = {problem.paths[0] for problem in alone}
    # A setting that is wrong by itself would cause further problems, which would only be noise.
    together = (problem for problem in _refuse_together(topology) if wrong.isdisjoint(problem.paths))
    return (*alone, *together)


def _refuse_together(topology: Topology) -> Iterator[Problem]:
    for refuse in (
        refuse_shapes,
        refuse_ports,
        refuse_hosts,
        refuse_docker,
        refuse_engines,
        _refuse_open_access,
        _refuse_services_without_acl,
        _refuse_spread_with_address,
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


def _refuse_open_access(topology: Topology) -> Iterator[Problem]:
    on_loopback = topology.target is TargetName.LOCAL and topology.local.address.startswith("127.")
    if not topology.security.acl and not on_loopback:
        yield Problem(
            paths=("security.acl", "target", "local.address"),
            text="security.acl: false is possible only for target local on a loopback address; write true",
        )


def _refuse_services_without_acl(topology: Topology) -> Iterator[Problem]:
    if topology.security.services and not topology.security.acl:
        yield Problem(
            paths=("security.services", "security.acl"),
            text="security.services: services need security.acl: true; write it, or delete services",
        )


def _refuse_spread_with_address(topology: Topology) -> Iterator[Problem]:
    place, default = topology.local, LocalPlace().address
    if place.spread and place.address != default:
        yield Problem(
            paths=("local.spread", "local.address"),
            text=f"local.spread: true gives each node its own address, but local.address is {place.address}; "
            "delete one of the two",
        )
