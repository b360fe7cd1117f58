"""rlctl schema: JSON Schemas for editors."""

import click

from rlctl.cli.app import App, with_app
from rlctl.topology.schema import json_schema


@click.group()
def schema() -> None:
    """Print JSON Schemas, for editors that check YAML.

    \b
    rlctl schema topology > topology.schema.json
    """


@schema.command()
@with_app
def topology(app: App) -> None:
    """The schema of topology.yaml.

    \b
    rlctl schema topology > topology.schema.json
    # yaml-language-server: $schema=topology.schema.json   (first line of topology.yaml)
    """
    app.output.result(json_schema())
