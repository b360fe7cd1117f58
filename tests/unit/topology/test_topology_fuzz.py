from collections.abc import Callable
from dataclasses import fields
from itertools import product
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlctl.errors import InvalidFile
from rlctl.files.table import Field, SettingsSection
from rlctl.topology.canonical import to_json
from rlctl.topology.checks import check
from rlctl.topology.load import load_topology
from rlctl.topology.model import Flavor, HostEntry, Kind, TargetName, Topology
from rlctl.topology.nodes import all_nodes
from rlctl.topology.table import HOSTS, KEYS, SECTIONS, TOP
from rlctl.topology.template import template

TEMPLATES = [template(kind, target) for kind, target in product(Kind, TargetName)]
FAST = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def is_loaded_or_refused(text: bytes) -> None:
    try:
        topology = load_topology(text, "t.yaml")
    except InvalidFile as refused:
        for line in refused.message.split("\n"):
            path, number, _rest = line.split(":", 2)
            assert path == "t.yaml"
            assert 1 <= int(number) <= text.count(b"\n") + 1
            assert line.isprintable()
    else:
        assert check(topology) == ()
        assert to_json(topology)


@FAST
@given(st.binary(max_size=200))
def test_random_bytes(text: bytes) -> None:
    is_loaded_or_refused(text)


MARKS = [
    "{",
    "}",
    "[",
    "]",
    ": ",
    ", ",
    "- ",
    "\n",
    "\n  ",
    "&a ",
    "*a ",
    "!!int ",
    "? ",
    "| ",
    "> ",
    "'",
    '"',
    "\\U",
]
MARKS += [
    "%YAML ",
    "#",
    "---\n",
    "\t",
    "<<: ",
    "\x85",
    "\ufeff",
    "0",
    "yes",
    "1:30",
    "\\x00",
    "=",
    "~",
    "1e400",
]


@FAST
@given(st.lists(st.sampled_from([*MARKS, *KEYS]), max_size=30).map("".join))
def test_random_marks(text: str) -> None:
    is_loaded_or_refused(text.encode())


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates()
KEY = st.sampled_from([*KEYS, *(field.key for section in (*SECTIONS, HOSTS) for field in section.fields)])
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY | st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@FAST
@given(st.dictionaries(KEY, TREES, max_size=6))
def test_random_documents(tree: dict[str, Any]) -> None:
    head = {"version": 1, "name": "a", "kind": "cluster", "target": "hosts"}
    is_loaded_or_refused(yaml.safe_dump(head | tree, allow_unicode=True).encode())


def _delete(lines: list[str], index: int, _junk: str) -> list[str]:
    return lines[:index] + lines[index + 1 :]


def _duplicate(lines: list[str], index: int, _junk: str) -> list[str]:
    return lines[: index + 1] + lines[index:]


def _alter(lines: list[str], index: int, junk: str) -> list[str]:
    return [*lines[:index], lines[index].split(":")[0] + ": " + junk, *lines[index + 1 :]]


def _indent(lines: list[str], index: int, _junk: str) -> list[str]:
    return [*lines[:index], f"  {lines[index]}", *lines[index + 1 :]]


def _cut(lines: list[str], index: int, junk: str) -> list[str]:
    return [*lines[:index], lines[index][: len(junk)]]


Mutation = Callable[[list[str], int, str], list[str]]


