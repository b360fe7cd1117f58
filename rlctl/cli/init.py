"""rlctl init: writes a commented topology file."""

from pathlib import Path

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpCommand
from rlctl.errors import Refused, Unreachable
from rlctl.topology.model import Kind, TargetName
from rlctl.topology.template import template


@click.command(cls=HelpCommand)
@click.argument("path", type=click.Path(path_type=Path), default=Path("topology.yaml"))
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in Kind]),
    default=Kind.CLUSTER.value,
    show_default=True,
    help="Kind of fleet.",
)
@click.option(
    "--target",
    type=click.Choice([target.value for target in TargetName]),
    default=TargetName.LOCAL.value,
    show_default=True,
    help="Target that runs the processes.",
)
@with_app
def init(app: App, path: Path, kind: str, target: str) -> None:
    """Write a commented topology file.

    PATH is the file or its folder [topology.yaml]. An existing file is not overwritten.

    Examples:
      rlctl init --kind sentinel
      rlctl init inventories/staging/topology.yaml
    """
    if path.is_dir():
        path /= "topology.yaml"
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(template(Kind(kind), TargetName(target)))
    except FileExistsError as failure:
        raise Refused(f"{path} exists", hint="give another path, or remove the file first") from failure
    except OSError as failure:
        raise Unreachable(
            f"cannot write {path}: {failure.strerror}", hint="give a path in an existing folder that you may write to"
        ) from failure
    if app.output.as_json:
        app.output.result({"schema": "rlctl.init/1", "path": str(path), "kind": kind, "target": target})
    else:
        app.output.text(f"wrote {path}; next: rlctl deploy -f {path}")
