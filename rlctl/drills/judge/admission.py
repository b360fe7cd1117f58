"""Effect of a failover on a limit: admissions beyond the limit, denials within it, and their causes. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rlctl.drills.judge.accounts import Account, Op
from rlctl.drills.record.ops import OpOutcome
from rlctl.drills.scenario.model import Side

CAUSES = ("reset", "dual", "wipe", "clock", "fail_open", "unexplained")


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Admissions of the hot user in the run's only window.

    `potential` counts the admissions that the fleet lost or never counted, and could therefore grant again.
    """

    limit: int
    admitted: int
    over: int
    under: int
    potential: int
    by_cause: Mapping[str, int] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return round(self.admitted / self.limit, 3)

    def to_json(self) -> dict[str, object]:
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
    """Compare the hot user's decisions with the lost operations.

    Returns None if the load has no hot user, or if a surviving ledger could not be read.
    The client on side `others` is left out, because its shard has no failover.
    """
    own = [account for account in accounts if account.side != Side.OTHERS]
    hot = [(account, op) for account in own for op in account.hot]
    if not hot or not all(account.is_measured for account in own):
        return None
    admitted = [(account, op) for account, op in hot if op.outcome is OpOutcome.ADMITTED]
    gone = sorted((op for account, op in admitted if op.id in account.lost_ids), key=lambda op: op.done_s)
    over = max(0, len(admitted) - limit)
    survived = len(admitted) - len(gone)
    under = sum(_wrong_denials(account) for account in own)
    # Surviving admissions above the limit. If the run skews a clock, the cause is a second window that the skewed clock
    # opened. In other runs, the cause is unknown.
    on_surviving_branch = min(over, max(0, survived + under - limit))
    rest = {"clock" if skewed else "unexplained": on_surviving_branch}
    return Admission(
        limit=limit,
        admitted=len(admitted),
        over=over,
        under=under,
        potential=len(gone),
        by_cause=dict.fromkeys(CAUSES, 0)
        | rest
        | _by_cause(gone[: over - on_surviving_branch], promoted_s, wiped=wiped),
    )


def served_admission(accounts: Sequence[Account], limit: int) -> Admission | None:
    """Admissions of a service's hot user, by Redis or by the failure policy; None without a hot user.

    Only admissions by the policy explain an excess over the limit.
    """
    hot = [op.outcome for account in accounts for op in account.hot]
    if not hot:
        return None
    by_policy = hot.count(OpOutcome.LOCAL_ADMITTED)
    admitted = hot.count(OpOutcome.ADMITTED) + by_policy
    over = max(0, admitted - limit)
    explained = min(over, by_policy)
    causes = dict.fromkeys(CAUSES, 0) | {"fail_open": explained, "unexplained": over - explained}
    return Admission(limit=limit, admitted=admitted, over=over, under=0, potential=by_policy, by_cause=causes)


def never_used_up(accounts: Sequence[Account]) -> tuple[str, ...]:
    """The nodes whose last decision admitted the hot user. These nodes would have admitted more under more load."""
    decided = (op for account in accounts if account.side != Side.OTHERS for op in account.hot)
    words = sorted(
        (op for op in decided if op.outcome in (OpOutcome.ADMITTED, OpOutcome.DENIED)), key=lambda op: op.done_s
    )
    last = {op.node: op.outcome for op in words}
    return tuple(sorted(node for node, word in last.items() if word is OpOutcome.ADMITTED))


def _wrong_denials(account: Account) -> int:
    """Count admissions in the surviving ledger that the client never received, and repeated entries of an admission.

    Each of them uses up a part of the limit without need, and so causes a wrong denial.
    """
    reported_admitted = {op.id: op.outcome is OpOutcome.ADMITTED for op in account.hot}
    present = Counter(one for one in account.survivors.admitted if one in reported_admitted)
    return sum(times - reported_admitted[one] for one, times in present.items())


def _by_cause(gone: Sequence[Op], promoted_s: float | None, *, wiped: bool) -> Counter[str]:
    """Count lost admissions by cause: `wipe`, or `reset` before the promotion and `dual` after it."""
    if wiped:
        return Counter(wipe=len(gone))
    return Counter("reset" if promoted_s is None or op.done_s < promoted_s else "dual" for op in gone)
