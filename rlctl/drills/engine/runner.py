"""One run from its first look at the fleet to the last ledger: everything is written down, nothing is judged here."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from rlctl.drills.engine.actions import Actor
from rlctl.drills.engine.client_processes import Crew
from rlctl.drills.engine.client_spec import Member, Place
from rlctl.drills.engine.clients import Now, members
from rlctl.drills.engine.context import Stage
from rlctl.drills.engine.fixtures import ALGORITHM, Estate
from rlctl.drills.engine.probes import Canaries, Perch
from rlctl.drills.engine.recover import heal
from rlctl.drills.engine.sampler import Sampler
from rlctl.drills.engine.watch import BudgetBlown, Watch
from rlctl.drills.record.follow import Tail
from rlctl.drills.record.ledger import Keys, tag_in
from rlctl.drills.scenario.model import Cut, Mode, Scenario, Side
from rlctl.errors import Refused, RlctlError
from rlctl.lab.partition import ANYWHERE, Flow, Source
from rlctl.lab.roles import Who
from rlctl.lab.run_folder import RunFolder, RunJournal, journal_lines
from rlctl.lab.snapshot import Print, differences, take_prints
from rlctl.operations.env import EnvUser, connection
from rlctl.secrets import User
from rlctl.system.clock import wait_until
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeSpec, node_id

WARM_S = 20.0
SAMPLE_TIMEOUT_S = 0.3
_CROWDED = "a host is only cut off as a whole: use more hosts, or move primaries apart by a failover first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One scenario on one stage, with the folder that keeps what happens."""

    stage: Stage
    scenario: Scenario
    folder: RunFolder
    journal: RunJournal

    def carry_out(self) -> None:
        """Load, break, wait, heal, read; whatever happens in between, the fleet is healed."""
        self._check_electors()
        keys = self._keys()
        estate = Estate.plan(self.stage.held.fleet, {side.value: keys[side] for side in self.scenario.load.sides})
        crew_members = self._members(keys, estate.script.sha1)
        self._begin(crew_members, keys)
        service = connection(self.stage.held.fleet, EnvUser.LIMITER).to_json()
        crew = Crew(self.folder, crew_members, self.scenario.load, estate.entry, service)
        before = take_prints(self.stage.held.fleet)
        try:
            self._set_up(estate)
            crew.start()
            with self._sampled() as sampler, self._canaries(estate):
                self._play(estate, crew, sampler)
        finally:
            crew.kill()
            # The last first: mend, wake up, tidy; what fails of these keeps none of the others from being done.
            with ExitStack() as cleaning:
                cleaning.callback(self._tidy, estate, before)
                cleaning.callback(self.stage.processes.resume_all)
                cleaning.callback(self.stage.faults.mend)

    def _tidy(self, estate: Estate, before: Print) -> None:
        left = estate.take_down()
        changed = differences(before, take_prints(self.stage.held.fleet))
        residue = (*left, *estate.residue(), *self.stage.faults.residue(), *changed)
        self.journal.write("cleaned", residue=residue)

    def _play(self, estate: Estate, crew: Crew, sampler: Sampler) -> None:
        tails = {side: Tail(self.folder.history(side)) for side in self.scenario.load.sides}
        watch = Watch(self.stage, sampler, tails, self.journal, self.scenario.budget)
        actor = Actor(self.stage, estate, crew, watch, self.journal, lambda: self._copy_doomed(estate))
        with self.stage.breaking():
            self.stage.faults.prepare(self._cut_off())
            watch.begin()
            crew.go()
            self._await_load(tails)
            self.journal.write("loaded")
            self._perform(actor)
            self.journal.write("stopping")
            crew.end()
            self.folder.write("clients.json", crew.ends)
            self._copy_doomed(estate)
            self._mend()
        self._heal(sampler)
        self._copy(estate, "final")

    def _perform(self, actor: Actor) -> None:
        try:
            for action in self.scenario.actions:
                actor.perform(action)
        except BudgetBlown as blown:
            self.journal.write("budget", text=str(blown))
            self.stage.progress.note(f"over budget: {blown}")

    def _mend(self) -> None:
        self.stage.progress.note("heal")
        self.journal.write("heal")
        self.stage.faults.mend()
        self.stage.processes.resume_all()

    def _heal(self, sampler: Sampler) -> None:
        try:
            heal(self.stage, sampler, self.journal)
        except RlctlError as failure:
            self.journal.write("unhealed", text=failure.message)
            self.stage.progress.note(f"not healed: {failure.message}")

    def _copy_doomed(self, estate: Estate) -> None:
        """The first copy counts: after a mend the isolated node is about to forget what it took."""
        if not any(line["event"] == "copied" for line in journal_lines(self.folder)):
            self._copy(estate, "doomed")

    def _copy(self, estate: Estate, moment: str) -> None:
        if self.scenario.load.mode is Mode.LIBRARY:
            return
        bits = self.scenario.load.mode is Mode.BITS
        cast = self.stage.cast
        here = [name for name in estate.clients if name != Side.OTHERS]
        silent = estate.copy_ledgers(self.folder, moment, cast.shard, here, bits=bits)
        if Side.OTHERS in estate.clients:
            silent += estate.copy_ledgers(self.folder, moment, cast.seconds[-1:], [Side.OTHERS], bits=bits)
        self.journal.write("copied", moment=moment, silent=silent)

    def _await_load(self, tails: Mapping[Side, Tail]) -> None:
        """Every client got its first answer: before that nothing was really loaded."""

        def is_loaded() -> bool:
            self.stage.stop.check()
            for tail in tails.values():
                tail.read()
            return all(tail.last_ack_s is not None for tail in tails.values())

        wait_until(is_loaded, timeout_s=WARM_S, clock=self.stage.clock, what="every client acknowledged once")

    def _keys(self) -> dict[Side, Keys]:
        """All of a run's keys are in the victim's shard, but those of the client that asks another one."""
        cast = self.stage.cast
        own = Keys(run=self.folder.id, tag=tag_in(cast.slots))
        others = Keys(run=self.folder.id, tag=tag_in(cast.other_slots or cast.slots))
        return {side: others if side is Side.OTHERS else own for side in Side}

    def _members(self, keys: Mapping[Side, Keys], sha1: str) -> tuple[Member, ...]:
        clock = self.stage.clock
        now = Now(wall_ms=int(clock.now().timestamp() * 1000), monotonic_us=int(clock.monotonic() * 1_000_000))
        return members(self.scenario.load, self.stage.cast, keys, sha1, self.stage.sources, now)

    def _set_up(self, estate: Estate) -> None:
        cast = self.stage.cast
        estate.set_up([cast.victim])
        others = [*cast.replicas, *cast.others]
        estate.set_up(others, with_script=self.scenario.load.preload)

    def _begin(self, crew: tuple[Member, ...], keys: Mapping[Side, Keys]) -> None:
        cast, fleet = self.stage.cast, self.stage.held.fleet
        self.journal.write(
            "begin",
            scenario=self.scenario.name,
            victim=cast.victim.name,
            shard=[spec.name for spec in cast.shard],
            nodes={spec.name: spec.endpoint for spec in cast.everybody},
            ids={spec.name: node_id(fleet.secrets.fleet_id, spec.name) for spec in cast.everybody},
            clients={member.name: [place.name for place in member.places] for member in crew},
            tags={member.name: keys[member.side].tag for member in crew},
            method=self.stage.faults.method,
            configuration=self._configuration(),
            wall=self.stage.clock.now().isoformat(timespec="milliseconds"),
        )

    def _configuration(self) -> dict[str, object]:
        """What the result depends on, as the report prints it."""
        topology, load = self.stage.held.fleet.topology, self.scenario.load
        is_cluster = topology.kind is Kind.CLUSTER
        observed = self.stage.held.fleet.observe()
        return {
            "server": f"{topology.engine.flavor} {observed.node(self.stage.cast.victim.name).version}",
            "nodes": len(self.stage.cast.everybody),
            "replicas": len(self.stage.cast.replicas),
            "timeout_ms": topology.cluster.node_timeout_ms if is_cluster else topology.sentinel.down_after_ms,
            "full_coverage": topology.cluster.full_coverage if is_cluster else None,
            "min_replicas": topology.consistency.min_replicas,
            "max_lag_ms": topology.consistency.max_lag_ms,
            "persistence": topology.persistence.mode,
            "fsync": topology.persistence.fsync,
            "maxmemory_bytes": topology.memory.maxmemory_bytes,
            "acl": topology.security.acl,
            "tls": topology.security.tls,
            "script": f"{ALGORITHM} of release {self.stage.held.fleet.release.version}",
            "rate_per_client": load.rate,
            "connections": load.connections,
            "depth": load.depth,
            "wait_replicas": load.wait_replicas,
            "client_timeout_ms": load.timeout_ms,
            "parameters": dict(self.scenario.parameters),
        }

    @contextmanager
    def _sampled(self) -> Iterator[Sampler]:
        cast, fleet = self.stage.cast, self.stage.held.fleet
        links = [
            (spec, fleet.connector.separate_link(spec, User.MONITOR, timeout_s=SAMPLE_TIMEOUT_S))
            for spec in cast.watched
        ]
        victim_id = node_id(fleet.secrets.fleet_id, cast.victim.name)
        sampler = Sampler(links, victim_id, fleet.topology.name, fleet.topology.kind, self.stage.clock)
        sampler.start(self.journal)
        try:
            yield sampler
        finally:
            sampler.stop()

    @contextmanager
    def _canaries(self, estate: Estate) -> Iterator[None]:
        canaries = Canaries(self._perches(), estate.entry.authority, self.stage.clock)
        canaries.start(self.journal)
        try:
            yield
        finally:
            canaries.stop()

    def _check_electors(self) -> None:
        cuts = [action for action in self.scenario.actions if isinstance(action, Cut)]
        is_cut_off = any(cut.flow is Flow.EVERYTHING and cut.who is Who.VICTIM for cut in cuts)
        reason = self.stage.cast.why_nobody_is_elected() if is_cut_off else None
        if reason is not None:
            raise Refused(f"{self.scenario.name} would show no failover here: {reason}", hint=_CROWDED)

    def _cut_off(self) -> tuple[NodeSpec, ...]:
        """Who will be cut off from everything."""
        cast = self.stage.cast
        cuts = [action for action in self.scenario.actions if isinstance(action, Cut)]
        return tuple(spec for cut in cuts if cut.flow is Flow.EVERYTHING for spec in cast.cut_off(cut.who))

    def _perches(self) -> tuple[Perch, ...]:
        """Flows across the coming cut, one for each way that has a place to sing from, and one that it must spare."""
        cuts = [action for action in self.scenario.actions if isinstance(action, Cut)]
        if not cuts or cuts[0].flow not in self.stage.faults.witnessed:
            return ()
        cast, cut = self.stage.cast, cuts[0]
        beside = self.stage.sources.get(Side.MINORITY, ANYWHERE) if cut.flow is Flow.EVERYTHING else ANYWHERE
        perches = [Perch(name="beside", source=beside, place=Place.of(cast.victim), is_across=False)]
        alone, rest = cast.victim, cast.replicas[0]
        if cut.flow is Flow.EVERYTHING and cut.who is Who.REPLICA:
            alone, rest = cast.replicas[0], cast.victim
        inwards, outwards = self._across(alone, rest)
        perches.append(Perch(name="inwards", source=inwards, place=Place.of(alone), is_across=True))
        if cut.flow is Flow.EVERYTHING and outwards is not None:
            perches.append(Perch(name="outwards", source=outwards, place=Place.of(rest), is_across=True))
        return tuple(perches)

    def _across(self, alone: NodeSpec, rest: NodeSpec) -> tuple[Source, Source | None]:
        """Where to sing from, across a cut: the nodes' addresses where these are ours, else with the far clients."""
        far = self.stage.sources.get(Side.MAJORITY, ANYWHERE)
        if far.ports is not None:
            return far, None
        return Source(address=rest.address), Source(address=alone.address)
