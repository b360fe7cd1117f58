"""What the failover did to the limit: admitted beyond it, refused within it, and by which cause. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rlctl.drills.judge.accounts import Account, Op
from rlctl.drills.record.ops import Outcome
from rlctl.drills.scenario.model import Side

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


def admission(
    accounts: Sequence[Account], limit: int, promoted_s: float | None, *, wiped: bool, skewed: bool
) -> Admission | None:
    """Join the hot user's decisions with what was lost, id by id; None where nobody was hot or a ledger is missing.

    Who asks other shards has a hot user of his own there, whom the failover does not touch.
    """
    own = [account for account in accounts if account.side != Side.OTHERS]
    hot = [(account, op) for account in own for op in account.hot]
    if not hot or not all(account.is_measured for account in own):
        return None
    admitted = [(account, op) for account, op in hot if op.outcome is Outcome.ADMITTED]
    gone = sorted((op for account, op in admitted if op.id in account.lost_ids), key=lambda op: op.done_s)
    over = max(0, len(admitted) - limit)
    survived = len(admitted) - len(gone)
    under = sum(_phantoms(account) for account in own)
    # More than the limit on the surviving branch itself: two clocks had two windows, or nobody knows why.
    beyond = min(over, max(0, survived + under - limit))
    rest = {"clock" if skewed else "unexplained": beyond}
    return Admission(
        limit=limit,
        admitted=len(admitted),
        over=over,
        under=under,
        potential=len(gone),
        by_cause=dict.fromkeys(CAUSES, 0) | rest | _by_cause(gone[: over - beyond], promoted_s, wiped=wiped),
    )


def served_admission(accounts: Sequence[Account], limit: int) -> Admission | None:
    """What users of a service got, whoever decided; without a ledger only its own admissions are explained."""
    hot = [op.outcome for account in accounts for op in account.hot]
    if not hot:
        return None
    alone = hot.count(Outcome.LOCAL_ADMITTED)
    admitted = hot.count(Outcome.ADMITTED) + alone
    over = max(0, admitted - limit)
    explained = min(over, alone)
    causes = dict.fromkeys(CAUSES, 0) | {"fail_open": explained, "unexplained": over - explained}
    return Admission(limit=limit, admitted=admitted, over=over, under=0, potential=alone, by_cause=causes)


def never_used_up(accounts: Sequence[Account]) -> tuple[str, ...]:
    """The nodes whose last word to the hot user was an admission: more demand would have been given more."""
    decided = (op for account in accounts if account.side != Side.OTHERS for op in account.hot)
    words = sorted((op for op in decided if op.outcome in (Outcome.ADMITTED, Outcome.DENIED)), key=lambda op: op.done_s)
    last = {op.node: op.outcome for op in words}
    return tuple(sorted(node for node, word in last.items() if word is Outcome.ADMITTED))


def _phantoms(account: Account) -> int:
    """Admissions in the surviving ledger that nobody was told of, or that were made twice: each denies wrongly."""
    told = {op.id: op.outcome is Outcome.ADMITTED for op in account.hot}
    present = Counter(one for one in account.survivors.admitted if one in told)
    return sum(times - told[one] for one, times in present.items())


def _by_cause(gone: Sequence[Op], promoted_s: float | None, *, wiped: bool) -> Counter[str]:
    """The earliest losses account for what was admitted again; there may be more losses than demand used."""
    if wiped:
        return Counter(wipe=len(gone))
    return Counter("reset" if promoted_s is None or op.done_s < promoted_s else "dual" for op in gone)
