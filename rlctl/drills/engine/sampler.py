"""Samples the nodes about 25 times a second: roles, failure reports and replication offsets."""

from collections.abc import Sequence
from dataclasses import asdict
from threading import Event, Thread

from rlctl.drills.record.sample import SILENT, Sample
from rlctl.lab.run_folder import RunJournal
from rlctl.observe import parse
from rlctl.observe.info import ServerInfo
from rlctl.observe.model import ReplicationLink, Role
from rlctl.system.clock import Clock
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeSpec

EVERY_S = 0.04
# An unchanged sample is recorded at this interval, which also proves that the sampler was running.
RECORD_S = 0.2
# Samples use Redis' own words for roles and links.
_ROLE_WORDS = {Role.PRIMARY: "master", Role.REPLICA: "slave", None: ""}
_LINK_WORDS = {ReplicationLink.UP: "up", ReplicationLink.DOWN: "down", ReplicationLink.NONE: ""}


class NodeSampler:
    """Samples each node in a thread with its own connection."""

    def __init__(
        self, watched: Sequence[tuple[NodeSpec, NodeLink]], victim_id: str, master_name: str, kind: Kind, clock: Clock
    ) -> None:
        self._watched = watched
        self._victim_id = victim_id
        self._master_name = master_name
        self._kind = kind
        self._clock = clock
        self._stopped = Event()
        self._threads: list[Thread] = []
        self.latest: dict[str, Sample] = {}

    def start(self, journal: RunJournal) -> None:
        """Sample every node in the background until `stop`."""
        for spec, link in self._watched:
            self._threads.append(Thread(target=self._sample_until_stopped, args=(spec, link, journal), daemon=True))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop sampling."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        for _spec, link in self._watched:
            link.close()

    def _sample_until_stopped(self, spec: NodeSpec, link: NodeLink, journal: RunJournal) -> None:
        recorded_s, recorded = -RECORD_S, SILENT
        while not self._stopped.is_set():
            started_s = self._clock.monotonic()
            sample = self._look(spec, link)
            self.latest[spec.name] = sample
            if _essence(sample) != _essence(recorded) or started_s - recorded_s >= RECORD_S:
                # A paused node answers only after it is resumed. Its sample shows the state at the time of the answer,
                # not at the time of the request.
                seen_s = self._clock.monotonic() if sample.alive else started_s
                journal.write_at(seen_s, "sample", node=spec.name, asked=started_s, **asdict(sample))
                recorded_s, recorded = started_s, sample
            self._stopped.wait(max(0.0, EVERY_S - (self._clock.monotonic() - started_s)))

    def _look(self, spec: NodeSpec, link: NodeLink) -> Sample:
        try:
            if spec.is_sentinel:
                return _of_sentinel(link, self._master_name)
            if self._kind is Kind.CLUSTER:
                return _of_cluster_node(link, self._victim_id)
            return _of_data_node(link)
        except LinkFailure:
            return SILENT


def _essence(sample: Sample) -> tuple[object, ...]:
    """The fields whose change makes a sample worth recording: all but the offset."""
    return (sample.alive, sample.role, sample.epoch, sample.link, sample.suspects, sample.condemns, sample.names)


def _of_data_node(link: NodeLink) -> Sample:
    info = ServerInfo(_text(link.pipeline([("INFO", "replication")])[0]))
    return Sample(
        alive=info.role is not None,
        role=_ROLE_WORDS[info.role],
        link=_LINK_WORDS[info.link],
        offset=info.written_offset or 0,
    )


def _of_cluster_node(link: NodeLink, victim_id: str) -> Sample:
    info_text, table = link.pipeline([("INFO", "replication"), ("CLUSTER", "NODES")])
    info = ServerInfo(_text(info_text))
    lines = [line.split(" ") for line in _text(table).splitlines()]
    own = next((words for words in lines if "myself" in words[2]), None)
    flags = next((words[2].split(",") for words in lines if words[0] == victim_id), [])
    return Sample(
        alive=info.role is not None,
        role=_ROLE_WORDS[info.role],
        epoch=int(own[6]) if own else 0,
        link=_LINK_WORDS[info.link],
        offset=info.written_offset or 0,
        suspects="fail?" in flags,
        condemns="fail" in flags,
    )


def _of_sentinel(link: NodeLink, master_name: str) -> Sample:
    answer = link.call("SENTINEL", "MASTER", master_name)
    facts = parse.pairs(answer)
    flags = facts.get("flags", "").split(",")
    return Sample(
        alive=True,
        role="sentinel",
        epoch=int(facts.get("config-epoch", "0")),
        suspects="s_down" in flags,
        condemns="o_down" in flags,
        names=f"{facts.get('ip')}:{facts.get('port')}",
    )


def _text(reply: object) -> str:
    return "" if isinstance(reply, CommandFailed) else str(reply)
