"""rlctl schema: JSON Schemas for editors and other programs."""

import click

from rlctl.cli.app import App, with_app
from rlctl.drills.scenario.schema import runs_schema, scenario_schema
from rlctl.rules.schema import rules_schema
from rlctl.topology.schema import json_schema


@click.group()
def schema() -> None:
    """Print JSON Schemas: of files, for editors that check YAML, and of results, for programs that read them.

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


@schema.command()
@with_app
def rules(app: App) -> None:
    """The schema of rules.yaml.

    \b
    rlctl schema rules > rules.schema.json
    # yaml-language-server: $schema=rules.schema.json   (first line of rules.yaml)
    """
    app.output.result(rules_schema())


@schema.command()
@with_app
def scenario(app: App) -> None:
    """The schema of a drill's scenario file.

    \b
    rlctl schema scenario > scenario.schema.json
    # yaml-language-server: $schema=scenario.schema.json   (first line of the scenario)
    """
    app.output.result(scenario_schema())


@schema.command("failover-drill-run")
@with_app
def failover_drill_run(app: App) -> None:
    """The schema of what `failover-drill run -o json` prints.

    \b
    rlctl schema failover-drill-run > runs.schema.json
    """
    app.output.result(runs_schema())
