"""Rules files that tests apply."""

from pathlib import Path
from typing import Any

import yaml

from tests.local.driver import LocalFleet


def rule(name: str = "api-per-key", limit: int = 1000, **more: Any) -> dict[str, Any]:
    own = {"id": name, "algorithm": "sliding_counter", "limit": limit, "window": "1h", "key": "apikey:{api_key}"}
    return own | more


def write(fleet: LocalFleet, *rules: dict[str, Any], name: str = "rules.yaml") -> Path:
    path = fleet.folder / name
    path.write_text(yaml.safe_dump({"version": 1, "rules": list(rules)}), encoding="utf-8")
    return path


def apply(fleet: LocalFleet, *rules: dict[str, Any]) -> dict[str, Any]:
    write(fleet, *rules)
    return fleet.run("rules", "apply", "rules.yaml", "--confirm", "limiter", "-o", "json").json()


def status(fleet: LocalFleet, expect: int = 0) -> dict[str, Any]:
    return fleet.run("rules", "status", "-o", "json", expect=expect).json()
