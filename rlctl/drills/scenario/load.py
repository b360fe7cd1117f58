"""Reads a scenario file into a Scenario for one kind and variant, or reports every mistake with its line. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rlctl.drills.scenario.model import (
    Action,
    Await,
    AwaitedCondition,
    Budget,
    Burst,
    ClientLoad,
    Cut,
    Expectation,
    Failover,
    FailoverKind,
    Heal,
    Hold,
    Kill,
    LoadDrillScript,
    LoadMode,
    Metric,
    Pause,
    Restart,
    Resume,
    Scenario,
    Side,
)
from rlctl.drills.scenario.values import Reader
from rlctl.errors import UsageFault
from rlctl.files.mistakes import Mistakes, shown
from rlctl.files.yaml import Mapping as Map
from rlctl.files.yaml import Node, compose
from rlctl.lab.partition import Flow
from rlctl.lab.roles import LabRole
from rlctl.lab.twin import check_settings
from rlctl.topology.model import Kind

_HINT = "`rlctl schema scenario` prints every key; `rlctl failover-drill show write-loss` shows an example"
# A scenario's name may only have characters that are safe in a file name, because it becomes part of a folder's name.
_NAME = re.compile(r"[a-z][a-z0-9-]{0,40}")
# Both limits come from the client's history file, which has one byte for the number of a connection, and two bytes for
# the size of a batch.
_MOST_CONNECTIONS = 255
_DEEPEST = 10_000
_TEXTS = ("name", "title", "teaches", "needs", "breaks", "claim")
_TOP = (
    *_TEXTS,
    "version",
    "kinds",
    "overall",
    "parameters",
    "variants",
    "settings",
    "load",
    "steps",
    "expect",
    "budget",
)


def _sides(read: Reader, node: Node) -> tuple[Side, ...]:
    sides = tuple(read.word(item, Side) for item in read.items(node, "sides"))
    if not sides or len(set(sides)) < len(sides):
        read.mistakes.add(node.line, "sides: list at least one side, and each side only once")
    return sides


_LOAD: dict[str, tuple[str, Callable[[Reader, Node], object]]] = {
    "sides": ("sides", _sides),
    "mode": ("mode", lambda read, node: read.word(node, LoadMode)),
    "connections": ("connections", lambda read, node: read.whole(node, least=1, most=_MOST_CONNECTIONS)),
    "depth": ("depth", lambda read, node: read.whole(node, least=1, most=_DEEPEST)),
    "rate": ("rate", lambda read, node: read.whole(node, least=1)),
    "timeout": ("timeout_ms", Reader.ms),
    "wait": ("wait_replicas", Reader.whole),
    "wait_timeout": ("wait_ms", Reader.ms),
    "limit": ("limit", lambda read, node: read.whole(node, least=1)),
    "policy": ("policy", lambda read, node: read.given(node)),
    "skew": ("skew_ms", Reader.signed_ms),
    "preload": ("preload", Reader.yes_or_no),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A name for a set of parameter values. Variants run one after another."""

    name: str
    values: Mapping[str, str]


_PLAIN = Variant(name="", values={})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioFile:
    """A scenario file, before a kind of fleet and a variant are chosen."""

    path: str
    text: bytes
    name: str
    title: str
    kinds: tuple[Kind, ...]
    variants: tuple[Variant, ...]

    def for_kind(self, kind: Kind) -> tuple[Scenario, ...]:
        """The scenarios for this kind of fleet: one, or one for each variant."""
        if kind not in self.kinds:
            known = ", ".join(self.kinds)
            raise UsageFault(f"scenario {self.name} is for {known}, not for {kind}", hint=f"--kind {self.kinds[0]}")
        variants = self.variants or (_PLAIN,)
        return tuple(self.one(kind, variant.name) for variant in variants)

    def one(self, kind: Kind, variant: str) -> Scenario:
        """The scenario with its parameters filled in, without the parts for other kinds and variants."""
        chosen = next((one for one in self.variants if one.name == variant), _PLAIN)
        mistakes = Mistakes(self.path, hint=_HINT)
        root = compose(self.text, mistakes)
        scenario = _ScenarioReader(root, mistakes, kind, chosen, self.variants).scenario()
        mistakes.raise_any()
        return scenario


