"""The common options, the output and the questions to the operator that all commands share."""

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
    """A kind of harm that an operator must accept by typing the fleet's name."""

    label: str  # prefix of each line about the harm
    description: str


LOSS = Danger(label="LOSS", description="this can lose data")
ENFORCEMENT = Danger(label="ENFORCEMENT ENDS", description="this ends or loosens enforcement")


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """The common options of one rlctl invocation."""

    file: Path
    names_file: bool  # whether -f or RLCTL_TOPOLOGY gave the file
    output: Output
    timeout_s: float | None
    verbose: bool
    argv: tuple[str, ...]

    @property
    def home(self) -> Home:
        return replace(Home.from_environment(), topology_folder=self.file.absolute().parent)

    def topology(self) -> Topology:
        """Read and check the topology file. Raises InvalidFile (with the line), NotFound or Unreachable."""
        return load_topology(self.source(), str(self.file))

    def source(self) -> bytes:
        """Return the bytes of the topology file."""
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
        """Return --timeout in seconds, or the command's default."""
        return default_s if self.timeout_s is None else self.timeout_s

    def agree(self, question: str, *, yes: bool, about: Iterable[str] = ()) -> None:
        """Print the lines of `about`, then ask for agreement; `yes` skips the question.

        Raises Declined if the operator does not agree, or if there is no terminal.
        """
        self._note_all(about, asking=not yes)
        if yes:
            return
        if not _can_ask():
            raise Declined(
                "the command needs an answer, but there is no terminal to ask on",
                hint="--yes agrees in advance, --dry-run only shows the plan",
            )
        with _reading_answer():
            agreed = click.confirm(question, default=False, err=True)
        if not agreed:
            raise Declined("declined; nothing was changed", hint="--dry-run shows the plan without asking")

    def agree_to_loss(
        self, name: str, losses: tuple[str, ...], *, confirmed: str | None, danger: Danger = LOSS
    ) -> None:
        """Print the losses and require the fleet's name, from --confirm or from a prompt.

        Raises Declined if the name is missing or wrong.
        """
        self._note_all((f"{danger.label}: {loss}" for loss in losses), asking=confirmed is None)
        if confirmed is None:
            if not _can_ask():
                raise Declined(
                    f"{danger.description}: {'; '.join(losses)}",
                    hint=f"--confirm {name} agrees in advance; --yes does not",
                )
            with _reading_answer():
                confirmed = click.prompt(
                    f"type the fleet's name ({name}) to continue", default="", err=True, show_default=False
                )
        if confirmed != name:
            raise Declined(
                f"{confirmed!r} is not the fleet's name {name!r}; nothing was changed",
                hint=f"{danger.description}: type the name exactly, or give --confirm {name}",
            )

    def _note_all(self, lines: Iterable[str], *, asking: bool) -> None:
        """Print the lines. -q hides them unless a question follows."""
        output = replace(self.output, quiet=self.output.quiet and not asking)
        for line in lines:
            output.note(line)


def _can_ask() -> bool:
    return sys.stdin.isatty() and not is_dropped(sys.stderr)


@contextmanager
def _reading_answer() -> Iterator[None]:
    """Wrap a prompt. A signal ends the prompt at once; end of input or a lost terminal raises Declined."""
    with ended_by_signals(
        "stopped at a question; the change in question was not made", hint="run the same command again"
    ):
        try:
            yield
        except (click.Abort, OSError) as ending:
            raise Declined(
                "the question was not answered; nothing was changed", hint="--yes or --confirm agrees in advance"
            ) from ending


def with_app(command: Callable[..., Any]) -> Callable[..., Any]:
    """Pass an App to the command. A common option after the command's name overrides one before the name."""

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
