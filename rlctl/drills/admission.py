"""What the failover did to the limit: admitted beyond it, refused within it, and by which cause. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rlctl.drills.accounts import Account, Op
from rlctl.drills.history import Outcome

CAUSES = ("reset", "dual", "wipe", "clock", "fail_open", "unexplained")


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The hot user in the one window of the run; `potential` is how often the limit could have been given out again."""

    limit: int
    admitted: int
    over: int
    under: int
    potential: int
    by_cause: Mapping[str, int] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """Admitted, as a multiple of the limit."""
        return round(self.admitted / self.limit, 3)

    def to_json(self) -> dict[str, object]:
        """The contract's `admission`."""
        return {
            "limit": self.limit,
            "admitted": self.admitted,
            "over": self.over,
            "under": self.under,
            "ratio": self.ratio,
            "potential": self.potential,
            "by_cause": dict(self.by_cause),
        }


def admission(accounts: Sequence[Account], limit: int, promoted_s: float | None, *, wiped: bool) -> Admission | None:
    """Join the hot user's decisions with what was lost, id by id; None where nobody was hot."""
    hot = [(account, op) for account in accounts for op in account.hot]
    if not hot:
        return None
    admitted = [(account, op) for account, op in hot if op.outcome is Outcome.ADMITTED]
    gone = sorted((op for account, op in admitted if op.id in account.lost_ids), key=lambda op: op.done_s)
    over = max(0, len(admitted) - limit)
    survived = len(admitted) - len(gone)
    under = sum(_phantoms(account) for account in accounts)
    # More than the limit on the surviving branch itself: two clocks had two windows.
    clock = min(over, max(0, survived + under - limit))
    return Admission(
        limit=limit,
        admitted=len(admitted),
        over=over,
        under=under,
        potential=len(gone),
        by_cause=_by_cause(gone, over - clock, clock, promoted_s, wiped=wiped),
    )


def _phantoms(account: Account) -> int:
    """Admissions in the surviving ledger that nobody was told of: each will deny somebody wrongly."""
    unanswered = {op.id for op in account.hot if op.outcome is Outcome.INDETERMINATE}
    return len(unanswered.intersection(account.survivors.admitted))


def _by_cause(lost: Sequence[Op], over: int, clock: int, promoted_s: float | None, *, wiped: bool) -> dict[str, int]:
    """The earliest losses account for what was admitted again; there may be more losses than demand used."""
    counts = dict.fromkeys(CAUSES, 0)
    counts["clock"] = clock
    for op in lost[:over]:
        if wiped:
            counts["wipe"] += 1
        elif promoted_s is not None and op.done_s >= promoted_s:
            counts["dual"] += 1
        else:
            counts["reset"] += 1
    counts["unexplained"] = max(0, over - len(lost))
    return counts
