"""Sends the calls of a case in one pattern, and counts them."""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from rlctl.bench.figures import ClientCounts, Measurement, Pattern
from rlctl.bench.session import TIMEOUT_S, BenchPrimary, Session, now_s
from rlctl.bench.stats import admitted, is_whole
from rlctl.bench.subjects import BenchCase
from rlctl.execute.stop import StopFlag
from rlctl.limiter.threads.connection import Connection
from rlctl.limits.failures import ErrorReply, failure_of
from rlctl.limits.resp import Reply

DEPTH = 50
# The largest number of calls in one measurement.
MOST_CALLS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A connection and the calls to send over it in turn."""

    link: Connection
    calls: Sequence[bytes]


class LoadGenerator:
    """Sends calls to some primaries of a session. Raises Interrupted if the stop flag is set."""

    def __init__(self, session: Session, primaries: Sequence[BenchPrimary], stop: StopFlag) -> None:
        self._session = session
        self._primaries = primaries
        self._stop = stop

    def fill(self, case: BenchCase, keys: int) -> None:
        """Bring the keys into the state that the measured calls expect."""
        decisions = case.answer is not None
        for primary in self._primaries:
            tags, now_us = self._session.tags(primary, keys), primary.now_us()
            self._session.will_write(primary, map(case.key, tags))
            calls = [call for tag in tags for call in case.fill(tag, now_us)]
            for at in range(0, len(calls), DEPTH):
                self._stop.check()
                batch = calls[at : at + DEPTH]
                _exchange([primary.link(decisions=decisions)], [b"".join(batch)], len(batch), decisions=decisions)

    def run(self, case: BenchCase, pattern: Pattern, duration_s: float) -> Measurement:
        """Send calls for `duration_s`, at most about MOST_CALLS.

        Reads the servers' counters before the first call and after the last.
        """
        decisions = case.answer is not None
        lanes = [self._lane(primary, case, pattern.keys) for primary in self._driven(pattern)]
        _call_each_key(lanes, decisions=decisions)
        before = self._session.spent(case.command)
        cpu_s, started_s = time.process_time(), now_s()
        if pattern.depth == 1:
            counted = self._one_by_one(lanes, started_s + duration_s)
        else:
            counted = self._pipelined(lanes, pattern.depth, started_s + duration_s, decisions=decisions)
        elapsed_s, cpu_s = now_s() - started_s, time.process_time() - cpu_s
        spent = self._session.spent(case.command) - before
        return Measurement(counted=counted, elapsed_s=elapsed_s, client_cpu_s=cpu_s, spent=spent)

    def _driven(self, pattern: Pattern) -> Sequence[BenchPrimary]:
        return self._primaries[:1] if pattern.keys == 1 else self._primaries

    def _lane(self, primary: BenchPrimary, case: BenchCase, keys: int) -> Lane:
        tags = self._session.tags(primary, keys)
        link = primary.link(decisions=case.answer is not None)
        return Lane(link=link, calls=[case.message(tag) for tag in tags])

    def _one_by_one(self, lanes: Sequence[Lane], until_s: float) -> ClientCounts:
        waits: list[float] = []
        allowed = 0
        for turn in itertools.count():
            for lane in lanes:
                began_s = now_s()
                reply = lane.link.exchange(lane.calls[turn % len(lane.calls)], time.monotonic() + TIMEOUT_S)
                waits.append((now_s() - began_s) * 1e6)
                allowed += _is_admission(reply, lane.link)
            self._stop.check()
            if now_s() >= until_s or len(waits) >= MOST_CALLS:
                break
        return ClientCounts(calls=len(waits), admitted=allowed, waits_us=waits)

    def _pipelined(self, lanes: Sequence[Lane], depth: int, until_s: float, *, decisions: bool) -> ClientCounts:
        links = [lane.link for lane in lanes]
        batches = [_batches(lane.calls, depth) for lane in lanes]
        calls = allowed = 0
        for turn in itertools.count():
            messages = [own[turn % len(own)] for own in batches]
            allowed += _exchange(links, messages, depth, decisions=decisions)
            calls += depth * len(links)
            self._stop.check()
            if now_s() >= until_s or calls >= MOST_CALLS:
                break
        return ClientCounts(calls=calls, admitted=allowed, waits_us=())


def _batches(calls: Sequence[bytes], depth: int) -> list[bytes]:
    """Join the calls into batches of `depth`, so that each call is sent. The last batch is filled from the start."""
    turns = itertools.cycle(calls)
    return [b"".join(itertools.islice(turns, depth)) for _ in range(-(-len(calls) // depth))]


def _call_each_key(lanes: Sequence[Lane], *, decisions: bool) -> None:
    """Call every key once before the measurement, because keys may have expired after a second without calls."""
    for messages in zip(*(_batches(lane.calls, DEPTH) for lane in lanes), strict=True):
        _exchange([lane.link for lane in lanes], messages, DEPTH, decisions=decisions)


def _is_admission(reply: Reply, link: Connection) -> bool:
    if isinstance(reply, ErrorReply):
        raise failure_of(reply, link.endpoint)
    return isinstance(reply, list) and reply[0] == 1


def _exchange(links: Sequence[Connection], messages: Sequence[bytes], replies: int, *, decisions: bool) -> int:
    """Send to all servers, then wait for all replies, and return the number of admissions.

    The servers work in parallel, because all messages are sent before the first wait.
    """
    deadline_s = time.monotonic() + TIMEOUT_S
    for link, message in zip(links, messages, strict=True):
        link.send(message, deadline_s)
    whole = partial(is_whole, replies=replies, decisions=decisions)
    return sum(admitted(link.receive(whole, deadline_s)) for link in links)
