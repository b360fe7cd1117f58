"""Fixtures and hooks of all layers: required layers, order of tests, evidence of a failed test."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

import hypothesis.core
import pytest
import uvloop
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from tests import reruns
from tests.driver import STARTER, Fleet, real_start
from tests.evidence import tails
from tests.rotation import turn, waits
from tests.seed import SEED, chance

TESTS = Path(__file__).parent
LAB_LAYERS = {"docker", "hosts"}
# The tests of these files share no fleet.
SPREAD = ("test_drill_scenarios.py", "test_shipped_runbooks.py")
LAB = pytest.StashKey[ExitStack]()
REQUIRED = frozenset(filter(None, os.environ.get("RLCTL_REQUIRE", "").split(",")))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--in-turns", action="store_true", help="leave files that take turns to the next run")


def pytest_configure(config: pytest.Config) -> None:
    """Reset settings that the process of the tests may have inherited."""
    config.pluginmanager.register(reruns, "reruns")
    # A process started in the background ignores SIGINT, and so do its children. Tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The duration of an example depends on the machine more than on the code.
    settings.register_profile("patient", settings(), deadline=None, derandomize=False)
    settings.load_profile("patient")
    # In CI the seed is the commit, so a failure repeats; at home each run has other examples.
    if config.getoption("--hypothesis-seed") is None and {"CI", "RLCTL_SEED"} & os.environ.keys():
        hypothesis.core.global_force_seed = chance("hypothesis").getrandbits(64)


def pytest_report_header() -> str:
    half = "odd" if turn() % 2 else "even"
    return f"RLCTL_SEED={SEED}: the {half} half of the variants that take turns"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start the lab before the workers, because they must not start one engine at the same time."""
    from tests.lab.session import running_lab  # noqa: PLC0415 - it asks this module what is required
    from tests.lab.shell import LabError  # noqa: PLC0415

    if not hasattr(session.config, "workerinput") and LAB_LAYERS & _layers(session.config.args):
        session.config.stash[LAB] = lab = ExitStack()
        with suppress(LabError):  # the fixtures of each layer report why the lab is missing
            lab.enter_context(running_lab())


def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.stash.get(LAB, ExitStack()).close()


def _layers(arguments: Sequence[str]) -> set[str]:
    named = [Path(argument.partition("::")[0]).resolve() for argument in arguments]
    inside = {path.relative_to(TESTS).parts[:1] for path in named if path.is_relative_to(TESTS)}
    return LAB_LAYERS if () in inside or TESTS.parent in named else {part for parts in inside for part in parts}


def _is_spread(name: str) -> bool:
    return any(file in name for file in SPREAD)


class FilesAndDrills(LoadFileScheduling):
    """Keep each file on one worker, with its fleets. Drills and runbooks run at the end, spread over the workers."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if _is_spread(nodeid) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return FilesAndDrills(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path.relative_to(TESTS).as_posix(), []).append(item)
    left = [name for name in files if config.getoption("in_turns") and waits(name)]
    config.hook.pytest_deselected(items=[item for name in left for item in files.pop(name)])
    items[:] = [item for name in _turns(files) for item in files[name]]


def _turns(names: Iterable[str]) -> list[str]:
    """Alternate files on hosts and in containers, longest first, with other files: Ansible uses a whole CPU."""
    slow = sorted(
        (name for name in names if name.split("/")[0] in LAB_LAYERS), key=lambda name: "test_site" not in name
    )
    others = sorted(
        (name for name in names if name not in slow), key=lambda name: (_is_spread(name), "/limiter/" in name)
    )
    return [name for pair in zip_longest(slow, others) for name in pair if name is not None]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the last lines of the fleets' logs and journals to the report of a failed test."""
    report = yield
    if report.failed:
        folders = [value for value in getattr(item, "funcargs", {}).values() if isinstance(value, Path | Fleet)]
        report.sections.extend(tails([one.folder if isinstance(one, Fleet) else one for one in folders]))
    return report


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the operator's fleets out of reach of every test."""
    for name in ("RLCTL_TOPOLOGY", "RLCTL_SECRETS", "RLCTL_REDIS_SERVER", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RLCTL_HOME", str(tmp_path / "rlctl-home"))


@pytest.fixture(scope="module")
def real_starts() -> Iterator[None]:
    """Start a new interpreter for each command, for modules that test the program's start."""
    forked, STARTER.start = STARTER.start, real_start
    yield
    STARTER.start = forked


RunAsync = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run_async(request: pytest.FixtureRequest) -> RunAsync:
    """Run a coroutine on each event loop that services use."""
    chosen: RunAsync = request.param
    return chosen


def skip_or_fail(layer: str, reason: str) -> None:
    """Skip the layer with a reason, or fail if RLCTL_REQUIRE names it."""
    if layer in REQUIRED:
        pytest.fail(f"layer {layer} is required here: {reason}", pytrace=False)
    pytest.skip(f"SKIPPED LAYER {layer}: {reason}")
