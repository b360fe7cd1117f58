"""rlctl capacity: memory of a user, number of users that fit, and savings of other encodings."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from rlctl.capacity.batch import answer_lines
from rlctl.capacity.compare import compare as compare_encodings
from rlctl.capacity.measure.calibrate import Calibration, Calibrator
from rlctl.capacity.parse_request import MOST_LIMIT, MOST_USERS
from rlctl.capacity.predict import Prediction
from rlctl.capacity.predict import predict as predict_one
from rlctl.capacity.published import check_claims
from rlctl.capacity.report import model_page
from rlctl.capacity.request import SCRIPT, Algorithm
from rlctl.cli.app import App, with_app
from rlctl.cli.capacity.measure import measure
from rlctl.cli.capacity.options import (
    encoding_option,
    html_option,
    read_lines,
    request_options,
    request_parser,
    server_options,
    typed_options,
    with_options,
    write_page,
)
from rlctl.cli.capacity.plan import plan
from rlctl.cli.capacity.tables import show_comparison, show_prediction, show_published
from rlctl.cli.help import HelpGroup
from rlctl.errors import CheckFailed, Exit, UsageFault
from rlctl.execute.stop import StopFlag
from rlctl.scripts.release import load_release
from rlctl.system.clock import SystemClock


@click.group(cls=HelpGroup)
def capacity() -> None:
    """Predict, plan and measure the memory that users need.

    Examples:
      rlctl capacity model
      rlctl capacity predict --algorithm rolling_window --limit 200
      rlctl capacity compare --algorithm rolling_window
      rlctl capacity plan --mix mix.jsonl --ram 16gb
      rlctl capacity measure
    """


@capacity.command()
@with_options(encoding_option, *request_options)
@click.option("--batch", "source", metavar="FILE", help="File with one JSON object of options a line; - is stdin.")
@click.option("--calibrate", is_flag=True, help="Compare with a filled scratch server; exit 15 if more than 10 % off.")
@click.option(
    "--calibrate-users",
    type=click.IntRange(10_000, 50_000),
    default=20_000,
    show_default=True,
    help="Number of users on the scratch server of --calibrate.",
)
@with_app
def predict(app: App, source: str | None, calibrate: bool, calibrate_users: int, **options: Any) -> int:  # noqa: ANN401
    """Predict the bytes that one user takes at the full limit.

    Shows the parts of the prediction, and warns if the server uses another encoding at a nearby limit.

    Examples:
      rlctl capacity predict --algorithm rolling_window --users 1000000
      rlctl capacity predict --batch questions.jsonl
    """
    if source is not None:
        if calibrate:
            raise UsageFault(
                "--batch and --calibrate exclude each other", hint="calibrate one algorithm at a time, without --batch"
            )
        return _answer_batch(app, source, typed_options(options))
    if calibrate:
        return _calibrate(app, calibrate_users, typed_options(options))
    parser = request_parser()
    _show(app, predict_one(parser.parse(typed_options(options)), parser.states), None)
    return Exit.OK


@capacity.command()
@click.option(
    "--users",
    type=click.IntRange(1, MOST_USERS),
    default=1_000_000,
    show_default=True,
    help="Number of users with a counter.",
)
@click.option(
    "--limit", type=click.IntRange(1, MOST_LIMIT), default=100, show_default=True, help="Requests in a window."
)
@click.option(
    "--concurrent", type=click.IntRange(1, MOST_LIMIT), default=50, show_default=True, help="Leases of a user."
)
@click.option(
    "--requests",
    type=click.IntRange(1, MOST_USERS),
    default=100_000,
    show_default=True,
    help="Requests per second of all users together.",
)
@with_options(*server_options, html_option)
@with_app
def model(
    app: App,
    users: int,
    limit: int,
    concurrent: int,
    requests: int,
    html: Path | None,
    **options: Any,  # noqa: ANN401
) -> None:
    """Compare published memory models with the bytes a server takes.

    Examples:
      rlctl capacity model --users 1000000 --limit 100 --concurrent 50
    """
    parser = request_parser()
    base = parser.parse({"algorithm": Algorithm.GCRA.value} | typed_options(options))
    found = check_claims(base, parser.states, users=users, limit=limit, concurrent=concurrent, requests_per_s=requests)
    write_page(app, html, lambda: model_page(found, base, parser.states))
    if app.output.as_json:
        app.output.result(found.to_json())
    else:
        show_published(app.output, found)


capacity.add_command(plan)
capacity.add_command(measure)


@capacity.command()
@with_options(*request_options)
@with_app
def compare(app: App, **options: Any) -> None:  # noqa: ANN401
    """Compare the encodings of one algorithm, cheapest first.

    Shows the bytes per user, the time of a call, and what each encoding gives up.

    Examples:
      rlctl capacity compare --algorithm rolling_window --limit 1000
    """
    parser = request_parser()
    request = parser.parse(typed_options(options))
    rows = compare_encodings(request, parser.states)
    if not app.output.as_json:
        show_comparison(app.output, rows)
        return
    app.output.result(
        {
            "schema": "rlctl.capacity-compare/1",
            "algorithm": request.algorithm.value,
            "server": request.server.value,
            "allocator": request.allocator.value,
            "limit": request.limit,
            "users": request.users,
            "rows": [row.to_json() for row in rows],
        }
    )


def _answer_batch(app: App, source: str, options: dict[str, object]) -> int:
    code = Exit.OK
    for line in answer_lines(read_lines(source), request_parser(), options):
        answer = line.to_json()
        if "error" in answer:
            code = Exit.INVALID_FILE
        app.output.text(json.dumps(answer))
    return code


def _calibrate(app: App, users: int, options: dict[str, object]) -> int:
    release, parser, stop = load_release(), request_parser(), StopFlag()
    request = parser.parse(options)
    if request.encoding != SCRIPT:
        raise UsageFault(
            f"--calibrate runs the scripts of the release, which do not store {request.encoding}",
            hint="leave out --encoding, or give --encoding script",
        )
    app.output.note(f"filling a scratch server with {users} users")
    with stop.armed():
        found = Calibrator(release=release, clock=SystemClock(), check_stop=stop.check).run(request, users, options)
    measured_request = replace(request, server=found.server, allocator=found.allocator)
    _show(app, predict_one(measured_request, parser.states), found)
    if not found.is_good:
        raise CheckFailed(
            f"predicted {found.predicted:.1f} B/user, measured {found.measured:.1f}: {found.error:+.1%}",
            hint="use the measured figure, and report the difference with the server's version",
        )
    return Exit.OK


def _show(app: App, one: Prediction, calibration: Calibration | None) -> None:
    if app.output.as_json:
        app.output.result(one.to_json() | ({"calibration": calibration.to_json()} if calibration else {}))
        return
    show_prediction(app.output, one)
    if calibration:
        app.output.line(
            f"calibrated with {calibration.users} users on {calibration.server} ({calibration.allocator}): "
            f"predicted {calibration.predicted:.1f}, measured {calibration.measured:.1f} B/user, "
            f"error {calibration.error:+.2%}"
        )
