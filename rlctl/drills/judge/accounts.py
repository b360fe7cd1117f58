"""Acknowledged against survived: the books of one client, which must close exactly. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from rlctl.drills.record.ledger import EMPTY, Ledger
from rlctl.drills.record.ops import HOT, WAITED, ClientHistory, Outcome, outcome

Ids = frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One operation that matters one by one: lost, or of the hot user."""

    id: int
    client: str
    connection: int
    node: str
    code: int
    sent_s: float
    done_s: float

    @property
    def outcome(self) -> Outcome:
        """Its class."""
        return outcome(self.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One client's books. `acked` are all acknowledged ones, `waited` those that WAIT confirmed as well.

    `fallback` are decided by the client's own policy: for the server they are indeterminate, as without an answer.

    Where the surviving ledger could not be read, `is_measured` is false, and nothing is known of what is lost.
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
        """No answer came, and yet they are there."""
        return self.indeterminate & frozenset(self.survivors.ids)

    @property
    def lost_ids(self) -> Ids:
        """What was acknowledged and is gone."""
        return frozenset(op.id for op in self.lost)

    @property
    def duplicated(self) -> int:
        """Ids that are there more than once."""
        return sum(1 for times in Counter(self.survivors.ids).values() if times > 1)

    @property
    def unexpected(self) -> Ids:
        """Ids that are there although nobody sent them."""
        return frozenset(self.survivors.ids) - self.acked - self.refused - self.indeterminate

    @property
    def refused_survivors(self) -> Ids:
        """Refused operations that took effect all the same."""
        return self.refused & frozenset(self.survivors.ids)


def account(history: ClientHistory, places: tuple[str, ...], survivors: Ledger | None) -> Account:
    """Close one client's books against the ledger that survived."""
    kept = survivors or EMPTY
    groups: dict[Outcome, list[int]] = {one: [] for one in Outcome}
    waited: list[int] = []
    for batch in history.batches:
        for place, code in enumerate(batch.codes):
            groups[outcome(code)].append(batch.first + place)
            if code & WAITED:
                waited.append(batch.first + place)
    acked = frozenset(groups[Outcome.ADMITTED]) | frozenset(groups[Outcome.DENIED])
    fallback = frozenset(groups[Outcome.LOCAL_ADMITTED]) | frozenset(groups[Outcome.LOCAL_DENIED])
    gone = acked - frozenset(kept.ids) if survivors is not None else frozenset()
    ops = tuple(_ops(history, places, gone))
    return Account(
        name=history.name,
        side=history.side,
        recorded=sum(map(len, groups.values())),
        acked=acked,
        waited=acked & frozenset(waited),
        refused=frozenset(groups[Outcome.REFUSED]),
        indeterminate=frozenset(groups[Outcome.INDETERMINATE]) | fallback,
        not_sent=len(groups[Outcome.NOT_SENT]),
        is_measured=survivors is not None,
        fallback=fallback,
        survivors=kept,
        lost=tuple(op for op in ops if op.id in gone),
        hot=tuple(op for op in ops if op.code & HOT),
    )


def _ops(history: ClientHistory, places: tuple[str, ...], wanted: Ids) -> Iterable[Op]:
    """One by one, which only few are looked at."""
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
