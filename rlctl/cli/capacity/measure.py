"""rlctl capacity measure: measures memory, headroom and growth of a deployed fleet."""

from pathlib import Path

import click

from rlctl.capacity.measure.fleet import FleetMeasurer, MeasureOptions
from rlctl.capacity.report import measure_page
from rlctl.cli.app import App, with_app
from rlctl.cli.capacity.options import html_option, write_page
from rlctl.cli.capacity.tables import show_measured
from rlctl.cli.help import HelpCommand
from rlctl.cli.opened import opened
from rlctl.cli.options import Duration
from rlctl.errors import Exit
from rlctl.execute.stop import StopFlag
from rlctl.observe.model import Role


@click.command(cls=HelpCommand)
@click.option(
    "--sample",
    type=click.IntRange(1, 1_000_000),
    default=1_000,
    show_default=True,
    help="Keys to sample of each shard.",
)
@click.option("--budget", type=Duration(), default="10s", show_default=True, help="Longest time to sample.")
@click.option(
    "--on",
    "prefer",
    type=click.Choice(["replica", "primary"]),
    default="replica",
    show_default=True,
    help="Node role to sample.",
)
@click.option(
    "--interval", type=Duration(), default="10s", show_default=True, help="Time over which growth is measured."
)
@html_option
@with_app
def measure(app: App, sample: int, budget: float, prefer: str, interval: float, html: Path | None) -> int:
    """Measure bytes per user of each rule, headroom and growth.

    Sends only read commands: INFO, SCAN, MEMORY USAGE, OBJECT ENCODING, PTTL and those that return a size. Never
    samples a replica that lags. Exits with 13 if a shard could not be read.

    Examples:
      rlctl capacity measure --sample 1000 --budget 10s
    """
    options = MeasureOptions(sample=sample, budget_s=budget, prefer=Role(prefer), interval_s=interval)
    stop = StopFlag()
    with stop.armed(), opened(app) as fleet:
        found = FleetMeasurer(fleet, options, stop.check).run()
    write_page(app, html, lambda: measure_page(found))
    if app.output.as_json:
        app.output.result(found.to_json())
    else:
        show_measured(app.output, found)
    return Exit.OK if found.is_complete else Exit.PARTIAL
