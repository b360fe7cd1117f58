"""Assign the nodes of a fleet to its hosts: replicas away from their primary, primaries spread evenly. Pure."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from rlctl.topology.model import HostEntry, Topology

# ("host", address) or ("zone", name). A host without a zone is a zone of its own.
FailureDomain = tuple[str, str]
# The rank of a replica within its shard, and the shard.
_ReplicaKey = tuple[int, int]


class _Separation(Enum):
    """The failure domain that a replica must not share with its primary, strictest first."""

    ZONE = auto()
    HOST = auto()
    NOTHING = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    """One entry of `hosts`; `capacity` is the number of nodes that it may run."""

    index: int
    entry: HostEntry
    capacity: int
    host: FailureDomain
    zone: FailureDomain

    def domain(self, separation: _Separation) -> FailureDomain:
        return self.zone if separation is _Separation.ZONE else self.host


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """The strictest rules that the hosts can satisfy.

    `bounds` limits the primaries of a failure domain so that their replicas fit outside it. `majority` limits the
    primaries of a zone to less than a majority.
    """

    separation: _Separation
    bounds: Mapping[FailureDomain, int]
    majority: Mapping[FailureDomain, int]


def data_hosts(topology: Topology, shards: int, nodes: int) -> tuple[HostEntry, ...]:
    """The host of each data node, in the order of `data_nodes`: rank 0 of every shard, then rank 1 of every shard."""
    sites = _sites(topology.hosts, nodes)
    assignment = _Assignment(sites=sites, rules=_strictest_rules(sites, shards, nodes // shards - 1))
    for _shard in range(shards):
        assignment.add_primary()
    keys = [(rank, shard) for rank in range(1, nodes // shards) for shard in range(shards)]
    for key in keys:
        assignment.add_replica(key)
    return tuple(site.entry for site in (*assignment.primaries, *(assignment.replicas[key] for key in keys)))


def sentinel_hosts(topology: Topology) -> tuple[HostEntry, ...]:
    """The host of each sentinel.

    No zone gets a majority if there are enough zones. Within that limit sentinels are spread evenly over the hosts.
    """
    count = topology.sentinel.sentinels
    sites = [site for site in _sites(topology.hosts, count) if site.entry.sentinel]
    most = count // 2
    if len({site.zone for site in sites}) * most < count:
        most = count
    on_host, in_zone = Counter[FailureDomain](), Counter[FailureDomain]()
    chosen: list[_Site] = []
    for _sentinel in range(count):
        allowed = [site for site in sites if in_zone[site.zone] < most]
        site = min(allowed, key=lambda one: (on_host[one.host], in_zone[one.zone], one.index))
        on_host[site.host] += 1
        in_zone[site.zone] += 1
        chosen.append(site)
    return tuple(site.entry for site in chosen)


def host_of(host: HostEntry) -> FailureDomain:
    return "host", host.address


def zone_of(host: HostEntry) -> FailureDomain:
    """The zone of a host; the host itself if the entry has no zone."""
    return host_of(host) if host.zone is None else ("zone", host.zone)


def _sites(hosts: Sequence[HostEntry], nodes: int) -> list[_Site]:
    return [
        _Site(
            index=index,
            entry=host,
            capacity=nodes if host.nodes is None else min(host.nodes, nodes),
            host=host_of(host),
            zone=zone_of(host),
        )
        for index, host in enumerate(hosts)
    ]


def _strictest_rules(sites: Sequence[_Site], shards: int, replicas: int) -> _Rules:
    """The strictest rules with room for all primaries. `separation` takes precedence over `majority`."""
    majority = {site.zone: shards // 2 for site in sites if site.entry.zone is not None and shards > 1}
    for separation in _Separation:
        bounds = _primary_bounds(sites, shards, replicas, separation)
        for caps in (majority, {}):
            if _primary_capacity(sites, separation, bounds, caps) >= shards:
                return _Rules(separation=separation, bounds=bounds, majority=caps)
    return _Rules(separation=_Separation.NOTHING, bounds={}, majority={})


def _primary_bounds(
    sites: Sequence[_Site], shards: int, replicas: int, separation: _Separation
) -> dict[FailureDomain, int]:
    """The number of primaries that each failure domain may run so that all their replicas fit outside it.

    Outside a domain with p primaries, there must be room for the other primaries and for the replicas of those p.
    """
    room = Counter[FailureDomain]()
    for site in sites:
        room[site.domain(separation)] += site.capacity
    if separation is _Separation.NOTHING or replicas == 0:
        return dict(room)
    spare = {domain: room.total() - own - shards for domain, own in room.items()}
    return {
        domain: 0 if spare[domain] < 0 else own if replicas == 1 else min(own, spare[domain] // (replicas - 1))
        for domain, own in room.items()
    }


def _primary_capacity(
    sites: Sequence[_Site],
    separation: _Separation,
    bounds: Mapping[FailureDomain, int],
    majority: Mapping[FailureDomain, int],
) -> int:
    """The number of primaries that fit.

    In each zone, `bounds` limits every failure domain first; then `majority` limits the sum of the zone.
    """
    zones: dict[FailureDomain, Counter[FailureDomain]] = {}
    for site in sites:
        zones.setdefault(site.zone, Counter())[site.domain(separation)] += site.capacity
    return sum(
        min(majority.get(zone, room.total()), sum(min(bounds[domain], own) for domain, own in room.items()))
        for zone, room in zones.items()
    )


@dataclass(slots=True, kw_only=True)
class _Assignment:
    """The assignment so far. `load` counts nodes by site; `primary_count` counts primaries by failure domain."""

    sites: Sequence[_Site]
    rules: _Rules
    primaries: list[_Site] = field(default_factory=list)
    replicas: dict[_ReplicaKey, _Site] = field(default_factory=dict)
    load: Counter[int] = field(default_factory=Counter)
    primary_count: Counter[FailureDomain] = field(default_factory=Counter)

    def add_primary(self) -> None:
        """Assign the next primary to the host with the fewest primaries."""
        free = [site for site in self.sites if self._has_room(site)]
        primary_count = self.primary_count
        # If `hosts` lists one address in two zones, the rules can forbid every free site. The rules are
        # ignored for this primary then.
        allowed = [site for site in free if self._may_run_primary(site)] or free or self.sites
        site = min(allowed, key=lambda one: (primary_count[one.host], primary_count[one.zone], one.index))
        self.primaries.append(site)
        self.load[site.index] += 1
        for domain in {site.host, site.zone}:
            primary_count[domain] += 1

    def add_replica(self, key: _ReplicaKey) -> None:
        """Assign a replica to the site best separated from its shard, and move others if no allowed site has room."""
        free = [site for site in self.sites if self._has_room(site)]
        allowed = [site for site in free if self._is_separated(key, site)]
        path = [] if allowed else self._moves_to_make_room(key)
        if path:
            for moved, site in path:
                self._assign(moved, site)
            return
        primary, siblings = self.primaries[key[1]], self._placed_siblings(key)
        hosts, zones = Counter(one.host for one in siblings), Counter(one.zone for one in siblings)
        self._assign(
            key,
            min(
                allowed or free or self.sites,
                key=lambda one: (
                    one.host == primary.host,
                    one.zone == primary.zone,
                    hosts[one.host],
                    zones[one.zone],
                    self.load[one.index],
                    (one.index - primary.index) % len(self.sites),
                ),
            ),
        )

    def _has_room(self, site: _Site) -> bool:
        return self.load[site.index] < site.capacity

    def _may_run_primary(self, site: _Site) -> bool:
        bounds, majority = self.rules.bounds, self.rules.majority
        domain = site.domain(self.rules.separation)
        return self.primary_count[domain] < bounds.get(domain, 0) and self.primary_count[site.zone] < majority.get(
            site.zone, len(self.primaries) + 1
        )

    def _is_separated(self, key: _ReplicaKey, site: _Site) -> bool:
        separation = self.rules.separation
        return separation is _Separation.NOTHING or site.domain(separation) != self.primaries[key[1]].domain(separation)

    def _placed_siblings(self, key: _ReplicaKey) -> list[_Site]:
        rank, shard = key
        return [self.replicas[other, shard] for other in range(1, rank)]

    def _assign(self, key: _ReplicaKey, site: _Site) -> None:
        before = self.replicas.get(key)
        if before is not None:
            self.load[before.index] -= 1
        self.replicas[key] = site
        self.load[site.index] += 1

    def _moves_to_make_room(self, key: _ReplicaKey) -> list[tuple[_ReplicaKey, _Site]]:
        """The shortest chain of moves that makes room for a replica; empty if there is none.

        The first move goes to a site with room, and the last one places `key`.
        """
        reached_by: dict[int, tuple[_ReplicaKey, int | None]] = {
            site.index: (key, None) for site in self.sites if self._is_separated(key, site)
        }
        queue = deque(reached_by)
        while queue:
            index = queue.popleft()
            if self._has_room(self.sites[index]):
                return list(self._chain_of_moves(reached_by, index))
            for occupant, site in self.replicas.items():
                if site.index != index:
                    continue
                for other in self.sites:
                    if other.index not in reached_by and self._is_separated(occupant, other):
                        reached_by[other.index] = (occupant, index)
                        queue.append(other.index)
        return []

    def _chain_of_moves(
        self, reached_by: Mapping[int, tuple[_ReplicaKey, int | None]], end: int
    ) -> Iterator[tuple[_ReplicaKey, _Site]]:
        index: int | None = end
        while index is not None:
            key, before = reached_by[index]
            yield key, self.sites[index]
            index = before
