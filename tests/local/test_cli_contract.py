"""The contract with scripts: options on both sides, JSON keys, one document on stdout, one form of errors."""

import json
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from rlctl.cli.main import COMMANDS
from tests.local.driver import LocalFleet
from tests.local.failures import assert_failed_cleanly

pytestmark = pytest.mark.usefixtures("real_starts")

STATUS_KEYS = {"schema", "name", "kind", "state", "findings", "nodes"}
NODE_KEYS = {
    *("id", "role", "shard", "host", "port", "slots", "link", "lag_bytes", "version", "alive", "scripts_missing"),
}
# Keys outside the contract, meant for people.
MORE_NODE_KEYS = {"name", "view", "unproven"}
VERBS = [
    *((name,) for name in COMMANDS),
    *(("secrets", "export"), ("secrets", "import"), ("render", "config")),
    *(("schema", of) for of in ("topology", "rules", "scenario", "failover-drill-run")),
    *(("failover-drill", verb) for verb in ("run", "list", "show", "report", "heal")),
    *(("runbook", verb) for verb in ("list", "show", "run", "test")),
    *(("capacity", verb) for verb in ("model", "predict", "compare", "plan", "measure")),
    *(("rules", verb) for verb in ("plan", "apply", "status", "shadow", "canary", "promote", "rollback", "explain")),
    *(("scripts", verb) for verb in ("list", "plan", "apply", "status", "verify", "rollback", "history", "watch")),
]


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_help_of_every_command_shows_an_example(cluster: LocalFleet, words: tuple[str, ...]) -> None:
    ran = cluster.run_bare(*words, "--help")
    assert ran.err == ""
    usage, _, rest = ran.out.partition("\n")
    assert usage.startswith(f"Usage: rlctl {' '.join(words)}")
    assert f"rlctl {' '.join(words)}" in rest
    assert "--output" in rest or words[-1] in {
        "secrets",
        "render",
        "schema",
        "scripts",
        "rules",
        "capacity",
        "failover-drill",
        "runbook",
    }


def test_help_names_every_exit_code_and_command(cluster: LocalFleet) -> None:
    for flag in ("-h", "--help"):
        text = cluster.run_bare(flag).out
        assert all(f"  {name} " in text for name in COMMANDS)
        assert all(f" {code} " in text for code in (*range(17), 129, 130))
        assert "143" in text


def test_version(cluster: LocalFleet) -> None:
    assert cluster.run_bare("--version").out.startswith("rlctl, version ")