def read_scenario(text: bytes, path: str) -> ScenarioFile:
    """Read a scenario file, and check it for each of its kinds and variants."""
    mistakes = Mistakes(path, hint=_HINT)
    root = compose(text, mistakes)
    read = Reader(mistakes, {})
    entries = read.keys(root, _TOP, (*_TEXTS, "version", "kinds", "steps", "expect"))
    if "version" in entries and read.text(entries["version"].value) != "1":
        mistakes.stop(entries["version"].line, "this version of rlctl reads only version 1 of scenario files")
    kinds = (
        tuple(read.word(one, Kind) for one in read.items(entries["kinds"].value, "kinds")) if "kinds" in entries else ()
    )
    variants = _variants(read, entries["variants"].value) if "variants" in entries else ()
    if "kinds" in entries and not kinds:
        mistakes.add(entries["kinds"].line, f"kinds: list at least one of {', '.join(Kind)}")
    mistakes.raise_any()
    name, title = read.text(entries["name"].value), read.text(entries["title"].value)
    if not _NAME.fullmatch(name):
        mistakes.stop(entries["name"].line, f"{shown(name)} is not a name: use lower-case letters, digits and hyphens")
    found = ScenarioFile(path=path, text=text, name=name, title=title, kinds=kinds, variants=variants)
    for kind in kinds:
        found.for_kind(kind)
    return found


def _variants(read: Reader, node: Node) -> tuple[Variant, ...]:
    found: list[Variant] = []
    for item in read.items(node, "variants"):
        entries = read.mapping(item, "variants").entries
        values = {key: read.text(entry.value) for key, entry in entries.items() if key != "name"}
        if "name" not in entries:
            read.mistakes.add(item.line, "a variant needs a `name`")
            continue
        if read.text(entries["name"].value) in {one.name for one in found}:
            read.mistakes.add(item.line, "another variant has this name")
        found.append(Variant(name=read.text(entries["name"].value), values=values))
    return tuple(found)


class _ScenarioReader:
    """Reads a file for one kind of fleet and one variant."""

    def __init__(
        self, root: Map, mistakes: Mistakes, kind: Kind, variant: Variant, variants: tuple[Variant, ...]
    ) -> None:
        plain = Reader(mistakes, {})
        given = root.entries.get("parameters")
        defaults = {} if given is None else _texts(plain, plain.mapping(given.value, "parameters"))
        for key in variant.values.keys() - defaults.keys():
            mistakes.add(root.line, f"a variant sets `{key}`, which is not a parameter")
        self._root = root
        self._kind = kind
        self._variant = variant.name
        self._parameters = {**defaults, **variant.values}
        self._words = {
            *Kind,
            *defaults.values(),
            *(word for one in variants for word in (one.name, *one.values.values())),
        }
        self._read = Reader(mistakes, self._parameters)

    def scenario(self) -> Scenario:
        load = self._load()
        texts = {name: self._text(name) for name in _TEXTS}
        return Scenario(
            **texts,
            variant=self._variant,
            kind=self._kind,
            overall=self._text("overall"),
            actions=tuple(self._step(node, load) for node in self._listed("steps")),
            load=load,
            expectations=tuple(self._expectation(node) for node in self._listed("expect")),
            budget=self._budget(),
            settings=self._settings(),
            parameters=self._parameters,
        )

    def _node(self, key: str) -> Node | None:
        entry = self._root.entries.get(key)
        return None if entry is None else entry.value

    def _text(self, key: str) -> str:
        node = self._node(key)
        return "" if node is None else self._read.text(node)

    def _listed(self, key: str) -> list[Map]:
        """The entries of a list that apply to this kind of fleet, variant and parameters."""
        node = self._node(key)
        items = () if node is None else self._read.items(node, key)
        return [one for one in (self._read.mapping(item, key) for item in items) if self._applies(one)]

    def _applies(self, node: Map) -> bool:
        """Whether an entry applies to this kind of fleet, variant and parameters."""
        if "only" not in node.entries:
            return True
        word = self._read.text(node.entries["only"].value)
        if word not in self._words:
            self._read.mistakes.add(node.line, f"only: {shown(word)} is not a kind, a variant or a parameter's value")
        return word in {self._kind, self._variant, *self._parameters.values()}

    def _step(self, node: Map, load: ClientLoad) -> Action:
        """Read a step, and check that the load has the client that an `await` step needs."""
        action = self._action(node)
        if isinstance(action, Await) and (wanted := _missing_client(action.condition, load)):
            self._read.mistakes.add(node.line, f"waiting for `{action.condition}` needs {wanted}")
        return action

    def _action(self, node: Map) -> Action:
        verbs = [key for key in node.entries if key != "only"]
        if len(verbs) != 1 or verbs[0] not in _VERBS:
            self._read.mistakes.add(node.line, f"a step is one of {', '.join(_VERBS)}")
            return Hold(ms=0)
        return _VERBS[verbs[0]](self._read, node.entries[verbs[0]].value)

    def _load(self) -> ClientLoad:
        node = self._node("load")
        if node is None:
            return ClientLoad()
        entries = self._read.keys(self._read.mapping(node, "load"), _LOAD)
        values: dict[str, Any] = {}
        for key, entry in entries.items():
            attribute, read = _LOAD[key]
            values[attribute] = read(self._read, entry.value)
        return ClientLoad(**values)

    def _expectation(self, node: Map) -> Expectation:
        entries = self._read.keys(node, ("metric", "least", "most", "why", "only"), ("metric",))
        bounds = {key: self._read.bound(entries[key].value) for key in ("least", "most") if key in entries}
        if not bounds:
            self._read.mistakes.add(node.line, "an expectation needs `least`, `most` or both")
        metric = self._read.word(entries["metric"].value, Metric) if "metric" in entries else Metric.LOST
        why = self._read.text(entries["why"].value) if "why" in entries else ""
        return Expectation(metric=metric, why=why, least=bounds.get("least"), most=bounds.get("most"))

    def _budget(self) -> Budget:
        node = self._node("budget")
        if node is None:
            return Budget()
        entries = self._read.keys(self._read.mapping(node, "budget"), ("run", "gap"))
        return Budget(**{f"{key}_ms": self._read.ms(entry.value) for key, entry in entries.items()})

    def _settings(self) -> dict[str, str]:
        """Settings of the twin's topology, spelled as in a topology file."""
        node = self._node("settings")
        if node is None:
            return {}
        found = {}
        for path, entry in self._read.mapping(node, "settings").entries.items():
            value = self._read.given(entry.value)
            if value != "-":
                found[path] = value
                for mistake in check_settings({path: value}):
                    self._read.mistakes.add(entry.line, mistake)
        return found


