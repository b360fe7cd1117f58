"""Moving a shard's primary: order it, hold writes back where nothing may be lost, and read again what came of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rlctl.errors import CheckFailed, Interrupted, NotFound, Refused, RlctlError
from rlctl.execute.executor import FAILOVER_FACTOR, FAILOVER_MIN_S
from rlctl.execute.formation import Formation
from rlctl.execute.journal import Journal
from rlctl.execute.locking import LockedFleet
from rlctl.execute.progress import Progress
from rlctl.execute.session import FleetSession
from rlctl.execute.stop import StopFlag
from rlctl.execute.votes import await_votes
from rlctl.execute.waits import await_tilt_end, wait_observed
from rlctl.execute.write_pause import WritePause
from rlctl.observe.info import ServerInfo
from rlctl.observe.model import NodeFacts, Observed
from rlctl.observe.parse import required
from rlctl.plan.failover import FailoverMode, FailoverPlan, SyncStats, is_settled, kept_all_writes, new_primary
from rlctl.plan.failover_choice import choose
from rlctl.plan.steps import Replicate
from rlctl.system.clock import wait_until
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink
from rlctl.system.redis_errors import LOOK, UNCHANGED, named_errors
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeName, all_nodes, data_nodes

# A server of a cluster gives such an order up after five seconds; what it still did shows a moment later.
ORDER_S = 15.0
# Before the sentinels take the paused primary, which cannot answer their greetings, for dead.
COPY_S = 3.0
# Sentinel gives a promotion up after its failover-timeout, which it checks a few times a second.
GIVEN_UP_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverOptions:
    """What the command line says."""

    shard: int
    mode: FailoverMode
    argv: Sequence[str]
    timeout_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverReport:
    """Who has the shard now, and what is known of what was lost; None where that is not known."""

    name: str
    plan: FailoverPlan
    new: NodeName
    changed: bool
    lost_bytes: int | None
    elapsed_s: float
    is_old_back: bool

    def to_json(self) -> dict[str, object]:
        """Return the JSON document of `failover -o json`."""
        return {
            "schema": "rlctl.failover/1",
            "name": self.name,
            "shard": self.plan.shard,
            "mode": self.plan.mode,
            "from": self.plan.old,
            "to": self.new,
            "changed": self.changed,
            "lost_bytes": self.lost_bytes,
            "behind_bytes": self.plan.behind_bytes,
            "elapsed_s": round(self.elapsed_s, 3),
        }


def plan_failover(fleet: FleetSession, options: FailoverOptions) -> FailoverReport:
    """What would be done now."""
    plan = _choose(fleet, fleet.observe(), options)
    return FailoverReport(
        name=fleet.topology.name,
        plan=plan,
        new=plan.new,
        changed=False,
        lost_bytes=None,
        elapsed_s=0.0,
        is_old_back=plan.is_old_up,
    )


def run_failover(
    locked: LockedFleet,
    options: FailoverOptions,
    progress: Progress,
    stop: StopFlag,
    agree: Callable[[FailoverPlan], None],
) -> FailoverReport:
    """Move the primary; `agree` raises Declined when the user does not want it."""
    fleet = locked.fleet
    observed = fleet.observe()
    asked = _choose(fleet, observed, options)
    locked.take_key(observed)
    agree(asked)
    if asked.sentinel is not None:
        await_tilt_end(fleet, asked.sentinel, progress, stop)
    elif options.mode is FailoverMode.PLANNED:
        await_votes(fleet, asked, progress, stop)
    # Who holds the lock, and who thinks about a question, gives the fleet time to move.
    plan = _choose(fleet, fleet.observe(), options)
    if plan.old != asked.old:
        raise Refused(
            f"{plan.old} has become the primary of shard {plan.shard} meanwhile, not {asked.old}",
            hint="the same command moves it on from there",
        )
    locked.check()
    stop.check()
    return _journaled(_Failover(locked, plan, options, progress, stop), options.argv)


def _choose(fleet: FleetSession, observed: Observed, options: FailoverOptions) -> FailoverPlan:
    if fleet.is_new or not observed.exists:
        raise NotFound(f"fleet {fleet.topology.name} is not deployed", hint="`rlctl deploy` builds it")
    return choose(fleet.desired(observed), observed, options.shard, options.mode)


def _journaled(move: "_Failover", argv: Sequence[str]) -> FailoverReport:
    fleet = move.fleet
    journal = Journal(fleet.home.journal(fleet.topology.name), fleet.clock)
    journal.begin("failover", argv)
    try:
        report = move.carry_out()
    except RlctlError as failure:
        journal.step(move.plan.text, f"failed: {failure.message}")
        journal.end(failure.code)
        raise
    journal.step(move.plan.text, "done")
    journal.end("done")
    return report


class _Failover:
    """One order on its way."""

    def __init__(
        self, locked: LockedFleet, plan: FailoverPlan, options: FailoverOptions, progress: Progress, stop: StopFlag
    ) -> None:
        self.fleet = locked.fleet
        self.plan = plan
        self._locked = locked
        self._progress = progress
        self._stop = stop
        topology = self.fleet.topology
        self._is_cluster = topology.kind is Kind.CLUSTER
        patience_ms = topology.cluster.node_timeout_ms if self._is_cluster else topology.sentinel.down_after_ms
        patience_s = max(FAILOVER_MIN_S, patience_ms * FAILOVER_FACTOR / 1000)
        self._timeout_s = patience_s if options.timeout_s is None else options.timeout_s
        self._specs = {spec.name: spec for spec in all_nodes(topology)}

    def carry_out(self) -> FailoverReport:
        """Order it, wait for it, read again."""
        clock = self.fleet.clock
        started = clock.monotonic()
        before = self._syncs(self.plan.replicas) if self.plan.is_old_up else {}
        paused_at = self._start()
        new, old = self._prove(started)
        # One that was started anew in between may have forgotten what it acknowledged.
        is_same = old.is_up and old.run_id == self.plan.old_run_id
        lost = 0 if is_same and self._kept_all_writes(new.name, before, paused_at) else None
        return FailoverReport(
            name=self.fleet.topology.name,
            plan=self.plan,
            new=new.name,
            changed=True,
            lost_bytes=lost,
            elapsed_s=clock.monotonic() - started,
            is_old_back=old.is_up,
        )

    def _start(self) -> int | None:
        """Tell who has to be told; the offset up to which the old primary had written, where its writes were paused."""
        if self._is_cluster:
            words = () if self.plan.mode is FailoverMode.PLANNED else (self.plan.mode.upper(),)
            with named_errors(self.plan.new, UNCHANGED):
                self._link(self.plan.new).call("CLUSTER", "FAILOVER", *words)
            return None
        if self.plan.mode is FailoverMode.PLANNED:
            return self._start_with_writes_paused()
        self._start_by_sentinel()
        return None

    def _start_by_sentinel(self) -> None:
        assert self.plan.sentinel is not None
        with named_errors(self.plan.sentinel, UNCHANGED):
            self._link(self.plan.sentinel).call("SENTINEL", "FAILOVER", self.fleet.topology.name)

    def _start_with_writes_paused(self) -> int | None:
        """Sentinel leaves the old primary alone for seconds after the promotion: what it took then would be lost."""
        link = self.fleet.connector.separate_link(self._specs[self.plan.old])
        pause = WritePause(link, self.fleet.clock)
        try:
            with named_errors(self.plan.old, UNCHANGED):
                paused_at = pause.extend()
                self._await_copies(paused_at)
            self._stop.check()
            self._start_by_sentinel()
            with named_errors(self.plan.old, LOOK):
                self._redirect(pause)
        finally:
            pause.lift()
        with named_errors(self.plan.old, LOOK):
            pause.disconnect_clients()
        self.fleet.connector.hang_up(self.plan.old)
        return None if pause.has_lapsed else paused_at

    def _await_copies(self, offset: int) -> None:
        """Sentinel may promote any of the replicas: all must have what the primary wrote before the pause."""
        self._progress.note(f"writes on {self.plan.old} are paused; waiting until all replicas have what it wrote")

        def all_have_it() -> bool:
            self._stop.check()
            return all(self._received(name) >= offset for name in self.plan.replicas)

        wait_until(
            all_have_it,
            timeout_s=min(COPY_S, self.fleet.topology.sentinel.down_after_ms / 2000),
            clock=self.fleet.clock,
            what=f"{', '.join(self.plan.replicas)} having all that {self.plan.old} wrote",
            hint="nothing was changed; try again when there is less to copy",
        )

    def _received(self, name: NodeName) -> int:
        """Nothing, once it is no replica any more."""
        received = ServerInfo(self._link(name).call("INFO", "replication")).received_offset
        return -1 if received is None else received

    def _redirect(self, pause: WritePause) -> None:
        """Keep the pause until the promotion is sure, then make the old primary a replica at once.

        No timeout of the user's and no Ctrl-C ends this before the order does: writes would go on that are lost.
        """
        self._progress.note(f"{self.plan.sentinel} promotes a replica")

        def is_redirected() -> bool:
            pause.extend()
            new = self._promoted()
            return new is not None and not self._formation().replicate([Replicate(node=self.plan.old, primary=new)])

        wait_until(
            is_redirected,
            timeout_s=self.fleet.topology.sentinel.failover_timeout_ms / 1000 + GIVEN_UP_S,
            clock=self.fleet.clock,
            what=f"a replica taking over from {self.plan.old}",
            hint=f"Sentinel has given it up; {LOOK}",
        )

    def _promoted(self) -> NodeName | None:
        """Whom the ordered sentinel hands to clients: another one as soon as the promotion cannot be taken back."""
        assert self.plan.sentinel is not None
        link = self._link(self.plan.sentinel)
        address, port = link.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.fleet.topology.name)
        names = {(spec.address, spec.port): spec.name for spec in data_nodes(self.fleet.topology)}
        name = names.get((str(address), int(port)))
        return None if name == self.plan.old else name

    def _formation(self) -> Formation:
        fleet = self.fleet
        return Formation(
            topology=fleet.topology,
            secrets=fleet.secrets,
            connector=fleet.connector,
            clock=fleet.clock,
            stop=self._stop,
        )

    def _prove(self, started: float) -> tuple[NodeFacts, NodeFacts]:
        """The new primary and the old one, once the fleet is at rest behind the new one."""
        try:
            self._locked.follow(self._await_owner())
            observed = self._await_rest(started)
        except Interrupted as failure:
            raise type(failure)("stopped after the order was given; the fleet carries it out", hint=LOOK) from failure
        self._locked.follow(observed)
        new = new_primary(self.fleet.desired(observed), observed, self.plan)
        if new is None or (self._is_cluster and new.name != self.plan.new):
            found = "nobody" if new is None else new.name
            raise CheckFailed(f"{found} has shard {self.plan.shard} now, not {self.plan.new} as ordered", hint=LOOK)
        return new, observed.node(self.plan.old)

    def _await_owner(self) -> Observed:
        window_s = 2 * self.fleet.topology.cluster.node_timeout_ms / 1000
        few_votes = f"a shard gets votes once in {window_s:g} s, and this order may have come too soon: repeat it; "
        return self._await(
            lambda observed: new_primary(self.fleet.desired(observed), observed, self.plan) is not None,
            what=f"a replica taking over from {self.plan.old}",
            hint=(few_votes if self._is_cluster else "") + LOOK,
            timeout_s=min(ORDER_S, self._timeout_s) if self._is_cluster else self._timeout_s,
        )

    def _await_rest(self, started: float) -> Observed:
        spent_s = self.fleet.clock.monotonic() - started
        return self._await(
            lambda observed: is_settled(self.fleet.desired(observed), observed, self.plan),
            what=f"{self.plan.old} following the new primary of shard {self.plan.shard}, and all agreeing on it",
            hint=f"the primary has moved; {LOOK}, `rlctl deploy` mends the rest",
            timeout_s=max(0.0, self._timeout_s - spent_s),
        )

    def _await(self, is_so: Callable[[Observed], bool], *, what: str, hint: str, timeout_s: float) -> Observed:
        """The reading that showed it."""
        seen: list[Observed] = []

        def shows(observed: Observed) -> bool:
            seen[:] = [observed]
            return is_so(observed)

        wait_observed(self.fleet, self._stop, self._progress, shows, what=what, hint=hint, timeout_s=timeout_s)
        return seen[0]

    def _kept_all_writes(self, new: NodeName, before: Mapping[NodeName, SyncStats], paused_at: int | None) -> bool:
        after = self._syncs([new])
        return new in after and kept_all_writes(before.get(new), after[new], paused_at)

    def _syncs(self, names: Sequence[NodeName]) -> dict[NodeName, SyncStats]:
        """What these servers say of their replicas; who does not answer is left out, and proves nothing."""
        found: dict[NodeName, SyncStats] = {}
        for name in names:
            # Sentinel hangs up on the connections of whom it promotes.
            link = self.fleet.connector.separate_link(self._specs[name])
            try:
                info = ServerInfo(link.call("INFO", "server", "replication", "stats"))
                found[name] = SyncStats(
                    run_id=required(info.run_id, "run_id"),
                    full=required(info.full_syncs, "sync_full"),
                    promoted_at=required(info.second_offset, "second_repl_offset") - 1,
                )
            except (LinkFailure, CommandFailed):
                continue
            finally:
                link.close()
        return found

    def _link(self, name: NodeName) -> NodeLink:
        return self.fleet.connector.link(self._specs[name])
