"""rlctl secrets: exports and imports a fleet's secrets."""

from pathlib import Path

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpGroup
from rlctl.errors import InvalidFile, NotFound, Refused
from rlctl.secrets import HINT, FleetSecrets, extends, from_text
from rlctl.state import vault
from rlctl.system.files import make_private_folder, read_own, read_text


@click.group(cls=HelpGroup)
def secrets() -> None:
    """Export or import the secrets of the fleet.

    To operate the same fleet, another machine needs its secrets.

    Examples:
      rlctl secrets export limiter.json
      rlctl secrets import limiter.json
    """


@secrets.command("export")
@click.argument("path", type=click.Path(path_type=Path))
@with_app
def export(app: App, path: Path) -> None:
    """Write the secrets to a file that only you can read.

    An existing file is not overwritten.

    Examples:
      rlctl secrets export limiter.json
    """
    topology = app.topology()
    found = vault.read(app.home.fleet(topology.name).secrets, topology.name)
    if found is None:
        raise NotFound(
            f"this machine has no secrets of fleet {topology.name}",
            hint="`rlctl deploy` creates them; `rlctl secrets import` imports those of another machine",
        )
    if path.exists():
        raise Refused(f"{path} exists", hint="give another path, or remove the file first")
    vault.write(path, found)
    _show(app, "export", topology.name, path)


@secrets.command("import")
@click.argument("path", type=click.Path(path_type=Path))
@with_app
def import_(app: App, path: Path) -> None:
    """Import the secrets from a file.

    Adds the passwords of further services. Never replaces secrets of the fleet that differ.

    Examples:
      rlctl secrets import limiter.json
    """
    topology = app.topology()
    text = read_text(path)
    if text is None:
        raise NotFound(
            f"{path}: no such file", hint="run `rlctl secrets export` on the machine that deployed the fleet"
        )
    given = from_text(text, path)
    _check_authority(given, path)
    if given.name != topology.name:
        raise Refused(
            f"{path} contains the secrets of fleet {given.name}, but the topology is of fleet {topology.name}",
            hint="give the topology file of that fleet with -f",
        )
    home = app.home
    home.open_for_writing()
    folder = home.fleet(topology.name)
    own = read_own(folder.secrets)
    if own is not None and not extends(given, from_text(own, folder.secrets)):
        raise Refused(
            f"this machine already has other secrets of fleet {topology.name}",
            hint=f"move {folder.secrets} away if this machine no longer needs it",
        )
    make_private_folder(folder.root)
    vault.write(folder.secrets, given)
    _show(app, "import", topology.name, path)


def _check_authority(given: FleetSecrets, path: Path) -> None:
    if given.authority is None:
        return
    from rlctl.system.tls import read_authority  # noqa: PLC0415  slow to import, and only TLS needs it

    try:
        read_authority(given.authority)
    except ValueError as failure:
        raise InvalidFile(f"{path}:1: not a secrets file: {failure}", hint=HINT) from failure


def _show(app: App, verb: str, name: str, path: Path) -> None:
    if app.output.as_json:
        app.output.result({"schema": f"rlctl.secrets-{verb}/1", "name": name, "path": str(path)})
    else:
        direction = "to" if verb == "export" else "from"
        app.output.text(f"{name}: secrets {verb}ed {direction} {path}")
