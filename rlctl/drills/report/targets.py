"""What published designs of rate limiters promise of a failure, beside what a run measured. Pure."""

from dataclasses import dataclass

from rlctl.drills.report.values import UNMEASURED, Document, brief, percent

FAILOVER_MS = 30_000
RECOVERY_MS = 30_000
LOST_PERCENT = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One promise; `met` is None where the run measured nothing of it."""

    promise: str
    measured: str
    met: bool | None
    how: str


def targets(run: Document) -> tuple[Target, ...]:
    """All of them; the share of lost counts is told with what it depends on."""
    serve_ms, gap_ms, share = (run["metrics"][name] for name in ("serve_ms", "gap_ms", "lost_percent"))
    unknown = run["lost"] is None or share is None
    return (
        Target(
            promise="failover in 10 to 30 s",
            measured=brief(serve_ms),
            met=None if serve_ms is None else serve_ms <= FAILOVER_MS,
            how="from the fault to the first acknowledgement by the new primary",
        ),
        Target(
            promise="recovery below 30 s",
            measured=brief(gap_ms),
            met=None if gap_ms is None else gap_ms < RECOVERY_MS,
            how="longest time without an acknowledgement, client that follows the fleet",
        ),
        Target(
            promise="at most 5 % of counts lost in a failure",
            measured=UNMEASURED if unknown else percent(share),
            met=None if unknown else share <= LOST_PERCENT,
            how=_share(run),
        ),
    )


def _share(run: Document) -> str:
    """A share of a run of some seconds says little: how long a time would have to be for the loss to be 5 % of it."""
    span_ms = run["metrics"]["lost_span_ms"]
    told = "share of all acknowledged operations of this run, which is short"
    if not run["lost"] or not span_ms:
        return told
    return f"{told}; {brief(span_ms)} of writes are 5 % of what a steady load counts in {brief(span_ms * 20)}"
