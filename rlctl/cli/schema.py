"""rlctl schema: prints JSON Schemas of files and results."""

import click

from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpGroup
from rlctl.drills.scenario.schema import runs_schema, scenario_schema
from rlctl.rules.schema import rules_schema
from rlctl.topology.schema import json_schema


@click.group(cls=HelpGroup)
def schema() -> None:
    """Print JSON Schemas for editors and other programs.

    Examples:
      rlctl schema topology > topology.schema.json
    """


@schema.command()
@with_app
def topology(app: App) -> None:
    """Print the schema of topology files.

    Editors check the file if its first line is `# yaml-language-server: $schema=topology.schema.json`.

    Examples:
      rlctl schema topology > topology.schema.json
    """
    app.output.result(json_schema())


@schema.command()
@with_app
def rules(app: App) -> None:
    """Print the schema of rules files.

    Editors check the file if its first line is `# yaml-language-server: $schema=rules.schema.json`.

    Examples:
      rlctl schema rules > rules.schema.json
    """
    app.output.result(rules_schema())


@schema.command()
@with_app
def scenario(app: App) -> None:
    """Print the schema of scenario files of drills.

    Editors check the file if its first line is `# yaml-language-server: $schema=scenario.schema.json`.

    Examples:
      rlctl schema scenario > scenario.schema.json
    """
    app.output.result(scenario_schema())


@schema.command("failover-drill-run")
@with_app
def failover_drill_run(app: App) -> None:
    """Print the schema of the JSON from `failover-drill run`.

    Examples:
      rlctl schema failover-drill-run > runs.schema.json
    """
    app.output.result(runs_schema())
