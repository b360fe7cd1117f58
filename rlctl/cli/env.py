"""rlctl env: prints connection settings. It is the only command that prints a password."""

import shlex

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpCommand
from rlctl.cli.opened import opened
from rlctl.errors import NotFound
from rlctl.operations.env import EnvUser, connection


@click.command(cls=HelpCommand)
@click.option(
    "--as",
    "user",
    type=click.Choice([user.value for user in EnvUser]),
    default=EnvUser.LIMITER.value,
    show_default=True,
    help="User to connect as: limiter decides, admin may do everything, monitor reads state.",
)
@click.option("--service", metavar="S", help="Service in security.services to connect as, instead of user limiter.")
@with_app
def env(app: App, user: str, service: str | None) -> None:
    """Print connection settings, including the password.

    The table format is shell code: pass it to `eval` to set the variables. The limiter library reads the JSON format.

    Examples:
      eval "$(rlctl env --as admin)"
      redis-cli -c -h $REDIS_HOST -p $REDIS_PORT --user $REDIS_USERNAME ping
      rlctl env --service checkout -o json > checkout.json
    """
    topology = app.topology()
    with opened(app) as fleet:
        if fleet.is_new:
            raise NotFound(
                f"fleet {topology.name} is not deployed", hint="run `rlctl deploy`, which also creates the secrets"
            )
        settings = connection(fleet, EnvUser(user), service).to_json()
    if app.output.as_json:
        app.output.result(settings)
        return
    for name, value in settings.items():
        if name not in {"schema", "remap"} and value not in (None, []):
            app.output.verbatim(f"export {_variable(name)}={shlex.quote(_word(value))}")
    if settings["password"]:
        # redis-cli reads this variable, so the password need not be an argument, which other users could see.
        app.output.verbatim(f"export REDISCLI_AUTH={shlex.quote(str(settings['password']))}")


def _variable(name: str) -> str:
    return f"REDIS_{name.upper()}"


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
