import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath

import pytest

from rlctl.errors import Refused
from rlctl.render.inventory import host_variables, inventory, refuse_templates, static_inventory
from rlctl.topology.model import HostEntry, Kind, TargetName, Topology

FILE = PurePath("/etc/limiter/topology.yaml")
HOSTS = (
    HostEntry(address="10.0.0.1", name="h1", zone="a"),
    HostEntry(address="10.0.0.2", user="ops", port=2222),
    HostEntry(address="10.0.0.3", name="h3", base_port=9_000),
)
CLUSTER = Topology(name="limiter", kind=Kind.CLUSTER, target=TargetName.HOSTS, hosts=HOSTS)


def test_each_host_knows_its_nodes_and_how_it_is_reached() -> None:
    variables = inventory(CLUSTER, FILE)["_meta"]["hostvars"]
    assert variables["h1"] == {
        "ansible_host": "10.0.0.1",
        "ansible_port": 22,
        "rlctl_zone": "a",
        "redis_node_instances": [
            {"name": "node-0", "port": 7000, "bus_port": 17000},
            {"name": "node-5", "port": 7005, "bus_port": 17005},
        ],
        "sentinel_instances": [],
    }
    assert variables["10.0.0.2"]["ansible_user"] == "ops"
    assert [one["port"] for one in variables["h3"]["redis_node_instances"]] == [9002, 9004]


def test_a_sentinel_fleet_has_no_bus_and_both_groups() -> None:
    document = inventory(replace(CLUSTER, kind=Kind.SENTINEL), FILE)
    h1 = document["_meta"]["hostvars"]["h1"]
    assert h1["redis_node_instances"] == [{"name": "node-0", "port": 7000, "bus_port": None}]
    assert h1["sentinel_instances"] == [{"name": "sentinel-0", "port": 8000}]
    assert document["rlctl_sentinels"]["hosts"] == document["rlctl_data"]["hosts"] == ["h1", "10.0.0.2", "h3"]
    assert document["rlctl_hosts"]["vars"]["rlctl_topology"] == "/etc/limiter/topology.yaml"


def test_a_host_without_nodes_is_left_alone() -> None:
    spare = HostEntry(address="10.0.0.4", sentinel=False)
    document = inventory(replace(CLUSTER, kind=Kind.SENTINEL, hosts=(*HOSTS, spare)), FILE)
    assert document["rlctl_hosts"]["hosts"] == ["h1", "10.0.0.2", "h3"]
    assert "10.0.0.4" not in json.dumps(document)
    assert host_variables(CLUSTER, spare)["redis_node_instances"] == []


def test_the_file_form_says_the_same() -> None:
    groups = static_inventory(CLUSTER, FILE)["all"]["children"]
    listed = inventory(CLUSTER, FILE)
    assert groups["rlctl_hosts"]["hosts"] == listed["_meta"]["hostvars"]
    assert groups["rlctl_hosts"]["vars"] == listed["rlctl_hosts"]["vars"]
    assert groups["rlctl_sentinels"]["hosts"] == {}


@pytest.mark.parametrize("form", [inventory, static_inventory])
@pytest.mark.parametrize(
    "folder", ['{{ lookup("pipe", "id") }}', "{% set x = 1 %}", "{#", "feature{{x}}", "a {{", "\u202e{{ x }}"]
)
def test_a_path_that_ansible_would_run_is_refused(form: Callable[..., object], folder: str) -> None:
    with pytest.raises(Refused, match="Ansible would run it as a template") as refused:
        form(CLUSTER, PurePath("/builds") / folder / "topology.yaml")
    assert refused.value.message.isprintable()


@pytest.mark.parametrize("folder", ["{ {", "{}", "%}", "}}", "a{b}", "{", "#{x}"])
def test_a_path_without_a_template_is_kept(folder: str) -> None:
    path = PurePath("/builds") / folder / "topology.yaml"
    assert inventory(CLUSTER, path)["rlctl_hosts"]["vars"]["rlctl_topology"] == str(path)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"rlctl_remove": ["node-0", "{{ lookup('pipe', 'id') }}"]}, id="a name that a host told"),
        pytest.param({"rlctl_command": ("/builds/{{x}}/python", "-m", "rlctl")}, id="a path of a program"),
        pytest.param({"redis_node_launches": {"{{ x }}": {"follow": None}}}, id="a key"),
    ],
)
def test_variables_that_ansible_would_run_are_refused(value: object) -> None:
    with pytest.raises(Refused):
        refuse_templates(value)
    refuse_templates({"rlctl_remove": ["node-0"], "rlctl_command": ("python", "-m"), "port": 7000, "follow": None})
