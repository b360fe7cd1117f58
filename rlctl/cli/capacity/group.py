"""rlctl capacity: what a user really costs, how many fit, and what another encoding would save."""

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
    asking,
    encoding_option,
    given,
    html_option,
    question_options,
    read_lines,
    server_options,
    with_options,
    write_page,
)
from rlctl.cli.capacity.plan import plan
from rlctl.cli.capacity.tables import show_comparison, show_prediction, show_published
from rlctl.errors import CheckFailed, Exit, UsageFault
from rlctl.execute.stop import StopFlag
from rlctl.scripts.release import load_release
from rlctl.system.clock import SystemClock


@click.group()
def capacity() -> None:
    """Memory: the published models, the truth, and the plan.

    \b
    rlctl capacity model                                          claims against reality
    rlctl capacity predict --algorithm rolling_window --limit 200
    rlctl capacity compare --algorithm rolling_window             what another encoding saves
    rlctl capacity plan --mix mix.jsonl --ram 16gb                shards for these users
    rlctl capacity measure                                        the deployed fleet, read only
    """


@capacity.command()
@with_options(encoding_option, *question_options)
@click.option("--batch", "source", metavar="FILE", help="One JSON object a line, keys = options; - is stdin.")
@click.option(
    "--calibrate", is_flag=True, help="Fill a scratch server on this machine and compare; exit 15 above 10 %."
)
@click.option(
    "--calibrate-users", type=click.IntRange(10_000, 50_000), default=20_000, show_default=True, help="With so many."
)
@with_app
def predict(app: App, source: str | None, calibrate: bool, calibrate_users: int, **options: Any) -> int:  # noqa: ANN401
    """Bytes a user at the full limit, in parts, with the cliffs that are near.

    \b
    rlctl capacity predict --algorithm rolling_window --limit 100 --users 1000000
    rlctl capacity predict --batch questions.jsonl
    """
    if source is not None:
        if calibrate:
            raise UsageFault("--batch and --calibrate exclude each other", hint="calibrate one question at a time")
        return _answer_batch(app, source, given(options))
    if calibrate:
        return _calibrate(app, calibrate_users, given(options))
    asked = asking()
    _show(app, predict_one(asked.question(given(options)), asked.states), None)
    return Exit.OK


@capacity.command()
@click.option("--users", type=click.IntRange(1, MOST_USERS), default=1_000_000, show_default=True)
@click.option(
    "--limit", type=click.IntRange(1, MOST_LIMIT), default=100, show_default=True, help="Requests in a window."
)
@click.option("--concurrent", type=click.IntRange(1, MOST_LIMIT), default=50, show_default=True, help="Leases held.")
@click.option(
    "--requests", type=click.IntRange(1, MOST_USERS), default=100_000, show_default=True, help="Every second."
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
    """The published memory models, with what a server really takes beside each.

    \b
    rlctl capacity model --users 1000000 --limit 100 --concurrent 50
    """
    asked = asking()
    base = asked.question({"algorithm": Algorithm.GCRA.value} | given(options))
    found = check_claims(base, asked.states, users=users, limit=limit, concurrent=concurrent, requests_per_s=requests)
    write_page(app, html, lambda: model_page(found, base, asked.states))
    if app.output.as_json:
        app.output.result(found.to_json())
    else:
        show_published(app.output, found)


capacity.add_command(plan)
capacity.add_command(measure)


@capacity.command()
@with_options(*question_options)
@with_app
def compare(app: App, **options: Any) -> None:  # noqa: ANN401
    """Every encoding of one algorithm, cheapest first: bytes a user, time, and what it gives up.

    \b
    rlctl capacity compare --algorithm rolling_window --limit 1000
    """
    asked = asking()
    question = asked.question(given(options))
    rows = compare_encodings(question, asked.states)
    if not app.output.as_json:
        show_comparison(app.output, rows)
        return
    app.output.result(
        {
            "schema": "rlctl.capacity-compare/1",
            "algorithm": question.algorithm.value,
            "server": question.server.value,
            "allocator": question.allocator.value,
            "limit": question.limit,
            "users": question.users,
            "rows": [row.to_json() for row in rows],
        }
    )


def _answer_batch(app: App, source: str, options: dict[str, object]) -> int:
    code = Exit.OK
    for line in answer_lines(read_lines(source), asking(), options):
        answer = line.to_json()
        if "error" in answer:
            code = Exit.INVALID_FILE
        app.output.text(json.dumps(answer))
    return code


def _calibrate(app: App, users: int, options: dict[str, object]) -> int:
    release, asked, stop = load_release(), asking(), StopFlag()
    question = asked.question(options)
    if question.encoding != SCRIPT:
        raise UsageFault(
            f"--calibrate fills through the release's scripts; {question.encoding} is not what they store",
            hint="leave --encoding out, or write --encoding script",
        )
    app.output.note(f"filling a scratch server with {users} users")
    with stop.armed():
        found = Calibrator(release=release, clock=SystemClock(), check_stop=stop.check).run(question, users, options)
    asked_there = replace(question, server=found.server, allocator=found.allocator)
    _show(app, predict_one(asked_there, asked.states), found)
    if not found.is_good:
        raise CheckFailed(
            f"predicted {found.predicted:.1f} B/user, measured {found.measured:.1f}: {found.error:+.1%}",
            hint="report it with the server's version; until then trust the measured figure",
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
