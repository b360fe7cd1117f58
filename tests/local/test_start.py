"""What a command on a real fleet imports and reads, from its start to its end."""

import json
import subprocess
import sys

import pytest

from tests.local.driver import LocalFleet

CODE = """
import json, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from rlctl.cli.main import run
code = run(sys.argv[1:])
print(json.dumps({"code": code, "opened": opened, "modules": sorted(sys.modules)}), file=sys.stderr)
"""
# What none of these commands uses on a healthy local fleet without TLS.
UNUSED = {
    *("asyncio", "cryptography", "docker", "email", "http", "jinja2", "jmespath", "matplotlib", "multiprocessing"),
    *("redis", "requests", "ssl", "rlctl.limiter", "rlctl.rules", "rlctl.runbooks.page", "rlctl.scripts.manifest"),
}


@pytest.mark.parametrize(
    ("command", "code", "also_unused"),
    [
        ("--help", 0, {"psutil", "rich", "yaml", "rlctl.topology", "rlctl.runbooks"}),
        ("status", 0, set[str]()),
        ("status -o json", 0, {"rich"}),
        ("deploy --dry-run -o json", 0, {"rich"}),
        ("fence no-such-node", 5, {"rich"}),
        ("status --no-such-option", 2, {"rich"}),
    ],
)
def test_a_command_loads_what_it_uses(
    shared_cluster: LocalFleet, command: str, code: int, also_unused: set[str]
) -> None:
    argv = [sys.executable, "-c", CODE, "-f", str(shared_cluster.file), *command.split()]
    done = subprocess.run(argv, env=shared_cluster.env(), capture_output=True, text=True, timeout=300, check=True)
    seen = json.loads(done.stderr.splitlines()[-1])
    assert seen["code"] == code, done.stderr
    assert not set(seen["modules"]) & (UNUSED | also_unused)
    assert [name for name in seen["opened"] if name.endswith((".md", "manifest.yaml"))] == []
