"""rlctl resize: raises memory on every data node and in the topology, or refuses and changes nothing."""

import json
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from redis import Redis, RedisCluster
from redis.exceptions import OutOfMemoryError, ResponseError

from rlctl.topology.dump import topology_text
from rlctl.topology.load import load_topology
from tests.local.driver import LocalFleet, cluster_document, sentinel_document, wait_for
from tests.local.failures import assert_fails
from tests.local.terminal import at_terminal
from tests.local.test_lock import LASTS_MS, keeper, owner
from tests.local.trees import run_ids

MIB = 1024 * 1024
KINDS = pytest.mark.parametrize("document", [cluster_document, sentinel_document], ids=["cluster", "sentinel"])
KEYS = {"schema", "name", "was_bytes", "maxmemory_bytes", "file", "changed", "steps", "elapsed_s"}


@pytest.fixture(scope="module")
def sized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    """A fleet whose size every test restores."""
    fleet = LocalFleet(folder=tmp_path_factory.mktemp("sized"), document=cluster_document(name="sized"))
    fleet.write()
    try:
        fleet.deploy()
        yield fleet
    finally:
        fleet.end_all()


def memory(fleet: LocalFleet) -> set[int]:
    """maxmemory of every data node."""
    access = fleet.access()
    found = set()
    for index in range(len(access["nodes"])):
        with closing(fleet.connect(f"node-{index}", access=access)) as client:
            found.add(int(client.config_get("maxmemory")["maxmemory"]))
    return found


def untouched(fleet: LocalFleet) -> tuple[bytes, set[int], list[Any]]:
    return fleet.file.read_bytes(), memory(fleet), fleet.run("history", "-o", "json").json()["operations"]


@KINDS
def test_twice_as_much_then_so_much(
    make_fleet: Callable[[dict[str, Any]], LocalFleet], document: Callable[[], dict[str, Any]]
) -> None:
    fleet = make_fleet(document())
    text = fleet.file.read_text(encoding="utf-8").replace("maxmemory: 64mb", "maxmemory: '64mb'   # see capacity plan")
    fleet.file.write_text(text.replace("\n", "\r\n"), encoding="utf-8", newline="")
    fleet.file.chmod(0o640)
    fleet.deploy()
    before, ids = fleet.file.read_bytes(), run_ids(fleet)
    planned = fleet.run("resize", "--dry-run", "-o", "json", expect=10).json()
    assert set(planned) == KEYS
    assert (planned["changed"], {step["outcome"] for step in planned["steps"]}) == (False, {"planned"})
    assert (fleet.file.read_bytes(), memory(fleet)) == (before, {64 * MIB})
    done = fleet.run("resize", "--yes", "-o", "json").json()
    assert set(done) == KEYS
    assert (done["schema"], done["name"], done["file"]) == ("rlctl.resize/1", fleet.name, str(fleet.file))
    assert (done["was_bytes"], done["maxmemory_bytes"], done["changed"]) == (64 * MIB, 128 * MIB, True)
    assert [(step["kind"], step["outcome"]) for step in done["steps"]] == [("configure", "done")] * len(
        planned["steps"]
    )
    assert fleet.file.read_bytes() == before.replace(b"'64mb'", b"'128mb'")
    assert stat.S_IMODE(fleet.file.stat().st_mode) == 0o640
    assert memory(fleet) == {128 * MIB}
    assert fleet.run("deploy", "--dry-run").out == f"{fleet.name}: no change\n"
    assert f"commit {fleet.file}" in fleet.run("resize", "144mb", "--yes").out
    assert memory(fleet) == {144 * MIB}
    assert "nothing to do" in fleet.run("resize", "144mb", "--yes").out
    assert not fleet.run("resize", "144mb", "--dry-run", "-o", "json").json()["steps"]
    assert run_ids(fleet) == ids
    operations = fleet.run("history", "-o", "json").json()["operations"]
    assert [(one["command"], one["outcome"]) for one in operations if one["command"] == "resize"] == [
        ("resize", "done")
    ] * 2


@KINDS
def test_a_full_fleet_takes_writes_again(
    make_fleet: Callable[[dict[str, Any]], LocalFleet], document: Callable[[], dict[str, Any]]
) -> None:
    fleet = make_fleet(document() | {"memory": {"maxmemory": "8mb"}})
    fleet.deploy()
    access = fleet.access()
    client_of = RedisCluster if access["kind"] == "cluster" else Redis
    login = {name: access[name] for name in ("host", "port", "username", "password")}
    with closing(client_of(**login)) as client:
        refused = fill(client)
        fleet.run("resize", "16mb", "--yes")
        assert client.set(refused, "x" * 1_000)


@KINDS
def test_one_command_fills_no_node_and_a_full_one_is_found(
    make_fleet: Callable[[dict[str, Any]], LocalFleet], document: Callable[[], dict[str, Any]]
) -> None:
    fleet = make_fleet(document())
    fleet.deploy()
    access = fleet.access()
    client_of = RedisCluster if access["kind"] == "cluster" else Redis
    login = {name: access[name] for name in ("host", "port", "username", "password")}
    with closing(client_of(**login)) as client:
        with pytest.raises(ResponseError, match="exceeds maximum allowed size"):
            client.setrange("rl:{big}", 500_000_000, "a")
        with suppress(OutOfMemoryError):
            for number in range(20):
                client.setrange(f"rl:{{big}}:{number}", 8_000_000, "a")
        [full] = [one for one in fleet.status(expect=12)["findings"] if one["severity"] == "critical"]
        assert (full["code"], "refuses writes (OOM)" in full["text"]) == ("memory-full", True)
        fleet.run("deploy", "--yes")
        fleet.run("resize", "256mb", "--yes")
        assert client.set("rl:{big}:more", "x")
    assert fleet.status()["findings"] == []


