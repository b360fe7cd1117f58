"""Carries one run out and records it, from the first observation to the last copy of a ledger."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from rlctl.drills.engine.actions import ActionExecutor
from rlctl.drills.engine.client_processes import ClientProcesses
from rlctl.drills.engine.client_spec import ClientSpec, NodeAddress
from rlctl.drills.engine.clients import ClockReading, client_specs
from rlctl.drills.engine.context import RunContext
from rlctl.drills.engine.fixtures import ALGORITHM, Fixtures
from rlctl.drills.engine.monitor import BudgetExceeded, RunMonitor
from rlctl.drills.engine.probes import Probe, Probes
from rlctl.drills.engine.recover import recover
from rlctl.drills.engine.sampler import NodeSampler
from rlctl.drills.record.follow import HistoryFollower
from rlctl.drills.record.ledger import Keys, tag_in
from rlctl.drills.scenario.model import Cut, LoadMode, Scenario, Side
from rlctl.errors import Refused, RlctlError
from rlctl.lab.partition import ANYWHERE, ClientSource, Flow
from rlctl.lab.roles import LabRole
from rlctl.lab.run_folder import RunFolder, RunJournal, journal_lines
from rlctl.lab.snapshot import Snapshot, differences, take_snapshot
from rlctl.operations.env import EnvUser, connection
from rlctl.render.redis_conf import tunables
from rlctl.secrets import User
from rlctl.system.clock import wait_until
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeSpec, node_id

WARM_S = 20.0
SAMPLE_TIMEOUT_S = 0.3
_TOO_FEW_HOSTS = "a host is only cut off as a whole: use more hosts, or move primaries apart by a failover first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One scenario on one fleet, and the folder that records it."""

    context: RunContext
    scenario: Scenario
    folder: RunFolder
    journal: RunJournal

    def carry_out(self) -> None:
        """Load the fleet, inject the faults, heal, and copy the ledgers. Heals the fleet after an error too."""
        self._check_voters()
        keys = self._keys()
        fixtures = Fixtures.plan(self.context.held.fleet, {side.value: keys[side] for side in self.scenario.load.sides})
        specs = self._specs(keys, fixtures.script.sha1)
        self._begin(specs, keys)
        service = connection(self.context.held.fleet, EnvUser.LIMITER).to_json()
        clients = ClientProcesses(self.folder, specs, self.scenario.load, fixtures.credentials, service)
        before = take_snapshot(self.context.held.fleet)
        try:
            self._set_up(fixtures)
            clients.start()
            with self._sampled() as sampler, self._probing(fixtures):
                self._run_scenario(fixtures, clients, sampler)
        finally:
            clients.kill()
            # The stack runs the last callback first, so it heals before it cleans up. If a callback fails, the stack
            # still runs the other callbacks.
            with ExitStack() as cleaning:
                cleaning.callback(self._clean_up, fixtures, before)
                cleaning.callback(self.context.injector.processes.resume_all)
                cleaning.callback(self.context.injector.partitioner.heal)

    def _clean_up(self, fixtures: Fixtures, before: Snapshot) -> None:
        left = fixtures.take_down()
        fleet = self.context.held.fleet
        changed = differences(before, take_snapshot(fleet), tunables(fleet.topology))
        residue = (*left, *fixtures.residue(), *self.context.injector.partitioner.residue(), *changed)
        self.journal.write("cleaned", residue=residue)

    def _run_scenario(self, fixtures: Fixtures, clients: ClientProcesses, sampler: NodeSampler) -> None:
        followers = {side: HistoryFollower(self.folder.history(side)) for side in self.scenario.load.sides}
        monitor = RunMonitor(self.context, sampler, followers, self.journal, self.scenario.budget)
        executor = ActionExecutor(
            self.context, fixtures, clients, monitor, self.journal, lambda: self._copy_doomed(fixtures)
        )
        with self.context.breaking():
            self.context.injector.partitioner.prepare(self._cut_off())
            monitor.begin()
            clients.go()
            self._await_load(followers)
            self.journal.write("loaded")
            self._carry_out_steps(executor)
            self.journal.write("stopping")
            clients.end()
            self.folder.write("clients.json", clients.ends)
            self._copy_doomed(fixtures)
            self._heal_partition()
        self._heal(sampler)
        self._copy(fixtures, "final")

    def _carry_out_steps(self, executor: ActionExecutor) -> None:
        try:
            for action in self.scenario.actions:
                executor.carry_out(action)
        except BudgetExceeded as blown:
            self.journal.write("budget", text=str(blown))
            self.context.progress.note(f"over budget: {blown}")

    def _heal_partition(self) -> None:
        self.context.progress.note("heal")
        self.journal.write("heal")
        self.context.injector.partitioner.heal()
        self.context.injector.processes.resume_all()

    def _heal(self, sampler: NodeSampler) -> None:
        try:
            recover(self.context, sampler, self.journal)
        except RlctlError as failure:
            self.journal.write("unhealed", text=failure.message)
            self.context.progress.note(f"not healed: {failure.message}")

    def _copy_doomed(self, fixtures: Fixtures) -> None:
        """Copy the ledgers before the first heal, because an isolated node discards its writes after the heal.

        Later calls do nothing.
        """
        if not any(line["event"] == "copied" for line in journal_lines(self.folder)):
            self._copy(fixtures, "doomed")

    def _copy(self, fixtures: Fixtures, moment: str) -> None:
        if self.scenario.load.mode is LoadMode.LIBRARY:
            return
        bits = self.scenario.load.mode is LoadMode.BITS
        roles = self.context.roles
        here = [name for name in fixtures.clients if name != Side.OTHERS]
        silent = fixtures.copy_ledgers(self.folder, moment, roles.shard, here, bits=bits)
        if Side.OTHERS in fixtures.clients:
            silent += fixtures.copy_ledgers(self.folder, moment, roles.other_primaries[-1:], [Side.OTHERS], bits=bits)
        self.journal.write("copied", moment=moment, silent=silent)

    def _await_load(self, followers: Mapping[Side, HistoryFollower]) -> None:
        """Wait until every client has its first acknowledgement."""

        def is_loaded() -> bool:
            self.context.stop.check()
            for follower in followers.values():
                follower.read()
            return all(follower.last_ack_s is not None for follower in followers.values())

        wait_until(is_loaded, timeout_s=WARM_S, clock=self.context.clock, what="every client acknowledged once")

    def _keys(self) -> dict[Side, Keys]:
        """The keys of each side. Side `others` has keys in another shard, all other sides in the victim's shard."""
        roles = self.context.roles
        own = Keys(run=self.folder.id, tag=tag_in(roles.slots))
        others = Keys(run=self.folder.id, tag=tag_in(roles.other_slots or roles.slots))
        return {side: others if side is Side.OTHERS else own for side in Side}

    def _specs(self, keys: Mapping[Side, Keys], sha1: str) -> tuple[ClientSpec, ...]:
        clock = self.context.clock
        now = ClockReading(wall_ms=int(clock.now().timestamp() * 1000), monotonic_us=int(clock.monotonic() * 1_000_000))
        return client_specs(self.scenario.load, self.context.roles, keys, sha1, self.context.sources, now)

    def _set_up(self, fixtures: Fixtures) -> None:
        roles = self.context.roles
        fixtures.set_up([roles.victim])
        others = [*roles.replicas, *roles.other_nodes]
        fixtures.set_up(others, with_script=self.scenario.load.preload)

    def _begin(self, clients: tuple[ClientSpec, ...], keys: Mapping[Side, Keys]) -> None:
        roles, fleet = self.context.roles, self.context.held.fleet
        self.journal.write(
            "begin",
            scenario=self.scenario.name,
            victim=roles.victim.name,
            shard=[spec.name for spec in roles.shard],
            nodes={spec.name: spec.endpoint for spec in roles.all_nodes},
            ids={spec.name: node_id(fleet.secrets.fleet_id, spec.name) for spec in roles.all_nodes},
            clients={spec.name: [place.name for place in spec.places] for spec in clients},
            tags={spec.name: keys[spec.side].tag for spec in clients},
            method=self.context.injector.partitioner.method,
            configuration=self._configuration(),
            wall=self.context.clock.now().isoformat(timespec="milliseconds"),
        )

    def _configuration(self) -> dict[str, object]:
        """The settings that the result depends on, for the report."""
        topology, load = self.context.held.fleet.topology, self.scenario.load
        is_cluster = topology.kind is Kind.CLUSTER
        observed = self.context.held.fleet.observe()
        return {
            "server": f"{topology.engine.flavor} {observed.node(self.context.roles.victim.name).version}",
            "nodes": len(self.context.roles.all_nodes),
            "replicas": len(self.context.roles.replicas),
            "timeout_ms": topology.cluster.node_timeout_ms if is_cluster else topology.sentinel.down_after_ms,
            "full_coverage": topology.cluster.full_coverage if is_cluster else None,
            "min_replicas": topology.consistency.min_replicas,
            "max_lag_ms": topology.consistency.max_lag_ms,
            "persistence": topology.persistence.mode,
            "fsync": topology.persistence.fsync,
            "maxmemory_bytes": topology.memory.maxmemory_bytes,
            "acl": topology.security.acl,
            "tls": topology.security.tls,
            "script": f"{ALGORITHM} of release {self.context.held.fleet.release.version}",
            "rate_per_client": load.rate,
            "connections": load.connections,
            "depth": load.depth,
            "wait_replicas": load.wait_replicas,
            "client_timeout_ms": load.timeout_ms,
            "parameters": dict(self.scenario.parameters),
        }

    @contextmanager
    def _sampled(self) -> Iterator[NodeSampler]:
        roles, fleet = self.context.roles, self.context.held.fleet
        links = [
            (spec, fleet.connector.separate_link(spec, User.MONITOR, timeout_s=SAMPLE_TIMEOUT_S))
            for spec in roles.watched
        ]
        victim_id = node_id(fleet.secrets.fleet_id, roles.victim.name)
        sampler = NodeSampler(links, victim_id, fleet.topology.name, fleet.topology.kind, self.context.clock)
        sampler.start(self.journal)
        try:
            yield sampler
        finally:
            sampler.stop()

    @contextmanager
    def _probing(self, fixtures: Fixtures) -> Iterator[None]:
        pings = Probes(self._planned_probes(), fixtures.credentials.authority, self.context.clock)
        pings.start(self.journal)
        try:
            yield
        finally:
            pings.stop()

    def _check_voters(self) -> None:
        cuts = [action for action in self.scenario.actions if isinstance(action, Cut)]
        is_cut_off = any(cut.flow is Flow.EVERYTHING and cut.role is LabRole.VICTIM for cut in cuts)
        reason = self.context.roles.why_no_election() if is_cut_off else None
        if reason is not None:
            raise Refused(f"{self.scenario.name} would show no failover here: {reason}", hint=_TOO_FEW_HOSTS)

    def _cut_off(self) -> tuple[NodeSpec, ...]:
        """The nodes that the scenario isolates."""
        roles = self.context.roles
        cuts = [action for action in self.scenario.actions if isinstance(action, Cut)]
        return tuple(spec for cut in cuts if cut.flow is Flow.EVERYTHING for spec in roles.cut_off(cut.role))

    def _planned_probes(self) -> tuple[Probe, ...]:
        """Probes of the first cut: one across it for each direction that can be probed, and one that must get answers.

        Empty if the scenario has no cut, or if probes cannot detect its first cut.
        """
        cuts = [action for action in self.scenario.actions if isinstance(action, Cut)]
        if not cuts or cuts[0].flow not in self.context.injector.partitioner.probed_flows:
            return ()
        roles, cut = self.context.roles, cuts[0]
        beside = self.context.sources.get(Side.MINORITY, ANYWHERE) if cut.flow is Flow.EVERYTHING else ANYWHERE
        probes = [Probe(name="beside", source=beside, place=NodeAddress.of(roles.victim), is_across=False)]
        isolated, rest = roles.victim, roles.replicas[0]
        if cut.flow is Flow.EVERYTHING and cut.role is LabRole.REPLICA:
            isolated, rest = roles.replicas[0], roles.victim
        inwards, outwards = self._across(isolated, rest)
        probes.append(Probe(name="inwards", source=inwards, place=NodeAddress.of(isolated), is_across=True))
        if cut.flow is Flow.EVERYTHING and outwards is not None:
            probes.append(Probe(name="outwards", source=outwards, place=NodeAddress.of(rest), is_across=True))
        return tuple(probes)

    def _across(self, isolated: NodeSpec, rest: NodeSpec) -> tuple[ClientSource, ClientSource | None]:
        """Sources of the inward and the outward probe across a cut.

        In namespaces, the sources are the nodes' own addresses. Elsewhere, the inward probe uses the ports of the
        majority's clients, and there is no outward probe.
        """
        far = self.context.sources.get(Side.MAJORITY, ANYWHERE)
        if far.ports is not None:
            return far, None
        return ClientSource(address=rest.address), ClientSource(address=isolated.address)
