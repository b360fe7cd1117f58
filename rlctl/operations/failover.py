"""Fail over a shard: plan it, pause writes if needed, start it, and check the result."""

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
from rlctl.plan.failover import (
    FailoverMode,
    FailoverPlan,
    SyncStats,
    failover_command,
    is_complete,
    kept_all_writes,
    new_primary,
)
from rlctl.plan.failover_choice import choose
from rlctl.plan.steps import Replicate
from rlctl.system.clock import wait_until
from rlctl.system.redis import CommandFailed, LinkFailure, NodeLink
from rlctl.system.redis_errors import LOOK, UNCHANGED, named_errors
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeName, all_nodes, data_nodes

# A cluster node gives up a manual failover after 5 s. The remaining 10 s are for all nodes to agree on the result.
ORDER_S = 15.0
# Must be shorter than the time that sentinels take to mark a primary as down: a paused primary does not answer them.
COPY_S = 3.0
# Added to Sentinel's failover-timeout: Sentinel checks only a few times a second whether to give up a promotion.
GIVEN_UP_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverOptions:
    """Options of one failover; `timeout_s` None stands for the default."""

    shard: int
    mode: FailoverMode
    argv: Sequence[str]
    timeout_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverReport:
    """Result of a failover; `lost_bytes` is None if rlctl cannot prove how much was lost."""

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
    """Plan the failover without carrying it out."""
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
    """Carry out a failover; `agree` raises Declined if the user rejects the plan."""
    fleet = locked.fleet
    observed = fleet.observe()
    asked = _choose(fleet, observed, options)
    locked.take_key(observed)
    agree(asked)
    if asked.sentinel is not None:
        await_tilt_end(fleet, asked.sentinel, progress, stop)
    elif options.mode is FailoverMode.PLANNED:
        await_votes(fleet, asked, progress, stop)
    # Plan again: the fleet may have changed while rlctl waited for the lock or for the user's answer.
    plan = _choose(fleet, fleet.observe(), options)
    if plan.old != asked.old:
        raise Refused(
            f"the primary of shard {plan.shard} is now {plan.old}, no longer {asked.old}",
            hint="run the same command again to fail over from there",
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
    """One failover, from its start to the check of the result."""

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
        clock = self.fleet.clock
        started = clock.monotonic()
        before = self._syncs(self.plan.replicas) if self.plan.is_old_up else {}
        paused_at = self._start()
        new, old = self._prove(started)
        # If the old primary restarted during the failover, it may have lost acknowledged writes: the loss is unknown.
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
        """Start the failover; return the old primary's offset at which its writes were paused, or None."""
        if not self._is_cluster and self.plan.mode is FailoverMode.PLANNED:
            return self._start_with_writes_paused()
        self._send_command()
        return None

    def _send_command(self) -> None:
        """Send the failover command to the Sentinel, or in a cluster to the replica that takes over."""
        node = self.plan.sentinel or self.plan.new
        with named_errors(node, UNCHANGED):
            self._link(node).call(*failover_command(self.fleet.topology, self.plan.mode))

    def _start_with_writes_paused(self) -> int | None:
        """Start the failover with writes paused.

        Otherwise, writes on the old primary are lost until Sentinel demotes it, seconds after the promotion.
        """
        link = self.fleet.connector.separate_link(self._specs[self.plan.old])
        pause = WritePause(link, self.fleet.clock)
        try:
            with named_errors(self.plan.old, UNCHANGED):
                paused_at = pause.extend()
                self._await_copies(paused_at)
            self._stop.check()
            self._send_command()
            with named_errors(self.plan.old, LOOK):
                self._redirect(pause)
        finally:
            pause.lift()
        with named_errors(self.plan.old, LOOK):
            pause.disconnect_clients()
        self.fleet.connector.hang_up(self.plan.old)
        return None if pause.has_lapsed else paused_at

    def _await_copies(self, offset: int) -> None:
        """Wait until all replicas have the writes from before the pause, as Sentinel may promote any of them."""
        self._progress.note(f"writes on {self.plan.old} are paused; waiting until all replicas have its writes")

        def all_have_it() -> bool:
            self._stop.check()
            return all(self._received(name) >= offset for name in self.plan.replicas)

        wait_until(
            all_have_it,
            timeout_s=min(COPY_S, self.fleet.topology.sentinel.down_after_ms / 2000),
            clock=self.fleet.clock,
            what=f"{', '.join(self.plan.replicas)} having all writes of {self.plan.old}",
            hint="nothing was changed; try again when the replicas lag less",
        )

    def _received(self, name: NodeName) -> int:
        """Return the offset that a replica has received; -1 if it is not a replica any more."""
        received = ServerInfo(self._link(name).call("INFO", "replication")).received_offset
        return -1 if received is None else received

    def _redirect(self, pause: WritePause) -> None:
        """Extend the pause until the promotion is final, then make the old primary a replica at once.

        The user's timeout and Ctrl-C do not end this wait. If it ended early, the pause would end too, and the old
        primary would accept writes that are then lost.
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
            hint=f"Sentinel has given up the failover; {LOOK}",
        )

    def _promoted(self) -> NodeName | None:
        """Return the new primary once the sentinel names it to clients; from then on the promotion is final."""
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
        """Wait until the fleet agrees on the new primary; return the new and the old primary."""
        try:
            self._locked.follow(self._await_owner())
            observed = self._await_rest(started)
        except Interrupted as failure:
            text = "stopped after the failover was started; the fleet completes it"
            raise type(failure)(text, hint=LOOK) from failure
        self._locked.follow(observed)
        new = new_primary(self.fleet.desired(observed), observed, self.plan)
        if new is None or (self._is_cluster and new.name != self.plan.new):
            found = "no node" if new is None else new.name
            text = f"{found} is the primary of shard {self.plan.shard} now, not {self.plan.new} as planned"
            raise CheckFailed(text, hint=LOOK)
        return new, observed.node(self.plan.old)

    def _await_owner(self) -> Observed:
        window_s = 2 * self.fleet.topology.cluster.node_timeout_ms / 1000
        few_votes = f"primaries vote for a shard at most once in {window_s:g} s: try again; "
        return self._await(
            lambda observed: new_primary(self.fleet.desired(observed), observed, self.plan) is not None,
            what=f"a replica taking over from {self.plan.old}",
            hint=(few_votes if self._is_cluster else "") + LOOK,
            timeout_s=min(ORDER_S, self._timeout_s) if self._is_cluster else self._timeout_s,
        )

    def _await_rest(self, started: float) -> Observed:
        spent_s = self.fleet.clock.monotonic() - started
        return self._await(
            lambda observed: is_complete(self.fleet.desired(observed), observed, self.plan),
            what=f"{self.plan.old} following the new primary of shard {self.plan.shard}, and all nodes agreeing on it",
            hint=f"the failover is done; {LOOK}; `rlctl deploy` repairs the rest",
            timeout_s=max(0.0, self._timeout_s - spent_s),
        )

    def _await(self, is_so: Callable[[Observed], bool], *, what: str, hint: str, timeout_s: float) -> Observed:
        """Wait for a condition; return the observation in which it holds."""
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
        """Read the synchronisation counters of these servers; those that do not answer are left out."""
        found: dict[NodeName, SyncStats] = {}
        for name in names:
            # Open a new connection: Sentinel closes all connections of a replica that it promotes.
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
