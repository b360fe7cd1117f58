"""The options of every command, and the types of option values."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from rlctl.files.units import parse_duration, parse_size

DEFAULT_FILE = "topology.yaml"
Function = TypeVar("Function", bound=Callable[..., Any])


class Duration(click.ParamType[float]):
    """An option value such as `30s` or `2m`, converted to seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        try:
            return parse_duration(str(value)) / 1000
        except ValueError as failure:
            self.fail(str(failure), param, ctx)


class Size(click.ParamType[int]):
    """An option value such as `40kb` or `8gb`, converted to bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401
        try:
            return parse_size(str(value))
        except ValueError as failure:
            self.fail(str(failure), param, ctx)


COMMON: dict[str, Callable[[Function], Function]] = {
    "file": click.option(
        "-f",
        "--file",
        type=click.Path(path_type=Path),
        help=f"Topology file [env RLCTL_TOPOLOGY, else {DEFAULT_FILE}].",
    ),
    "output": click.option("-o", "--output", type=click.Choice(["table", "json"]), help="Output format [table]."),
    "quiet": click.option("-q", "--quiet", is_flag=True, default=None, help="Print results and errors only."),
    "verbose": click.option(
        "-v", "--verbose", is_flag=True, default=None, help="Show more details, such as node ids and evidence."
    ),
    "no_color": click.option("--no-color", is_flag=True, default=None, help="Print without colours, as with NO_COLOR."),
    "timeout": click.option("--timeout", type=Duration(), help="Longest time to wait, such as 30s or 2m."),
}


def common_options(command: Function) -> Function:
    """Add the options that all commands share."""
    for option in reversed(COMMON.values()):
        command = option(command)
    return command
