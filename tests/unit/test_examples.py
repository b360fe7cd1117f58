"""The files of examples/ that need no server: topologies plan and render, rules compile, scenarios load."""

import ast
import importlib.util
from pathlib import Path, PurePosixPath

import pytest

from rlctl.drills.scenario.load import read_scenario
from rlctl.limiter.core.rulebook import PreparedRule
from rlctl.limits.rule import RuleSet
from rlctl.render.compose import compose_file
from rlctl.render.inventory import inventory
from rlctl.render.redis_conf import NodeFiles, static_conf
from rlctl.render.sentinel_conf import sentinel_static_conf
from rlctl.rules.advice import advise
from rlctl.secrets import generate, with_services
from rlctl.topology.advice import warnings
from rlctl.topology.load import load_topology
from rlctl.topology.model import Kind, TargetName, Topology
from rlctl.topology.nodes import all_nodes
from tests.unit.fleets import desired_of, fresh
from tests.unit.proof import prove
from tests.unit.rules.documents import rule_set

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TOPOLOGIES = sorted(EXAMPLES.glob("topology-*.yaml"))
SERVICES = sorted(EXAMPLES.glob("service_*.py"))


def load(path: Path) -> Topology:
    return load_topology(path.read_bytes(), path.name)


@pytest.fixture(scope="module")
def rules() -> RuleSet:
    return rule_set((EXAMPLES / "rules.yaml").read_text(encoding="utf-8"))


def test_every_file_is_explained_and_run() -> None:
    files = {path.name for path in EXAMPLES.iterdir() if path.is_file()} - {"README.md"}
    assert files == {path.name for path in (*TOPOLOGIES, *SERVICES)} | {"rules.yaml", "scenario.yaml"}
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert {name for name in files if f"[{name}]({name})" not in text} == set()


def test_there_is_a_topology_for_each_target_and_kind() -> None:
    topologies = list(map(load, TOPOLOGIES))
    assert {topology.target for topology in topologies} == set(TargetName)
    assert {topology.kind for topology in topologies} == set(Kind)
    assert [topology.name for topology in topologies] == [
        path.stem.replace("topology", "example") for path in TOPOLOGIES
    ]


def test_the_fleets_fit_beside_each_other() -> None:
    ports = [spec.port for path in TOPOLOGIES for spec in all_nodes(load(path))]
    assert len(set(ports)) == len(ports)


@pytest.mark.parametrize("path", TOPOLOGIES, ids=lambda path: path.stem)
def test_a_topology_is_planned_and_rendered(path: Path) -> None:
    topology = load(path)
    assert warnings(topology) == ()
    assert prove(desired_of(topology), fresh(topology)).steps
    secrets = with_services(generate(topology.name, None), topology.security.services)
    for spec in all_nodes(topology):
        render = sentinel_static_conf if spec.is_sentinel else static_conf
        files = NodeFiles(folder=PurePosixPath("/") / spec.name)
        assert f"port {spec.port}" in render(topology, spec, files, secrets)


def test_the_containers_are_rendered() -> None:
    fragment = (ROOT / "compose/node.yaml").read_text(encoding="utf-8")
    assert "node-5:" in compose_file(load(EXAMPLES / "topology-docker.yaml"), fragment)


def test_the_inventory_is_rendered() -> None:
    path = EXAMPLES / "topology-hosts.yaml"
    assert inventory(load(path), path)["_meta"]["hostvars"].keys() == {"h1", "h2", "h3"}


def test_the_rules_compile_and_nothing_is_unwise(rules: RuleSet) -> None:
    assert [rule.id for rule in rules.rules] == ["requests", "logins", "exports"]
    assert advise(rules) == ()


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.stem)
def test_a_service_counts_by_the_rules(path: Path, rules: RuleSet) -> None:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    wsgi = {"REMOTE_ADDR": "192.0.2.1", "PATH_INFO": "/login", "HTTP_X_API_KEY": "ada"}
    asgi = {"client": ("192.0.2.1", 1), "path": "/login", "headers": [(b"x-api-key", b"ada")]}
    who = module.caller(wsgi if "wsgi" in path.stem else asgi)
    assert who == {"ip": "192.0.2.1", "endpoint": "/login", "api_key": "ada"}
    assert all(PreparedRule(rule).bind(who, None) is not None for rule in rules.rules)
    held = {
        ast.unparse(node.args[0])
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "self.limiter.hold"
    }
    assert held == {"'exports'"}
    assert module.strictest(()) is None


def test_the_scenario_is_for_both_kinds() -> None:
    path = EXAMPLES / "scenario.yaml"
    found = read_scenario(path.read_bytes(), path.name)
    assert found.kinds == tuple(Kind)
    assert [scenario.name for kind in found.kinds for scenario in found.for_kind(kind)] == ["replica-crash"] * 2
