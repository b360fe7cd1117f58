"""rlctl secrets: the one way to hand a fleet's secrets on."""

from pathlib import Path

import click

from rlctl.cli.app import App, with_app
from rlctl.errors import InvalidFile, NotFound, Refused
from rlctl.secrets import HINT, FleetSecrets, extends, from_text
from rlctl.state import vault
from rlctl.system.files import make_private_folder, read_own, read_text


@click.group()
def secrets() -> None:
    """Hand the fleet's secrets to another operator, or take them over.

    \b
    rlctl secrets export limiter.json     here
    rlctl secrets import limiter.json     and there
    """


@secrets.command("export")
@click.argument("path", type=click.Path(path_type=Path))
@with_app
def export(app: App, path: Path) -> None:
    """Write the secrets to PATH, readable by you alone; an existing file is left alone.

    \b
    rlctl secrets export limiter.json
    """
    topology = app.topology()
    found = vault.read(app.home.fleet(topology.name).secrets, topology.name)
    if found is None:
        raise NotFound(f"there are no secrets of fleet {topology.name} here", hint="they are made by `rlctl deploy`")
    if path.exists():
        raise Refused(f"{path} exists", hint="name another path, or remove it first")
    vault.write(path, found)
    _tell(app, "export", topology.name, path)


@secrets.command("import")
@click.argument("path", type=click.Path(path_type=Path))
@with_app
def import_(app: App, path: Path) -> None:
    """Take the secrets in PATH over; different ones that are here already are never replaced.

    Passwords of further services are added to those that are here.

    \b
    rlctl secrets import limiter.json
    """
    topology = app.topology()
    text = read_text(path)
    if text is None:
        raise NotFound(f"{path}: no such file", hint="`rlctl secrets export` writes one where the fleet was deployed")
    given = from_text(text, path)
    _check_authority(given, path)
    if given.name != topology.name:
        raise Refused(
            f"{path} holds the secrets of fleet {given.name}, the topology names {topology.name}",
            hint="name the topology that belongs to it with -f",
        )
    home = app.home
    home.open_for_writing()
    folder = home.fleet(topology.name)
    own = read_own(folder.secrets)
    if own is not None and not extends(given, from_text(own, folder.secrets)):
        raise Refused(
            f"other secrets of fleet {topology.name} are here already",
            hint=f"move {folder.secrets} away if you are sure",
        )
    make_private_folder(folder.root)
    vault.write(folder.secrets, given)
    _tell(app, "import", topology.name, path)


def _check_authority(given: FleetSecrets, path: Path) -> None:
    if given.authority is None:
        return
    from rlctl.system.tls import read_authority  # noqa: PLC0415  costs start-up time that only TLS pays

    try:
        read_authority(given.authority)
    except ValueError as failure:
        raise InvalidFile(f"{path}:1: not a secrets file: {failure}", hint=HINT) from failure


def _tell(app: App, verb: str, name: str, path: Path) -> None:
    if app.output.as_json:
        app.output.result({"schema": f"rlctl.secrets-{verb}/1", "name": name, "path": str(path)})
    else:
        direction = "to" if verb == "export" else "from"
        app.output.text(f"{name}: secrets {verb}ed {direction} {path}")
