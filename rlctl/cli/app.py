"""What every command gets: the merged common options, the streams, and the ways to ask."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import update_wrapper
from pathlib import Path
from typing import Any

import click

from rlctl.cli.options import COMMON, DEFAULT_FILE, common_options
from rlctl.cli.output import Output
from rlctl.cli.streams import is_dropped
from rlctl.errors import Declined, NotFound, Unreachable
from rlctl.execute.stop import ended_by_signals
from rlctl.files.mistakes import ImpossibleSettings
from rlctl.files.yaml import MAX_BYTES
from rlctl.state.home import Home
from rlctl.system.files import read_given
from rlctl.topology.load import load_topology, raise_at_lines
from rlctl.topology.model import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Danger:
    """What a change can do that wants the fleet's name: the label of each instance, and all of it in words."""

    label: str
    says: str


LOSS = Danger(label="LOSS", says="this can lose data")
ENFORCEMENT = Danger(label="ENFORCEMENT ENDS", says="this ends or loosens enforcement")


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """One invocation."""

    file: Path
    names_file: bool
    output: Output
    timeout_s: float | None
    verbose: bool
    argv: tuple[str, ...]

    @property
    def home(self) -> Home:
        """The state folder."""
        return replace(Home.from_environment(), topology_folder=self.file.absolute().parent)

    def topology(self) -> Topology:
        """The topology file; InvalidFile and NotFound say what is wrong."""
        return load_topology(self.source(), str(self.file))

    def source(self) -> bytes:
        """The topology file as it stands."""
        try:
            return read_given(self.file, MAX_BYTES)
        except FileNotFoundError as failure:
            raise NotFound(
                f"{self.file}: no such file", hint="write one with `rlctl init`, or name one with -f or RLCTL_TOPOLOGY"
            ) from failure
        except OSError as failure:
            raise Unreachable(
                f"cannot read {self.file}: {failure.strerror}", hint="name a readable topology file with -f"
            ) from failure

    def timeout(self, default_s: float) -> float:
        """--timeout, or the verb's own."""
        return default_s if self.timeout_s is None else self.timeout_s

    def agree(self, question: str, *, yes: bool, about: Iterable[str] = ()) -> None:
        """Ask, after saying what the question is about; Declined on no, and where there is nobody to ask."""
        self._tell(about, asking=not yes)
        if yes:
            return
        if not _can_ask():
            raise Declined("no terminal to ask on", hint="--yes agrees in advance, --dry-run only shows")
        with _answered():
            agreed = click.confirm(question, default=False, err=True)
        if not agreed:
            raise Declined("declined; nothing was changed", hint="--dry-run shows the plan without asking")

    def agree_to_loss(
        self, name: str, losses: tuple[str, ...], *, confirmed: str | None, danger: Danger = LOSS
    ) -> None:
        """What can lose data, or ends enforcement, wants the fleet's name, typed now or given with --confirm."""
        self._tell((f"{danger.label}: {loss}" for loss in losses), asking=confirmed is None)
        if confirmed is None:
            if not _can_ask():
                raise Declined(
                    f"{danger.says}: {'; '.join(losses)}",
                    hint=f"--confirm {name} agrees in advance; --yes does not",
                )
            with _answered():
                confirmed = click.prompt(
                    f"type the fleet's name ({name}) to go on", default="", err=True, show_default=False
                )
        if confirmed != name:
            raise Declined(
                f"{confirmed!r} is not the fleet's name {name!r}; nothing was changed",
                hint=f"{danger.says}, so the name is wanted letter by letter",
            )

    def _tell(self, lines: Iterable[str], *, asking: bool) -> None:
        """Nobody is asked about what -q hides."""
        output = replace(self.output, quiet=self.output.quiet and not asking)
        for line in lines:
            output.note(line)


def _can_ask() -> bool:
    return sys.stdin.isatty() and not is_dropped(sys.stderr)


@contextmanager
def _answered() -> Iterator[None]:
    """A signal ends a question at once; the end of the input declines it, and so does a terminal that is gone."""
    with ended_by_signals("stopped at a question; what it asks for was not done", hint="the same command asks again"):
        try:
            yield
        except (click.Abort, OSError) as ending:
            raise Declined("the question was not answered; nothing was changed", hint="--yes or --confirm") from ending


def with_app(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give the command its App; an option after the command wins over the same one before it."""

    @click.pass_context
    def run(context: click.Context, /, **params: Any) -> Any:  # noqa: ANN401
        before = context.find_root().params
        own = {name: params.pop(name, None) for name in COMMON}
        merged = {name: before.get(name) if value is None else value for name, value in own.items()}
        app = _app(merged)
        try:
            return context.invoke(command, app, **params)
        except ImpossibleSettings as failure:
            raise_at_lines(app.source(), str(app.file), failure)
            raise

    return common_options(update_wrapper(run, command))


def _app(options: dict[str, Any]) -> App:
    file = options["file"] or Path(os.environ.get("RLCTL_TOPOLOGY") or DEFAULT_FILE)
    return App(
        file=file,
        names_file=bool(options["file"] or os.environ.get("RLCTL_TOPOLOGY")),
        output=Output(
            as_json=options["output"] == "json",
            quiet=bool(options["quiet"]),
            colour=not options["no_color"] and "NO_COLOR" not in os.environ,
        ),
        timeout_s=options["timeout"],
        verbose=bool(options["verbose"]),
        argv=tuple(sys.argv[1:]),
    )
