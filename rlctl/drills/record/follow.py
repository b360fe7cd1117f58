"""Follows a client's history file while the client writes it."""

from pathlib import Path

from rlctl.drills.record.ops import ACKED, HOT, OUTCOME_BITS, OpOutcome, outcome, unpack

_CHUNK = 1 << 20
# Every client of the victim's shard lists the victim as its first address.
_VICTIM = 0
_HOT_ADMITTED = HOT | OpOutcome.ADMITTED
_HOT_DENIED = HOT | OpOutcome.DENIED


class HistoryFollower:
    """A client's acknowledgements and refusals so far.

    `first_away_s` is the time of the first acknowledgement by a node other than the victim.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rest = b""
        self._at = 0
        self.last_ack_s: float | None = None
        self.first_away_s: float | None = None
        self.refused = 0
        # Whether the hot user's last decision was a denial. The value can become False again, because a new primary may
        # admit the hot user.
        self.is_used_up = False

    def read(self) -> None:
        """Read the batches that the client added since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as stream:
            stream.seek(self._at)
            while data := stream.read(_CHUNK):
                self._at += len(data)
                self._take(data)

    def _take(self, data: bytes) -> None:
        whole = self._rest + data
        used = 0
        for batch in unpack(whole):
            used += batch.size
            outcomes = {outcome(code) for code in set(batch.codes)}
            if OpOutcome.REFUSED in outcomes:
                self.refused += len(batch.codes)
            if outcomes & ACKED:
                self._acked(batch.node, batch.done_s)
            self._note_hot_user(batch.codes)
        self._rest = whole[used:]

    def _note_hot_user(self, codes: bytes) -> None:
        words = {code & (HOT | OUTCOME_BITS) for code in set(codes)}
        if _HOT_ADMITTED in words:
            self.is_used_up = False
        elif _HOT_DENIED in words:
            self.is_used_up = True

    def _acked(self, node: int, done_s: float) -> None:
        self.last_ack_s = max(self.last_ack_s or 0.0, done_s)
        if node != _VICTIM:
            self.first_away_s = min(self.first_away_s or done_s, done_s)
