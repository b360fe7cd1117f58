"""rlctl env: connection settings; the one command that prints secrets."""

import shlex

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.opened import opened
from rlctl.errors import NotFound
from rlctl.operations.env import As, connection


@click.command()
@click.option(
    "--as",
    "who",
    type=click.Choice([who.value for who in As]),
    default=As.LIMITER.value,
    show_default=True,
    help="limiter decides, admin may do everything, monitor only reads state.",
)
@click.option("--service", metavar="S", help="The user of this service, of security.services, instead of limiter.")
@with_app
def env(app: App, who: str, service: str | None) -> None:
    """Print connection settings; the table form can be sourced by a shell.

    \b
    eval "$(rlctl env --as admin)"
    redis-cli -c -h $REDIS_HOST -p $REDIS_PORT --user $REDIS_USERNAME ping
    rlctl env --service checkout -o json > checkout.json
    """
    topology = app.topology()
    with opened(app) as fleet:
        if fleet.is_new:
            raise NotFound(f"fleet {topology.name} is not deployed", hint="`rlctl deploy` makes it and its secrets")
        settings = connection(fleet, As(who), service).to_json()
    if app.output.as_json:
        app.output.result(settings)
        return
    for name, value in settings.items():
        if name not in {"schema", "remap"} and value not in (None, []):
            app.output.verbatim(f"export {_variable(name)}={shlex.quote(_word(value))}")
    if settings["password"]:
        # redis-cli reads this one by itself, so that no password appears among its arguments.
        app.output.verbatim(f"export REDISCLI_AUTH={shlex.quote(str(settings['password']))}")


def _variable(name: str) -> str:
    return f"REDIS_{name.upper()}"


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
