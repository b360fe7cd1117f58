"""The options that every command has, and the types of option values."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from rlctl.files.units import parse_duration, parse_size

DEFAULT_FILE = "topology.yaml"
Function = TypeVar("Function", bound=Callable[..., Any])


class Duration(click.ParamType[float]):
    """`30s`, `2m`: a time with its unit."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Seconds."""
        try:
            return parse_duration(str(value)) / 1000
        except ValueError as failure:
            self.fail(str(failure), param, ctx)


class Size(click.ParamType[int]):
    """`40kb`, `8gb`: an amount of memory with its unit."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401
        """Bytes."""
        try:
            return parse_size(str(value))
        except ValueError as failure:
            self.fail(str(failure), param, ctx)


COMMON: dict[str, Callable[[Function], Function]] = {
    "file": click.option(
        "-f", "--file", type=click.Path(path_type=Path), help=f"Topology file [{DEFAULT_FILE}; env RLCTL_TOPOLOGY]."
    ),
    "output": click.option("-o", "--output", type=click.Choice(["table", "json"]), help="Form of the result [table]."),
    "quiet": click.option("-q", "--quiet", is_flag=True, default=None, help="No progress, only results and errors."),
    "verbose": click.option("-v", "--verbose", is_flag=True, default=None, help="Show more: ids, evidence."),
    "no_color": click.option("--no-color", is_flag=True, default=None, help="No colours, as with NO_COLOR."),
    "timeout": click.option("--timeout", type=Duration(), help="How long to wait, such as 30s or 2m."),
}


def common_options(command: Function) -> Function:
    """The options that all commands share."""
    for option in reversed(COMMON.values()):
        command = option(command)
    return command
