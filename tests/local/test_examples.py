"""The files of examples/ in use: fleets deploy, rules apply, services limit their callers, the drill passes."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlctl.topology.model import Kind
from tests.drills import drill
from tests.local.driver import LocalFleet, wait_for
from tests.local.ports import next_base_port
from tests.local.services import get, serving
from tests.rotation import in_turn

EXAMPLES = Path(__file__).parents[2] / "examples"
# These requests test answers, not speed, so services on a busy machine must not fall back.
PATIENT_MS = "30000"
UVICORN = [sys.executable, "-m", "uvicorn", "--host", "127.0.0.1", "--port", "0", "--app-dir", str(EXAMPLES)]


def example(name: str) -> dict[str, Any]:
    """The topology of an example, on free ports."""
    document: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))
    return {**document, "local": {**document["local"], "base_port": next_base_port()}}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    fleet = LocalFleet(folder=tmp_path_factory.mktemp("examples"), document=example("topology-local.yaml"))
    fleet.write()
    try:
        fleet.deploy()
        yield fleet
    finally:
        fleet.end_all()


@pytest.fixture
def services(fleet: LocalFleet, tmp_path: Path) -> Iterator[list[str]]:
    """The addresses of both services, once they use the rules of the fleet."""
    fleet.run("rules", "apply", str(EXAMPLES / "rules.yaml"), "--yes")
    settings = tmp_path / "limiter.json"
    settings.write_text(json.dumps(fleet.access("limiter")), encoding="utf-8")
    wsgi = [sys.executable, str(EXAMPLES / "service_wsgi.py"), str(settings), "--port", "0", "--budget-ms", PATIENT_MS]
    asgi = [*UVICORN, "service_asgi:app"]
    environment = os.environ | {"LIMITER_SETTINGS": str(settings), "LIMITER_BUDGET_MS": PATIENT_MS}
    with ExitStack() as stack:
        addresses = [
            stack.enter_context(serving(argv, tmp_path / f"{name}.log", environment))
            for name, argv in (("wsgi", wsgi), ("asgi", asgi))
        ]
        for address in addresses:
            wait_for(lambda address=address: get(address)[2]["source"] == "redis", f"rules in {address}")
        yield addresses


def test_the_services_share_the_limits_of_the_rules(services: list[str]) -> None:
    answers = [get(f"{services[turn % 2]}/login") for turn in range(7)]
    assert [status for status, _headers, _body in answers] == [200] * 5 + [429] * 2
    assert {body["source"] for _status, _headers, body in answers} == {"redis"}
    assert int(answers[-1][1]["retry-after"]) > 0
    assert answers[-1][1]["ratelimit-policy"] == '"logins";q=5;w=900'

    exports = [get(f"{address}/export", **{"X-Api-Key": "ada"}) for address in services]
    assert [(status, headers["x-ratelimit-remaining"]) for status, headers, _body in exports] == [(200, "1")] * 2


def test_the_sentinel_fleet_deploys(make_fleet: Callable[[dict[str, Any]], LocalFleet]) -> None:
    fleet = make_fleet(example("topology-sentinel.yaml"))
    fleet.deploy()
    access = fleet.run("env", "--service", "checkout", "-o", "json").json()
    assert (access["tls"], access["key_prefix"]) == (True, "rl:checkout:")


@pytest.mark.parametrize("kind", in_turn(list(Kind)))
def test_the_scenario_passes(fleet: LocalFleet, kind: Kind) -> None:
    run = drill(fleet, str(EXAMPLES / "scenario.yaml"), "--kind", kind)
    assert (run["scenario"], run["verdict"], run["lost"]) == ("replica-crash", "pass", 0)
