"""Which host runs which node of a fleet on hosts: apart from each other wherever the hosts allow it. Pure."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from rlctl.topology.model import HostEntry, Topology

# A host, or a zone; a host that names no zone is a zone of its own.
Group = tuple[str, str]
# A replica by its rank within its shard, and the shard.
_Slot = tuple[int, int]


class _Apart(Enum):
    """What a replica does not share with its primary."""

    ZONE = auto()
    HOST = auto()
    NOTHING = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    """One entry of `hosts`, and how many nodes it takes at most."""

    index: int
    entry: HostEntry
    room: int
    host: Group
    zone: Group

    def group(self, apart: _Apart) -> Group:
        return self.zone if apart is _Apart.ZONE else self.host


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """The strictest rules that can be kept, and how many primaries a group may have under them."""

    apart: _Apart
    bounds: Mapping[Group, int]
    majority: Mapping[Group, int]


def data_hosts(topology: Topology, shards: int, nodes: int) -> tuple[HostEntry, ...]:
    """The host of each data node: the first of each shard, then the second of each."""
    sites = _sites(topology.hosts, nodes)
    board = _Board(sites=sites, rules=_strictest(sites, shards, nodes // shards - 1))
    for _shard in range(shards):
        board.add_primary()
    slots = [(rank, shard) for rank in range(1, nodes // shards) for shard in range(shards)]
    for slot in slots:
        board.add_replica(slot)
    return tuple(site.entry for site in (*board.primaries, *(board.replicas[slot] for slot in slots)))


def sentinel_hosts(topology: Topology) -> tuple[HostEntry, ...]:
    """The host of each sentinel: no zone has a majority where there are zones enough, then few on each host."""
    count = topology.sentinel.sentinels
    sites = [site for site in _sites(topology.hosts, count) if site.entry.sentinel]
    most = count // 2
    if len({site.zone for site in sites}) * most < count:
        most = count
    on_host, in_zone = Counter[Group](), Counter[Group]()
    chosen: list[_Site] = []
    for _sentinel in range(count):
        allowed = [site for site in sites if in_zone[site.zone] < most]
        site = min(allowed, key=lambda one: (on_host[one.host], in_zone[one.zone], one.index))
        on_host[site.host] += 1
        in_zone[site.zone] += 1
        chosen.append(site)
    return tuple(site.entry for site in chosen)


def host_of(host: HostEntry) -> Group:
    """The machine."""
    return "host", host.address


def zone_of(host: HostEntry) -> Group:
    """The zone, or the host itself where none is named."""
    return host_of(host) if host.zone is None else ("zone", host.zone)


def _sites(hosts: Sequence[HostEntry], nodes: int) -> list[_Site]:
    return [
        _Site(
            index=index,
            entry=host,
            room=nodes if host.nodes is None else min(host.nodes, nodes),
            host=host_of(host),
            zone=zone_of(host),
        )
        for index, host in enumerate(hosts)
    ]


def _strictest(sites: Sequence[_Site], shards: int, replicas: int) -> _Rules:
    """What a replica shares with its primary weighs more than where the majority of the primaries is."""
    majority = {site.zone: shards // 2 for site in sites if site.entry.zone is not None and shards > 1}
    for apart in _Apart:
        bounds = _most_primaries(sites, shards, replicas, apart)
        for caps in (majority, {}):
            if _room_for_primaries(sites, apart, bounds, caps) >= shards:
                return _Rules(apart=apart, bounds=bounds, majority=caps)
    return _Rules(apart=_Apart.NOTHING, bounds={}, majority={})


def _most_primaries(sites: Sequence[_Site], shards: int, replicas: int, apart: _Apart) -> dict[Group, int]:
    """How many primaries a group may have so that all their replicas find room outside of it.

    Outside of a group with p primaries there must be room for the other primaries and for the replicas of the p.
    """
    room = Counter[Group]()
    for site in sites:
        room[site.group(apart)] += site.room
    if apart is _Apart.NOTHING or replicas == 0:
        return dict(room)
    spare = {group: room.total() - own - shards for group, own in room.items()}
    return {
        group: 0 if spare[group] < 0 else own if replicas == 1 else min(own, spare[group] // (replicas - 1))
        for group, own in room.items()
    }


def _room_for_primaries(
    sites: Sequence[_Site], apart: _Apart, bounds: Mapping[Group, int], majority: Mapping[Group, int]
) -> int:
    """How many primaries find a place: hosts lie within zones, so the bounds apply from the inside out."""
    zones: dict[Group, Counter[Group]] = {}
    for site in sites:
        zones.setdefault(site.zone, Counter())[site.group(apart)] += site.room
    return sum(
        min(majority.get(zone, room.total()), sum(min(bounds[group], own) for group, own in room.items()))
        for zone, room in zones.items()
    )


@dataclass(slots=True, kw_only=True)
class _Board:
    """What stands where so far."""

    sites: Sequence[_Site]
    rules: _Rules
    primaries: list[_Site] = field(default_factory=list)
    replicas: dict[_Slot, _Site] = field(default_factory=dict)
    load: Counter[int] = field(default_factory=Counter)
    leading: Counter[Group] = field(default_factory=Counter)

    def add_primary(self) -> None:
        """Where the fewest primaries are."""
        free = [site for site in self.sites if self._has_room(site)]
        leading = self.leading
        # One address with two zones can leave nothing that is allowed.
        allowed = [site for site in free if self._may_lead(site)] or free or self.sites
        site = min(allowed, key=lambda one: (leading[one.host], leading[one.zone], one.index))
        self.primaries.append(site)
        self.load[site.index] += 1
        for group in {site.host, site.zone}:
            leading[group] += 1

    def add_replica(self, slot: _Slot) -> None:
        """Where it shares least with the rest of its shard; others make room where they must."""
        free = [site for site in self.sites if self._has_room(site)]
        allowed = [site for site in free if self._is_apart(slot, site)]
        path = [] if allowed else self._way_to_room(slot)
        if path:
            for moving, site in path:
                self._put(moving, site)
            return
        primary, fellows = self.primaries[slot[1]], self._fellows(slot)
        hosts, zones = Counter(one.host for one in fellows), Counter(one.zone for one in fellows)
        self._put(
            slot,
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
        return self.load[site.index] < site.room

    def _may_lead(self, site: _Site) -> bool:
        bounds, majority = self.rules.bounds, self.rules.majority
        group = site.group(self.rules.apart)
        return self.leading[group] < bounds.get(group, 0) and self.leading[site.zone] < majority.get(
            site.zone, len(self.primaries) + 1
        )

    def _is_apart(self, slot: _Slot, site: _Site) -> bool:
        apart = self.rules.apart
        return apart is _Apart.NOTHING or site.group(apart) != self.primaries[slot[1]].group(apart)

    def _fellows(self, slot: _Slot) -> list[_Site]:
        rank, shard = slot
        return [self.replicas[other, shard] for other in range(1, rank)]

    def _put(self, slot: _Slot, site: _Site) -> None:
        before = self.replicas.get(slot)
        if before is not None:
            self.load[before.index] -= 1
        self.replicas[slot] = site
        self.load[site.index] += 1

    def _way_to_room(self, slot: _Slot) -> list[tuple[_Slot, _Site]]:
        """Moves that end where there is room and make a place for the slot; the last mover first."""
        came: dict[int, tuple[_Slot, int | None]] = {
            site.index: (slot, None) for site in self.sites if self._is_apart(slot, site)
        }
        waiting = deque(came)
        while waiting:
            index = waiting.popleft()
            if self._has_room(self.sites[index]):
                return list(self._moves(came, index))
            for tenant, site in self.replicas.items():
                if site.index != index:
                    continue
                for other in self.sites:
                    if other.index not in came and self._is_apart(tenant, other):
                        came[other.index] = (tenant, index)
                        waiting.append(other.index)
        return []

    def _moves(self, came: Mapping[int, tuple[_Slot, int | None]], end: int) -> Iterator[tuple[_Slot, _Site]]:
        index: int | None = end
        while index is not None:
            mover, before = came[index]
            yield mover, self.sites[index]
            index = before