def _await(read: Reader, node: Node) -> Action:
    entries = read.mapping(node, "await").entries
    if len(entries) != 1 or next(iter(entries)) not in set(AwaitedCondition):
        read.mistakes.add(
            node.line, f"await is one of {', '.join(AwaitedCondition)} with a deadline, such as `served: 15s`"
        )
        return Hold(ms=0)
    [(word, entry)] = entries.items()
    return Await(condition=AwaitedCondition(word), within_ms=read.ms(entry.value))


def _cut(read: Reader, node: Node) -> Action:
    mapping = read.mapping(node, "cut")
    entries = read.keys(mapping, ("flow", "nodes"), ("flow", "nodes"))
    if len(entries) < 2:
        return Hold(ms=0)
    return Cut(flow=read.word(entries["flow"].value, Flow), role=read.word(entries["nodes"].value, LabRole))


# For each of these conditions, the side whose client the load must have.
_CLIENT_OF = {
    AwaitedCondition.SILENT: Side.MINORITY,
    AwaitedCondition.SERVED: Side.MAJORITY,
    AwaitedCondition.RESUMED: Side.MAJORITY,
}


def _missing_client(condition: AwaitedCondition, load: ClientLoad) -> str:
    """Describe the client that a condition needs and the load lacks; empty if the load has it."""
    side = _CLIENT_OF.get(condition)
    if side is not None and side not in load.sides:
        return f"a client on side `{side}`"
    if condition is AwaitedCondition.USED_UP and (load.mode is LoadMode.BITS or set(load.sides) == {Side.OTHERS}):
        return "a client that gets decisions from the victim's shard"
    return ""


_VERBS: dict[str, Callable[[Reader, Node], Action]] = {
    "hold": lambda read, node: Hold(ms=read.ms(node)),
    "await": _await,
    "burst": lambda _read, _node: Burst(),
    "cut": _cut,
    "mend": lambda _read, _node: Heal(),
    "kill": lambda read, node: Kill(role=read.word(node, LabRole)),
    "pause": lambda read, node: Pause(role=read.word(node, LabRole)),
    "resume": lambda read, node: Resume(role=read.word(node, LabRole)),
    "restart": lambda read, node: Restart(role=read.word(node, LabRole)),
    "failover": lambda read, node: Failover(how=read.word(node, FailoverKind)),
    "load_scripts": lambda _read, _node: LoadDrillScript(),
}


def _texts(read: Reader, node: Map) -> dict[str, str]:
    return {key: read.text(entry.value) for key, entry in node.entries.items()}
