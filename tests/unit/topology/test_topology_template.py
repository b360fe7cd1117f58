import json
import re
from itertools import product
from typing import Any

import jsonschema
import pytest
import yaml

from rlctl.topology.canonical import fingerprint, to_json
from rlctl.topology.load import load_topology
from rlctl.topology.model import HostEntry, Kind, TargetName, Topology
from rlctl.topology.schema import json_schema
from rlctl.topology.table import HOSTS, SECTIONS, TOP
from rlctl.topology.template import template

EVERY = list(product(Kind, TargetName))
VALIDATOR = jsonschema.Draft7Validator(json_schema())


@pytest.mark.parametrize(("kind", "target"), EVERY)
def test_a_template_is_the_defaults(kind: Kind, target: TargetName) -> None:
    loaded = load_topology(template(kind, target).encode(), "t.yaml")
    sample = tuple(
        HostEntry(address=f"10.0.0.{number}", zone=zone) for number, zone in [(11, "a"), (12, "b"), (13, "c")]
    )
    hosts = sample if target is TargetName.HOSTS else ()
    assert loaded == Topology(name="limiter", kind=kind, target=target, hosts=hosts)


@pytest.mark.parametrize(("kind", "target"), EVERY)
def test_one_word_of_a_template_turns_tls_on(kind: Kind, target: TargetName) -> None:
    plain = template(kind, target)
    encrypted = plain.replace("  tls: false ", "  tls: true ")
    assert plain.count("  tls: false ") == 1
    assert load_topology(encrypted.encode(), "t.yaml").security.tls


@pytest.mark.parametrize(("kind", "target"), EVERY)
def test_a_template_reads_well(kind: Kind, target: TargetName) -> None:
    lines = template(kind, target).splitlines()
    assert "rlctl deploy" in lines[0]
    assert max(map(len, lines)) < 100
    assert not [line for line in lines if line != line.rstrip()]


@pytest.mark.parametrize(("kind", "target"), EVERY)
def test_a_template_with_everything_uncommented_loads(kind: Kind, target: TargetName) -> None:
    text = re.sub(r"^( +)# ([a-z_]+: )", r"\1\2", template(kind, target), flags=re.MULTILINE)
    load_topology(text.encode(), "t.yaml")


def test_a_template_speaks_of_its_own_kind_and_target_only() -> None:
    text = template(Kind.SENTINEL, TargetName.DOCKER)
    assert {line.split(":")[0] for line in text.splitlines() if line[:1].isalpha()} == {
        *(field.key for field in TOP.fields),
        *(
            "sentinel",
            "consistency",
            "memory",
            "persistence",
            "engine",
            "security",
            "local",
            "docker",
            "drills",
            "redis",
        ),
    }


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(json_schema())
    assert json.loads(json.dumps(json_schema())) == json_schema()


@pytest.mark.parametrize(("kind", "target"), EVERY)
def test_the_schema_accepts_the_templates(kind: Kind, target: TargetName) -> None:
    VALIDATOR.validate(yaml.safe_load(template(kind, target)))


HEAD: dict[str, Any] = {"version": 1, "name": "limiter", "kind": "cluster", "target": "local"}


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"version": 2}, id="version"),
        pytest.param({"name": "Limiter"}, id="name"),
        pytest.param({"kind": "single"}, id="kind"),
        pytest.param({"unknown": 1}, id="unknown-section"),
        pytest.param({"cluster": {"shard": 3}}, id="unknown-key"),
        pytest.param({"cluster": {"shards": 2}}, id="range"),
        pytest.param({"cluster": {"node_timeout": 5}}, id="plain-number"),
        pytest.param({"memory": {"maxmemory": "0mb"}}, id="zero-size"),
        pytest.param({"local": {"base_port": "7000"}}, id="quoted-number"),
        pytest.param({"redis": {"port": 1}}, id="owned-directive"),
        pytest.param({"redis": {"tls-port": 1}}, id="owned-prefix"),
        pytest.param({"redis": {"x": [1]}}, id="directive-list"),
        pytest.param({"target": "hosts"}, id="no-hosts"),
        pytest.param({"target": "hosts", "hosts": []}, id="empty-hosts"),
        pytest.param({"hosts": [{"zone": "a"}]}, id="host-without-address"),
    ],
)
def test_the_schema_refuses(wrong: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(HEAD)
    assert not VALIDATOR.is_valid(HEAD | wrong)


def test_every_setting_is_described() -> None:
    described: Any = json_schema()["properties"]
    for section in SECTIONS:
        assert described[section.key]["description"]
        assert list(described[section.key]["properties"]) == [field.key for field in section.fields]
    assert list(described["hosts"]["items"]["properties"]) == [field.key for field in HOSTS.fields]
    assert described["memory"]["properties"]["maxmemory"]["default"] == "256mb"
    assert described["cluster"]["properties"]["full_coverage"]["default"] is False


def test_canonical_json_is_plain_and_sorted() -> None:
    text = b"{version: 1, name: a, kind: cluster, target: local, redis: {b: 1, a: yes}, memory: {maxmemory: 1gb}}"
    canonical: Any = to_json(load_topology(text, "t.yaml"))
    assert list(canonical) == sorted(canonical)
    assert canonical["redis"] == {"a": "yes", "b": "1"}
    assert canonical["memory"] == {"maxmemory_bytes": 1024**3, "policy": "noeviction"}
    assert type(canonical["kind"]) is str


def test_a_fingerprint_follows_meaning_not_spelling() -> None:
    def print_of(text: str) -> str:
        return fingerprint(load_topology(f"version: 1\nname: a\nkind: cluster\ntarget: local\n{text}".encode(), "t"))

    plain = print_of("")
    assert re.fullmatch("[0-9a-f]{64}", plain)
    assert plain == print_of("cluster: {node_timeout: 5000ms}\nmemory: {maxmemory: 262144kb}")
    assert print_of("redis: {a: 1, b: 2}") == print_of("redis: {b: 2, a: 1}")
    assert plain != print_of("cluster: {shards: 4}")
