"""rlctl completion: prints the completion script for a shell."""

import click
from click.shell_completion import get_completion_class

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpCommand


@click.command(cls=HelpCommand)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@with_app
@click.pass_context
def completion(context: click.Context, app: App, shell: str) -> None:
    """Print the completion script for a shell.

    Examples:
      eval "$(rlctl completion bash)"
      rlctl completion fish > ~/.config/fish/completions/rlctl.fish
    """
    root = context.find_root().command
    builder = get_completion_class(shell)
    if builder is None:
        raise click.UsageError(f"no completion for {shell}")
    app.output.verbatim(builder(root, {}, "rlctl", "_RLCTL_COMPLETE").source())
