"""Compares a run with the failover targets in published designs of rate limiters. Pure."""

from dataclasses import dataclass

from rlctl.drills.report.values import UNMEASURED, Document, brief, percent

FAILOVER_MS = 30_000
RECOVERY_MS = 30_000
LOST_PERCENT = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTarget:
    """A published target; `met` is None if the run did not measure it."""

    promise: str
    measured: str
    met: bool | None
    how: str


def targets(run: Document) -> tuple[PublishedTarget, ...]:
    """Compare a run with all targets."""
    serve_ms, gap_ms, share = (run["metrics"][name] for name in ("serve_ms", "gap_ms", "lost_percent"))
    unknown = run["lost"] is None or share is None
    return (
        PublishedTarget(
            promise="failover in 10 to 30 s",
            measured=brief(serve_ms),
            met=None if serve_ms is None else serve_ms <= FAILOVER_MS,
            how="from the fault to the first acknowledgement by the new primary",
        ),
        PublishedTarget(
            promise="recovery below 30 s",
            measured=brief(gap_ms),
            met=None if gap_ms is None else gap_ms < RECOVERY_MS,
            how="longest time without an acknowledgement, for the client that follows the fleet",
        ),
        PublishedTarget(
            promise="at most 5 % of counts lost in a failure",
            measured=UNMEASURED if unknown else percent(share),
            met=None if unknown else share <= LOST_PERCENT,
            how=_share(run),
        ),
    )


def _share(run: Document) -> str:
    """Explain that the share depends on the run's length, and state the length at which the loss would be 5 %."""
    span_ms = run["metrics"]["lost_span_ms"]
    words = "share of all acknowledged operations of this run, which is short"
    if not run["lost"] or not span_ms:
        return words
    return f"{words}; {brief(span_ms)} of writes are 5 % of what a steady load counts in {brief(span_ms * 20)}"
