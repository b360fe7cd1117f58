"""Follows a client's history file while it grows: what was acknowledged last, and where."""

from pathlib import Path

from rlctl.drills.record.ops import ACKED, HOT, OUTCOME_BITS, Outcome, outcome, unpack

_CHUNK = 1 << 20
# The place that every client of the shard starts with.
_VICTIM = 0
_HOT_ADMITTED = HOT | Outcome.ADMITTED
_HOT_DENIED = HOT | Outcome.DENIED


class HistoryFollower:
    """One client's file, read as far as it is written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rest = b""
        self._at = 0
        self.last_ack_s: float | None = None
        self.first_away_s: float | None = None
        self.refused = 0
        # Whether the hot user was denied when he was last answered; who has taken over admits him again.
        self.is_used_up = False

    def read(self) -> None:
        """Take in what is new."""
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
            if Outcome.REFUSED in outcomes:
                self.refused += len(batch.codes)
            if outcomes & ACKED:
                self._acked(batch.node, batch.done_s)
            self._heed_hot(batch.codes)
        self._rest = whole[used:]

    def _heed_hot(self, codes: bytes) -> None:
        words = {code & (HOT | OUTCOME_BITS) for code in set(codes)}
        if _HOT_ADMITTED in words:
            self.is_used_up = False
        elif _HOT_DENIED in words:
            self.is_used_up = True

    def _acked(self, node: int, done_s: float) -> None:
        self.last_ack_s = max(self.last_ack_s or 0.0, done_s)
        if node != _VICTIM:
            self.first_away_s = min(self.first_away_s or done_s, done_s)
