"""The topologies in inventories/ are examples for users, so they must load."""

from pathlib import Path

import pytest

from rlctl.topology.load import load_topology

FILES = sorted((Path(__file__).parents[3] / "inventories").glob("*/topology.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_inventory_loads(path: Path) -> None:
    assert load_topology(path.read_bytes(), str(path)).name


def test_there_is_one() -> None:
    assert FILES
