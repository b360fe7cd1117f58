"""Help pages that end with examples."""

import inspect
import textwrap
from typing import Any

import click

_HEADING = "\n\nExamples:\n"


class HelpCommand(click.Command):
    """A command whose `--help` shows the `Examples:` block of its docstring last, after the options."""

    def __init__(self, name: str | None, **attributes: Any) -> None:  # noqa: ANN401  as click passes them
        text, _, examples = inspect.cleandoc(attributes.pop("help", None) or "").partition(_HEADING)
        super().__init__(name, help=text, **attributes)
        self.examples = textwrap.dedent(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        with formatter.section("Examples"):
            formatter.write(textwrap.indent(self.examples, " " * formatter.current_indent) + "\n")


class HelpGroup(HelpCommand, click.Group):
    """A group whose own help page and whose commands' help pages end with examples."""

    command_class = HelpCommand
