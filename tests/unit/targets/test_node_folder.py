"""What a local node would come back with, read off its files."""

from pathlib import Path

import pytest

from rlctl.observe.model import OnDisk, Saved
from rlctl.render.redis_conf import initial_cluster_conf
from rlctl.secrets import generate
from rlctl.targets.node_folder import NodeFolder
from rlctl.topology.model import Topology
from rlctl.topology.nodes import all_nodes
from tests.unit.fleets import cluster, watched

DATA = Path(__file__).parents[2] / "data"
SECRETS = generate("limiter", None)


def on_disk(root: Path, topology: Topology, node: str, *, running: bool = False) -> OnDisk:
    spec = next(spec for spec in all_nodes(topology) if spec.name == node)
    return NodeFolder(root, spec, topology, SECRETS, ("get",)).read(running=running)


def test_nothing(tmp_path: Path) -> None:
    assert on_disk(tmp_path / "none", cluster(), "node-0") == OnDisk()


@pytest.mark.parametrize(
    ("files", "saved"),
    [
        pytest.param([], Saved.NOTHING, id="nothing"),
        pytest.param(["dump.rdb"], Saved.SNAPSHOT, id="snapshot"),
        pytest.param(["appendonlydir/appendonly.aof.1.base.rdb"], Saved.NOTHING, id="a log without its manifest"),
        pytest.param(["dump.rdb", "appendonlydir/appendonly.aof.manifest"], Saved.LOG, id="log"),
    ],
)
def test_saved(tmp_path: Path, files: list[str], saved: Saved) -> None:
    for file in files:
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_text("x", encoding="utf-8")
    assert on_disk(tmp_path, cluster(), "node-0").saved is saved


def test_a_cluster_node_has_its_table(tmp_path: Path) -> None:
    own_id = on_disk(tmp_path, cluster(), "node-0").own_id
    (tmp_path / "nodes.conf").write_text(initial_cluster_conf(str(own_id)))
    (peer,) = on_disk(tmp_path, cluster(), "node-0").table
    assert peer.id == own_id


def test_a_sentinel_remembers_whom_it_watched(tmp_path: Path) -> None:
    """As Sentinel itself rewrote the file after a failover."""
    (tmp_path / "sentinel.conf").write_text((DATA / "sentinel-conf-failed-over.txt").read_text())
    found = on_disk(tmp_path, watched(), "sentinel-0")
    assert (found.monitors, found.monitor_epoch) == (("127.0.0.1", 21_201), 1)


def test_a_running_node_is_asked_instead(tmp_path: Path) -> None:
    found = on_disk(tmp_path, cluster(), "node-0", running=True)
    assert found.running
    assert found.table == ()