def test_no_command_shows_help_on_stderr(cluster: LocalFleet) -> None:
    ran = cluster.run_bare(expect=2)
    assert ran.out == ""
    assert "Usage: rlctl" in ran.err
    assert cluster.run_bare("-o", "json", expect=2).error()["code"] == "usage"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("statsu",), "did you mean 'status'"),
        (("frobnicate",), "no such command 'frobnicate'"),
        (("status", "--frobnicate"), "--frobnicate"),
        (("status", "--timeout", "5"), "5"),
        (("status", "-o", "yaml"), "yaml"),
        (("env", "--as", "root"), "root"),
        (("deploy", "--dry-run", "--plan", "p.json"), "exclude each other"),
        (("deploy", "--plan-out", "p.json"), "needs --dry-run"),
        (("secrets", "frobnicate"), "frobnicate"),
        (("completion", "tcsh"), "tcsh"),
        (("history", "-n", "0"), "0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_usage(cluster: LocalFleet, words: tuple[str, ...], says: str) -> None:
    ran = cluster.run(*words, expect=2)
    assert_failed_cleanly(ran)
    assert says in ran.err
    error = cluster.run("-o", "json", *words, expect=2).error() if "-o" not in words else None
    assert error is None or (error["code"] == "usage" and says in error["message"] and error["hint"])
    assert not cluster.home.exists()


@pytest.mark.parametrize("form", [("-o", "json"), ("--output", "json"), ("--output=json",), ("-ojson",)], ids=" ".join)
@pytest.mark.parametrize("place", ["before", "after"])
def test_json_errors_wherever_the_option_stands(cluster: LocalFleet, form: tuple[str, ...], place: str) -> None:
    words = (*form, "-f", "nowhere.yaml", "status") if place == "before" else ("status", "-f", "nowhere.yaml", *form)
    ran = cluster.run_bare(*words, expect=5)
    assert ran.out == ""
    assert json.loads(ran.err) == {
        "error": {"code": "not-found", "message": "nowhere.yaml: no such file", "hint": ran.error()["hint"]}
    }
    assert "rlctl init" in ran.error()["hint"]


def test_the_later_option_wins(shared_cluster: LocalFleet) -> None:
    file = str(shared_cluster.file)
    after = shared_cluster.run_bare("-f", "nowhere.yaml", "-o", "table", "status", "-f", file, "-o", "json")
    assert after.json()["name"] == "shared"
    before = shared_cluster.run_bare("-f", file, "-o", "json", "status", "-o", "table")
    assert before.out.startswith("healthy fleet shared")
    twice = shared_cluster.run_bare("status", "-o", "json", "-f", "nowhere.yaml", "-f", file, "-o", "table")
    assert twice.out.startswith("healthy fleet shared")


def test_the_topology_by_default_by_variable_and_by_option(
    shared_cluster: LocalFleet, tmp_path: Path, shared_sentinel: LocalFleet
) -> None:
    def named(**variables: str) -> str:
        return shared_cluster.run_bare("status", "-o", "json", **variables).json()["name"]

    assert named() == "shared"
    empty = LocalFleet(folder=tmp_path, document={}, extra_env={"RLCTL_HOME": str(shared_cluster.home)})
    assert "topology.yaml: no such file" in empty.run_bare("status", expect=5).err
    by_variable = empty.run_bare("status", "-o", "json", RLCTL_TOPOLOGY=str(shared_cluster.file))
    assert by_variable.json()["name"] == "shared"
    other = str(shared_sentinel.file)
    by_option = empty.run_bare("status", "-f", str(shared_cluster.file), "-o", "json", RLCTL_TOPOLOGY=other)
    assert by_option.json()["name"] == "shared"


def test_status_json_of_a_cluster(shared_cluster: LocalFleet) -> None:
    status = shared_cluster.status()
    assert set(status) == STATUS_KEYS
    assert (status["schema"], status["kind"], status["state"]) == ("rlctl.status/1", "cluster", "healthy")
    assert status["findings"] == []
    for node in status["nodes"]:
        assert set(node) == NODE_KEYS | MORE_NODE_KEYS
        assert node["alive"] is True
        assert node["shard"] in {0, 1, 2}
        assert node["role"] in {"primary", "replica"}
        assert node["link"] == ("none" if node["role"] == "primary" else "up")
        assert isinstance(node["lag_bytes"], int) or node["role"] == "primary"
        assert len(node["id"]) == 40
    assert len({node["id"] for node in status["nodes"]}) == 6


def test_status_json_of_a_sentinel_fleet(shared_sentinel: LocalFleet) -> None:
    status = shared_sentinel.status()
    assert set(status) == STATUS_KEYS
    assert status["kind"] == "sentinel"
    for node in status["nodes"]:
        assert set(node) == NODE_KEYS | MORE_NODE_KEYS
        assert node["slots"] == 0
        assert node["link"] == ("up" if node["role"] == "replica" else "none")


def test_status_json_of_an_absent_fleet(cluster: LocalFleet) -> None:
    ran = cluster.run("status", "-o", "json", expect=5)
    assert ran.json() == {
        "schema": "rlctl.status/1",
        "name": "limiter",
        "kind": "cluster",
        "state": "absent",
        "findings": [],
        "nodes": [],
    }
    assert cluster.run("status", expect=5).out.startswith("absent fleet limiter")
    assert not cluster.home.exists()


def test_env_json(shared_cluster: LocalFleet, shared_sentinel: LocalFleet) -> None:
    for fleet in (shared_cluster, shared_sentinel):
        is_sentinel = fleet is shared_sentinel
        for who, user in (("limiter", "limiter"), ("admin", "rlctl"), ("monitor", "monitor")):
            access = fleet.run("env", "--as", who, "-o", "json").json()
            port = fleet.base_port
            password = access["password"]
            assert len(password) >= 40
            assert access == {
                "schema": "rlctl.env/1",
                "kind": "sentinel" if is_sentinel else "cluster",
                "host": "127.0.0.1",
                "port": access["port"],
                "username": user,
                "password": password,
                "tls": False,
                "ca": None,
                "nodes": [f"127.0.0.1:{port + index}" for index in range(3 if is_sentinel else 6)],
                "sentinels": [f"127.0.0.1:{port + 1000 + index}" for index in range(3)] if is_sentinel else [],
                "master_name": "watched" if is_sentinel else None,
                "sentinel_username": user if is_sentinel else None,
                "sentinel_password": password if is_sentinel else None,
            }
            assert f"127.0.0.1:{access['port']}" in access["nodes"]


def test_deploy_json_with_and_without_changes(cluster: LocalFleet) -> None:
    planned = cluster.deploy("--dry-run", expect=10).json()
    first = cluster.deploy().json()
    again = cluster.deploy().json()
    for document in (planned, first, again):
        assert set(document) == {"schema", "changed", "steps", "elapsed_s"}
        assert document["schema"] == "rlctl.deploy/1"
        assert isinstance(document["elapsed_s"], float)
        assert all(set(step) == {"kind", "text", "outcome"} for step in document["steps"])
    assert (planned["changed"], first["changed"], again["changed"]) == (False, True, False)
    texts = [[step["text"] for step in document["steps"]] for document in (planned, first)]
    assert texts[0] == texts[1]
    gone = cluster.run("destroy", "--confirm", "limiter", "-o", "json").json()
    assert set(gone) == {"schema", "name", "changed", "removed", "packages_kept"}
    assert gone["schema"] == "rlctl.destroy/1"
    assert gone["changed"]
    assert cluster.processes() == []
    error = cluster.run("destroy", "--confirm", "limiter", "--packages", "-o", "json", expect=2).error()
    assert error["message"] == "--packages is for target hosts; rlctl installs no packages for target local"
    absent = cluster.run("destroy", "--confirm", "limiter", "-o", "json").json()
    assert not absent["changed"]


@pytest.mark.parametrize(
    ("words", "schema", "codes"),
    [
        (("status",), "rlctl.status/1", {0}),
        (("env",), "rlctl.env/1", {0}),
        (("doctor",), "rlctl.doctor/1", {0, 11, 12}),
        (("history",), "rlctl.history/1", {0}),
        (("unlock",), "rlctl.unlock/1", {0}),
        (("deploy", "--yes"), "rlctl.deploy/1", {0}),
        (("deploy", "--dry-run"), "rlctl.deploy/1", {0}),
        (("render", "config"), "rlctl.render-config/1", {0}),
        (("init", "fresh.yaml"), "rlctl.init/1", {0}),
        (("secrets", "export", "handed.json"), "rlctl.secrets-export/1", {0}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_one_json_document_with_its_schema(
    shared_cluster: LocalFleet, words: tuple[str, ...], schema: str, codes: set[int], tmp_path: Path
) -> None:
    placed = [str(tmp_path / word) if word.endswith((".yaml", ".json")) else word for word in words]
    ran = shared_cluster.run(*placed, "-o", "json", expect=None)
    assert ran.code in codes, ran.err
    assert ran.json()["schema"] == schema


def test_schema_topology_is_a_json_schema_that_the_sample_fits(cluster: LocalFleet) -> None:

    schema = cluster.run_bare("schema", "topology").json()
    assert "$schema" in schema
    jsonschema.validate(cluster.document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(cluster.document | {"colour": "red"}, schema)


@pytest.mark.parametrize(
    ("shell", "holds"), [("bash", "complete -o"), ("zsh", "#compdef rlctl"), ("fish", "complete --no-files")]
)
def test_completion_scripts(cluster: LocalFleet, shell: str, holds: str) -> None:
    ran = cluster.run_bare("completion", shell)
    assert holds in ran.out
    assert ran.err == ""


def test_completion_offers_commands_and_options(cluster: LocalFleet) -> None:
    words = {"_RLCTL_COMPLETE": "bash_complete", "COMP_CWORD": "1"}
    ran = cluster.run_bare(COMP_WORDS="rlctl de", **words)
    assert {line.partition(",")[2] for line in ran.out.splitlines()} == {"deploy", "demo", "destroy"}


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
@pytest.mark.parametrize("target", ["local", "docker", "hosts"])
def test_init_writes_what_loads(cluster: LocalFleet, kind: str, target: str) -> None:
    cluster.file.unlink()
    assert "wrote topology.yaml" in cluster.run_bare("init", "--kind", kind, "--target", target).out
    text = cluster.file.read_text(encoding="utf-8")
    assert yaml.safe_load(text)["kind"] == kind
    assert yaml.safe_load(text)["target"] == target
    assert "#" in text
    # No host is contacted, because the addresses in the file are examples.
    assert "static.conf" in cluster.run_bare("render", "config").out
    ran = cluster.run_bare("init", expect=8)
    assert_failed_cleanly(ran)
    assert cluster.file.read_text(encoding="utf-8") == text


def test_env_can_be_sourced_by_a_shell(shared_sentinel: LocalFleet) -> None:

    exports = shared_sentinel.run("env", "--as", "admin").out
    script = f'{exports}\nprintf \'%s|%s|%s\' "$REDIS_USERNAME" "$REDIS_MASTER_NAME" "$REDIS_SENTINELS"'
    said = subprocess.run(["/bin/sh"], input=script, capture_output=True, text=True, check=True).stdout
    port = shared_sentinel.base_port + 1000
    assert said == f"rlctl|watched|127.0.0.1:{port} 127.0.0.1:{port + 1} 127.0.0.1:{port + 2}"


def test_render_config_for_a_fleet_that_was_never_deployed(sentinel: LocalFleet) -> None:
    files = sentinel.run("render", "config", "-o", "json").json()["files"]
    assert {name.partition("/")[2] for name in files} == {"static.conf", "users.acl"}
    assert len(files) == 12
    assert "sentinel sentinel-user sentinel" in files["sentinel-0/static.conf"]
    assert not sentinel.home.exists()
