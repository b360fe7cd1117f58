"""What a reader has to know before quoting a figure of a run: how far it carries, and how far not. Pure."""

from collections.abc import Iterator

from rlctl.drills.report.values import Document, brief, timers


def notes(run: Document, series: Document) -> tuple[str, ...]:
    """Only what applies to this run."""
    return (*_where(run), *_timers(run), *_fault(run, series), *_figures(run))


def _where(run: Document) -> Iterator[str]:
    if run["live"]:
        yield "This was measured on the deployed fleet, with the drill's own load beside whatever else it served."
        return
    yield (
        "This was measured on a twin: a throw-away fleet of the topology's shape and settings on one machine. Its "
        "nodes talk over loopback, so a real network adds its latency to every time and every lag."
    )
    if run["why_no_sandbox"]:
        yield f"The twin ran without namespaces of its own ({run['why_no_sandbox']})."


def _timers(run: Document) -> Iterator[str]:
    if run["timers"] == "short":
        yield (
            f"The twin ran with {timers(run)}. Detection and election take as long as the timers say: production with "
            "longer ones takes longer. --stock-timers repeats the drill with the topology's own."
        )
    if run["periods"]:
        periods = ", ".join(f"{name} {value} ms" for name, value in run["periods"].items())
        yield (
            f"The sentinels' periods were shortened with SENTINEL DEBUG ({periods}), a test setting. With stock "
            "periods the old primary is demoted later after the heal, and what it acknowledges until then is lost too."
        )


def _fault(run: Document, series: Document) -> Iterator[str]:
    names = {event["name"] for event in series["events"]}
    if "kill" in names:
        yield (
            "A kill is the crash of a process: the kernel still delivers what the process had handed to its "
            "connections, so a plain kill on one machine loses next to nothing."
        )
    if {"kill", "cut"} <= names:
        cut_ms = run["fault"]["cut_ms"]
        lag = f"{cut_ms:,.1f} ms" if cut_ms is not None else "the injected time"
        yield (
            f"The cut just before the kill stands for the crash of a whole host, or for a replication lag of {lag}; "
            "what is lost is what was acknowledged in that time."
        )
    if "pause" in names:
        yield "A pause (SIGSTOP) freezes a process with its connections open, as a stalled machine or disk does."
    if run["fault"]["verified"] is None and "cut" in names:
        yield "The cut was too short for canaries to be heard in it; that it was in effect is not proven by them."


def _figures(run: Document) -> Iterator[str]:
    yield (
        "Roles are looked at every 40 ms, acknowledgements are stamped as they arrive: a promotion or demotion is "
        "seen up to 40 ms late, and the first answer of the new primary may stand before its promotion."
    )
    if run["ops"]["indeterminate"]:
        yield (
            f"{run['ops']['indeterminate']:,} operations are indeterminate: nobody can say whether they took effect "
            "until the ledger is read. They are not among the acknowledged, and not among the lost."
        )
    if run["admission"] is not None:
        yield (
            "The limiter's window was chosen so that no edge of it falls into the run; over-admission is of one hot "
            "user in that one window."
        )
    gap_ms = run["metrics"]["gap_ms"]
    if gap_ms is not None:
        yield f"Longest gaps count the edges of the run, so a client that never recovers shows it ({brief(gap_ms)})."
    yield "One run is one sample: repeat it before quoting it as typical."
