"""lua/manifest.json: what lua/manifest.yaml says, for rlctl and services to read without a YAML reader.

A test compares both; `.venv/bin/python -m tests.unit.scripts.shipped` writes the file anew.
"""

import json
from dataclasses import asdict
from pathlib import Path

from rlctl.limits.release import Manifest, Script
from rlctl.limits.shipped import FILE_NAME
from rlctl.scripts.manifest import read_manifest

FOLDER = Path(__file__).parents[3] / "lua"


def manifest_json(manifest: Manifest) -> str:
    """The whole file, with a line for each example."""
    scripts = ",\n".join(_script_json(script) for script in manifest.scripts)
    head = f'"digest": {json.dumps(manifest.digest)},\n"releases": {json.dumps(manifest.releases, indent=1)}'
    return f'{{\n{head},\n"scripts": [\n{scripts}\n]\n}}\n'


def read_yaml() -> Manifest:
    path = FOLDER / "manifest.yaml"
    return read_manifest(path.read_bytes(), str(path), str(FOLDER), lambda name: (FOLDER / name).read_bytes())


def _script_json(script: Script) -> str:
    fields = {name: value for name, value in asdict(script).items() if name not in {"source", "examples"}}
    examples = ",\n".join(json.dumps({"args": one.args, "reply": one.reply}) for one in script.examples)
    return f'{json.dumps(fields)[:-1]}, "examples": [\n{examples}\n]}}'


if __name__ == "__main__":
    (FOLDER / FILE_NAME).write_text(manifest_json(read_yaml()), encoding="ascii")
