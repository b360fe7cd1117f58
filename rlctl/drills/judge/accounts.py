"""Compares the acknowledged operations of one client with the operations that survived. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from rlctl.drills.record.ledger import EMPTY, Ledger
from rlctl.drills.record.ops import HOT, WAITED, ClientHistory, OpOutcome, outcome

Ids = frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One operation that was lost, or that belongs to the hot user."""

    id: int
    client: str
    connection: int
    node: str
    code: int
    sent_s: float
    done_s: float

    @property
    def outcome(self) -> OpOutcome:
        return outcome(self.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One client's operations by outcome. `waited` is the part of `acked` that WAIT confirmed.

    The client's failure policy decided the operations in `fallback`, which count as indeterminate too.
    `is_measured` is false if the surviving ledger could not be read. The client's loss is then unknown.
    """

    name: str
    side: str
    recorded: int
    acked: Ids
    waited: Ids
    refused: Ids
    indeterminate: Ids
    not_sent: int
    is_measured: bool
    fallback: Ids
    survivors: Ledger
    lost: tuple[Op, ...]
    hot: tuple[Op, ...]

    @property
    def recovered(self) -> Ids:
        """Operations that survived although the client got no answer."""
        return self.indeterminate & frozenset(self.survivors.ids)

    @property
    def lost_ids(self) -> Ids:
        """Acknowledged operations that did not survive."""
        return frozenset(op.id for op in self.lost)

    @property
    def duplicated(self) -> int:
        """Number of ids that are in the ledger more than once."""
        return sum(1 for times in Counter(self.survivors.ids).values() if times > 1)

    @property
    def unexpected(self) -> Ids:
        """Ids in the ledger that the client never sent."""
        return frozenset(self.survivors.ids) - self.acked - self.refused - self.indeterminate

    @property
    def refused_survivors(self) -> Ids:
        """Operations that were refused and yet survived."""
        return self.refused & frozenset(self.survivors.ids)


def account(history: ClientHistory, places: tuple[str, ...], survivors: Ledger | None) -> Account:
    """Compare one client's history with `survivors`, the surviving ledger (None if it could not be read)."""
    kept = survivors or EMPTY
    groups: dict[OpOutcome, list[int]] = {one: [] for one in OpOutcome}
    waited: list[int] = []
    for batch in history.batches:
        for place, code in enumerate(batch.codes):
            groups[outcome(code)].append(batch.first + place)
            if code & WAITED:
                waited.append(batch.first + place)
    acked = frozenset(groups[OpOutcome.ADMITTED]) | frozenset(groups[OpOutcome.DENIED])
    fallback = frozenset(groups[OpOutcome.LOCAL_ADMITTED]) | frozenset(groups[OpOutcome.LOCAL_DENIED])
    gone = acked - frozenset(kept.ids) if survivors is not None else frozenset()
    ops = tuple(_ops(history, places, gone))
    return Account(
        name=history.name,
        side=history.side,
        recorded=sum(map(len, groups.values())),
        acked=acked,
        waited=acked & frozenset(waited),
        refused=frozenset(groups[OpOutcome.REFUSED]),
        indeterminate=frozenset(groups[OpOutcome.INDETERMINATE]) | fallback,
        not_sent=len(groups[OpOutcome.NOT_SENT]),
        is_measured=survivors is not None,
        fallback=fallback,
        survivors=kept,
        lost=tuple(op for op in ops if op.id in gone),
        hot=tuple(op for op in ops if op.code & HOT),
    )


def _ops(history: ClientHistory, places: tuple[str, ...], wanted: Ids) -> Iterable[Op]:
    """Yield the hot user's operations, and the operations whose ids are in `wanted`."""
    for batch in history.batches:
        for place, code in enumerate(batch.codes):
            if code & HOT or batch.first + place in wanted:
                yield Op(
                    id=batch.first + place,
                    client=history.name,
                    connection=batch.connection,
                    node=places[batch.node] if batch.node < len(places) else "",
                    code=code,
                    sent_s=batch.sent_s,
                    done_s=batch.done_s,
                )