@FAST
@given(
    st.sampled_from(TEMPLATES),
    st.lists(
        st.tuples(
            st.sampled_from([_delete, _duplicate, _alter, _indent, _cut]),
            st.integers(0, 100),
            st.text(max_size=6) | st.sampled_from(["-1", "999999", "::1", "[]", "{}", "5s", "1gb", "no", "07"]),
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_mutated_templates(text: str, mutations: list[tuple[Mutation, int, str]]) -> None:
    lines = text.splitlines()
    for mutate, index, junk in mutations:
        lines = mutate(lines, index % len(lines), junk) or [""]
    is_loaded_or_refused("\n".join(lines).encode())


DURATIONS = st.sampled_from([1_000, 5_000, 60_000, 600_000])
ODD: dict[str, st.SearchStrategy[Any]] = {
    "max_lag_ms": DURATIONS,
    "node_timeout_ms": DURATIONS,
    "down_after_ms": DURATIONS,
    "failover_timeout_ms": DURATIONS,
    "maxmemory_bytes": st.integers(8 * 1024**2, 2**40),
    "address": st.ip_addresses(v=4, network="10.0.0.0/8").map(str),
    "base_port": st.integers(1_024, 50_000),
    "shards": st.integers(3, 20),
    "replicas": st.integers(1, 5),
    "sentinels": st.integers(3, 9),
    "quorum": st.integers(1, 3),
    "min_replicas": st.integers(0, 1),
    # `spread` needs the default address.
    "spread": st.just(value=False),
    "acl": st.just(value=True),
    "flavor": st.just(Flavor.REDIS),
    "image": st.sampled_from(["redis:8.0", "redis:7.4-alpine", "registry.local:5000/a/b_c/redis"]),
    "subnet": st.sampled_from(["auto", "172.16.0.0/12", "172.28.0.0/16"]),
    "name": st.from_regex(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", fullmatch=True),
    "zone": st.from_regex(r"[A-Za-z0-9]{1,5}", fullmatch=True),
    "user": st.from_regex(r"[a-z_][a-z0-9_-]{0,8}", fullmatch=True),
    "port": st.just(22),
    "nodes": st.integers(200, 300),
    "version": st.just(1),
    "services": st.lists(st.from_regex(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", fullmatch=True), unique=True).map(tuple),
}


def _strategy(section: SettingsSection, field: Field) -> st.SearchStrategy[Any]:
    if field.attribute in ODD:
        return ODD[field.attribute]
    default = section.default(field)
    return st.sampled_from(type(default)) if "enum" in field.type.schema else st.booleans()


def _of(section: SettingsSection, **chosen: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    strategies = {field.attribute: _strategy(section, field) for field in section.fields}
    return st.builds(section.model, **(strategies | chosen))


DIRECTIVES = st.dictionaries(
    st.sampled_from(["maxclients", "timeout", "tcp-keepalive", "activedefrag", "loglevel"]),
    st.sampled_from(["", "0", "010", "yes", "no", "null", "1:30", "normal 0 0 0", '"a b"', "~", "#x", "1e3"]),
)
TOPOLOGIES = st.builds(
    Topology,
    name=ODD["name"],
    kind=st.sampled_from(Kind),
    target=st.sampled_from(TargetName),
    redis=DIRECTIVES.map(lambda found: tuple(sorted(found.items()))),
    hosts=st.lists(
        _of(HOSTS, name=st.none(), sentinel=st.just(value=True)),
        min_size=1,
        max_size=4,
        unique_by=lambda host: host.address,
    ).map(tuple),
    **{
        section.key: _of(section, version=st.none()) if section.key == "engine" else _of(section)
        for section in SECTIONS
    },
)


def _owner_to_yaml(section: SettingsSection, owner: object) -> dict[str, Any]:
    values = {field.key: (field, getattr(owner, field.attribute)) for field in section.fields}
    return {key: field.type.show(value) for key, (field, value) in values.items() if value is not None}


def to_yaml(topology: Topology) -> str:
    tree = _owner_to_yaml(TOP, topology)
    tree |= {section.key: _owner_to_yaml(section, getattr(topology, section.key)) for section in SECTIONS}
    tree |= {"redis": dict(topology.redis), "hosts": [_owner_to_yaml(HOSTS, host) for host in topology.hosts]}
    return yaml.safe_dump(tree, sort_keys=False)


@FAST
@given(TOPOLOGIES)
def test_valid_topologies_come_back(topology: Topology) -> None:
    assert load_topology(to_yaml(topology).encode(), "t.yaml") == topology
    ports = [(node.address, node.port) for node in all_nodes(topology)]
    assert len(set(ports)) == len(ports)


@pytest.mark.parametrize("section", [*SECTIONS, HOSTS], ids=lambda section: section.key)
def test_the_table_covers_the_model(section: SettingsSection) -> None:
    assert {field.attribute for field in section.fields} == {own.name for own in fields(section.model)}


def test_every_section_is_in_the_table() -> None:
    assert set(KEYS) == {own.name for own in fields(Topology)}
    assert HOSTS.model is HostEntry
