"""Tables of `rlctl status --views`: the primaries, and what each node reports about the others."""

from collections.abc import Sequence

from rlctl.cli.app import App
from rlctl.cli.polling import PolledReport
from rlctl.errors import Exit
from rlctl.operations.status import read_views
from rlctl.plan.finding import Finding, Severity
from rlctl.plan.views import ClaimedPrimary, View, Views
from rlctl.runbooks.answers import page_for_finding

# Number of shard columns that fit beside the other columns in 80 characters.
MOST_SHARDS = 4
_PRIMARY = ("PRIMARY", "SHARD", "EPOCH", "OFFSET", "KEYS", "WRITES", "BELIEVED BY", "WINS")


def exit_code(report: Views) -> int:
    """Return the exit code for the worst conflict between the nodes."""
    severities = {conflict.severity for conflict in report.conflicts}
    if not report.exists:
        return Exit.NOT_FOUND
    if Severity.CRITICAL in severities:
        return Exit.CRITICAL
    return Exit.DEGRADED if severities else Exit.OK


def show(app: App, report: Views) -> None:
    if app.output.as_json:
        app.output.result({**report.to_json(), "conflicts": [_conflict(one) for one in report.conflicts]})
        return
    shards = sorted({shard for view in report.views for shard in view.primaries})
    shown = shards if app.verbose or len(shards) <= MOST_SHARDS else list(report.contested[:MOST_SHARDS])
    all_shown = shown == shards
    primaries = [one for one in report.primaries if all_shown or one.shard in shown or one.writable is not True]
    views = [view for view in report.views if all_shown or _differs(report, view, shown)]
    title = f"{_verdict(report)} fleet {report.name}, {report.kind}, {len(report.views)} views"
    app.output.line(title)
    if primaries:
        app.output.table(_PRIMARY, [_primary_row(one) for one in primaries])
    if views:
        columns = [f"SHARD {shard}" for shard in shown]
        app.output.table(["VIEW OF", "ROLE", "OK", *columns, "DOUBTS"], [_view_row(view, shown) for view in views])
    if not all_shown:
        alike, agreeing = len(shards) - len(report.contested), len(report.views) - len(views)
        counts = f"{alike} of {len(shards)} shards and {agreeing} of {len(report.views)} views"
        app.output.line(f"{counts} agree and are hidden; -v shows all")
    for conflict in report.conflicts:
        page = page_for_finding(conflict.code)
        app.output.line(f"{conflict.severity} {conflict.text}" + (f" ({page})" if page else ""))


VIEWS = PolledReport(
    read=read_views, wanted="in agreement", is_reached=lambda report: report.is_settled, show=show, exit_code=exit_code
)


def _conflict(conflict: Finding) -> dict[str, str | None]:
    return {**conflict.to_json(), "runbook": page_for_finding(conflict.code)}


def _verdict(report: Views) -> str:
    if not report.exists:
        return "absent"
    return str(report.conflicts[0].severity) if report.conflicts else "agreeing"


def _differs(report: Views, view: View, shards: Sequence[int]) -> bool:
    """Whether the view disagrees with the winning primaries, doubts a node, is not OK, or is missing."""
    winners = {one.shard: one.node for one in report.primaries if one.wins}
    differs = any(view.primaries.get(shard) != winners.get(shard) for shard in shards)
    return differs or bool(view.doubts or view.unknown) or not view.answers or view.ok is False


def _primary_row(one: ClaimedPrimary) -> list[str]:
    return [
        one.node,
        str(one.shard),
        _known(one.epoch),
        _known(one.offset),
        _known(one.keys),
        _writes(one),
        f"{one.believed_by} of {one.asked}",
        "yes" if one.wins else "no",
    ]


def _writes(one: ClaimedPrimary) -> str:
    if one.fenced:
        return "fenced"
    return {True: "takes", False: "refuses", None: "unknown"}[one.writable]


def _view_row(view: View, shards: Sequence[int]) -> list[str]:
    doubts = [
        *(f"{name} failed" for name in view.failed),
        *(f"{name} suspected" for name in view.suspected),
        *(f"{name} unknown" for name in view.unknown),
    ]
    return [
        view.node,
        (view.role or "-") if view.answers else "unproven" if view.is_unproven else "down",
        {True: "yes", False: "no", None: "-"}[view.ok],
        *(view.primaries.get(shard, "-") for shard in shards),
        ", ".join(doubts) or "-",
    ]


def _known(value: int | None) -> str:
    return "-" if value is None else str(value)
