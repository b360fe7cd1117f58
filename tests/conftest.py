"""What all layers share: which layers must run here, and nothing of the operator's own environment."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

REQUIRED = frozenset(filter(None, os.environ.get("RLCTL_REQUIRE", "").split(",")))


def pytest_configure() -> None:
    """What the process that runs the tests may have been given otherwise."""
    # Who was started in the background is deaf to Ctrl-C, and so is whom it starts: tests press it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # How long an example takes says more of the machine than of the code.
    settings.register_profile("patient", settings(), deadline=None)
    settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees or touches the operator's fleets."""
    for name in ("RLCTL_TOPOLOGY", "RLCTL_SECRETS", "RLCTL_REDIS_SERVER", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RLCTL_HOME", str(tmp_path / "rlctl-home"))


def skip_or_fail(layer: str, reason: str) -> None:
    """Absent tools skip loudly at home and fail where the layer is required."""
    if layer in REQUIRED:
        pytest.fail(f"layer {layer} is required here: {reason}", pytrace=False)
    pytest.skip(f"SKIPPED LAYER {layer}: {reason}")