def fill(client: Redis | RedisCluster) -> str:
    """Write until a write is refused, and return its key."""
    for number in range(100_000):
        try:
            client.set(f"rl:{{{number}}}", "x" * 100_000)
        except OutOfMemoryError:
            return f"rl:{{{number}}}"
    raise AssertionError("the fleet never got full")


def test_less_is_refused(sized: LocalFleet) -> None:
    before = untouched(sized)
    assert_fails(sized, "resize", "32mb", "--yes", code=8, name="refused", says="32mb is less than the 64mb")
    assert "less memory can evict keys" in sized.run("resize", "32mb", "--dry-run", expect=8).err
    assert untouched(sized) == before


def test_more_than_the_machine_has_is_refused(sized: LocalFleet) -> None:
    before = untouched(sized)
    says = "6 data nodes x 1 TiB more = 6 TiB"
    assert_fails(sized, "resize", f"{64 + 1024 * 1024}mb", "--yes", code=8, name="refused", says=says)
    sized.run("resize", f"{64 + 1024 * 1024}mb", "--dry-run", expect=8)
    assert untouched(sized) == before


@pytest.mark.parametrize(("size", "says"), [("8192gb", "out of range"), ("512", "no unit"), ("4mb", "out of range")])
def test_a_size_that_no_node_can_have_is_usage(sized: LocalFleet, size: str, says: str) -> None:
    assert_fails(sized, "resize", size, "--yes", code=2, name="usage", says=says)


def test_a_fleet_that_is_not_there_is_refused(cluster: LocalFleet) -> None:
    before = cluster.file.read_bytes()
    assert_fails(cluster, "resize", "--yes", code=8, name="refused", says="steps of a deploy: node-0: start (+")
    assert "`rlctl deploy` first" in cluster.run("resize", "--dry-run", expect=8).err
    assert cluster.file.read_bytes() == before
    assert cluster.processes() == []


def test_a_fleet_that_is_otherwise_than_its_file_is_refused(sized: LocalFleet) -> None:
    with closing(sized.connect("node-2")) as client:
        client.config_set("maxmemory", 72 * MIB)
    before = untouched(sized)
    says = "steps of a deploy: node-2: set maxmemory to 64mb (was 72mb)"
    assert_fails(sized, "resize", "--yes", code=8, name="refused", says=says)
    assert untouched(sized) == before
    sized.deploy()


def test_nobody_to_ask_and_no(sized: LocalFleet) -> None:
    before = untouched(sized)
    assert_fails(sized, "resize", code=9, name="declined", says="no terminal")
    with at_terminal(sized, "resize") as terminal:
        shown = terminal.read_until("write and deploy this?")
        assert "from 64mb to 128mb" in shown
        terminal.answer("n")
        assert terminal.finish()[0] == 9
    assert untouched(sized) == before


def test_another_operation_is_respected(sized: LocalFleet) -> None:
    before = untouched(sized)
    with keeper(sized) as client:
        client.set("rlctl:{lock}", owner(), px=LASTS_MS)
        assert_fails(sized, "resize", "--yes", code=8, name="lock-held", says="locked by ada@elsewhere.example")
    assert untouched(sized) == before


def test_a_file_that_changed_while_it_waited_is_not_overwritten(sized: LocalFleet) -> None:
    before = sized.file.read_bytes()
    with keeper(sized) as client:
        client.set("rlctl:{lock}", owner(), px=60_000)
        process = sized.spawn("resize", "--yes", "--wait")
        assert process.stderr is not None
        assert "waiting for the fleet's lock" in process.stderr.readline()
        sized.file.write_bytes(before + b"# another word\n")
    _out, err = process.communicate()
    try:
        assert process.returncode == 8, err
        assert "has changed meanwhile" in err
        assert sized.file.read_bytes() == before + b"# another word\n"
        assert memory(sized) == {64 * MIB}
    finally:
        sized.file.write_bytes(before)


def test_a_file_that_cannot_be_written_changes_no_fleet(sized: LocalFleet) -> None:
    # The name is too long for a temporary file beside it.
    place = sized.folder / ("t" * 250)
    shutil.copy(sized.file, place)
    before = untouched(sized)
    ran = sized.run_bare("-f", str(place), "resize", "--yes", "-o", "json", expect=6)
    assert "cannot write" in ran.error()["message"]
    assert untouched(sized) == before


def test_a_deploy_that_fails_after_the_file_was_written_says_so(
    make_fleet: Callable[[dict[str, Any]], LocalFleet],
) -> None:
    fleet = make_fleet(sentinel_document())
    fleet.deploy()
    conf = fleet.node_folder("node-1") / "static.conf"
    kept = conf.read_text(encoding="utf-8")
    conf.unlink()
    conf.mkdir()
    (conf / "in-the-way").touch()
    error = fleet.run("resize", "--yes", "-o", "json", expect=None).error()
    assert f"{fleet.file} now says maxmemory 128mb" in error["message"]
    assert error["hint"].startswith("`rlctl deploy` continues")
    (conf / "in-the-way").unlink()
    conf.rmdir()
    conf.write_text(kept, encoding="utf-8")
    fleet.deploy()
    assert memory(fleet) == {128 * MIB}


def test_json_stays_json(sized: LocalFleet) -> None:
    place = sized.folder / "written.json"
    place.write_text(topology_text(load_topology(sized.file.read_bytes(), "t.yaml")), encoding="utf-8")
    sized.run_bare("-f", str(place), "resize", "80mb", "--yes")
    assert json.loads(place.read_text(encoding="utf-8"))["memory"]["maxmemory"] == "80mb"
    sized.deploy()
    wait_for(lambda: memory(sized) == {64 * MIB}, "the old size")
