"""Read a topology file into a Topology, or report every mistake in it with its line."""

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches

from rlctl.files.mistakes import ImpossibleSettings, Mistakes, Problem, printable, shown
from rlctl.files.table import Field, SettingsSection
from rlctl.files.values import ValueType
from rlctl.files.yaml import Mapping, Node, Scalar, Sequence, compose
from rlctl.topology.checks import check
from rlctl.topology.model import HostEntry, Topology
from rlctl.topology.table import HOSTS, KEYS, SECTIONS, TOP

_HINT = "`rlctl init` writes a commented sample; `rlctl schema topology` prints every key for editors"
_HOST_EXAMPLE = "- address: 10.0.0.11"


def load_topology(text: bytes, path: str) -> Topology:
    """Read a topology file, fill in defaults and check it. InvalidFile lists every mistake as `path:line: ...`."""
    mistakes = Mistakes(path, hint=_HINT)
    reader = _TopologyReader(mistakes)
    topology = reader.topology(compose(text, mistakes))
    for problem in check(topology):
        reader.report(problem)
    mistakes.raise_any()
    return topology


def raise_at_lines(text: bytes, path: str, impossible: ImpossibleSettings) -> None:
    """Raise InvalidFile that lists each problem as `path:line: ...`."""
    mistakes = Mistakes(path, hint=impossible.hint)
    reader = _TopologyReader(mistakes)
    reader.topology(compose(text, mistakes))
    for problem in impossible.problems:
        reader.report(problem)
    mistakes.raise_any()


class _TopologyReader:
    """Reads the settings of one file. A setting that cannot be read gets its default, and is marked as broken."""

    def __init__(self, mistakes: Mistakes) -> None:
        self._mistakes = mistakes
        self._lines: dict[str, int] = {}
        self._broken: set[str] = set()

    def topology(self, root: Mapping) -> Topology:
        self._lines[""] = root.line
        values = self._fields(TOP, root, "")
        if unknown := TOP.fields[0].type.refuse(values["version"]):
            # rlctl cannot check the other keys of a file in another format version.
            self._mistakes.stop(self._lines["version"], f"version: {unknown}")
        self._refuse_unknown(root, KEYS, "")
        for section in SECTIONS:
            values[section.key] = self._section(section, root)
        values["redis"] = self._redis(root)
        values["hosts"] = self._hosts(root)
        build: Callable[..., Topology] = Topology
        return build(**values)

    def report(self, problem: Problem) -> None:
        """Record a problem at the line of its first setting in the file. Skip it if one of its settings is broken."""
        if any(self._is_broken(path) for path in problem.paths):
            return
        places = [*problem.paths, *(path.rpartition(".")[0] for path in problem.paths)]
        line = next(self._lines[path] for path in (*places, "") if path in self._lines)
        self._mistakes.add(line, problem.text)

    def _is_broken(self, path: str) -> bool:
        return not self._broken.isdisjoint({path, path.rpartition(".")[0]})

    def _wrong(self, path: str, line: int, text: str) -> None:
        self._broken.add(path)
        self._mistakes.add(line, f"{printable(path)}: {text}")

    def _section(self, section: SettingsSection, root: Mapping) -> object:
        first = section.fields[0]
        example = f"{section.key}: {{{first.key}: {first.type.show(section.default(first))}}}"
        mapping = self._mapping(root, section.key, example)
        prefix = f"{section.key}."
        self._refuse_unknown(mapping, [field.key for field in section.fields], prefix)
        return section.model(**self._fields(section, mapping, prefix))

    def _mapping(self, root: Mapping, key: str, example: str) -> Mapping:
        """The settings of a section; no settings if the file omits the section or leaves it empty."""
        entry = root.entries.get(key)
        if entry is None:
            return Mapping(line=root.line, entries={})
        self._lines[key] = entry.line
        return self._as_mapping(entry.value, key, example)

    def _as_mapping(self, node: Node, path: str, example: str) -> Mapping:
        if isinstance(node, Mapping):
            return node
        if not _is_null(node):
            self._wrong(path, node.line, f"must be a mapping; write settings such as `{example}`")
        return Mapping(line=node.line, entries={})

    def _fields(self, section: SettingsSection, mapping: Mapping, prefix: str) -> dict[str, object]:
        values: dict[str, object] = {}
        for field in section.fields:
            path = f"{prefix}{field.key}"
            if entry := mapping.entries.get(field.key):
                self._lines[path] = entry.value.line
                values[field.attribute] = self._value(section, field, path, entry.value)
                continue
            values[field.attribute] = _placeholder(section, field)
            if field.required and not self._is_broken(path):
                self._wrong(path, mapping.line, f"is missing; write a line such as `{field.key}: {field.example}`")
        return values

    def _value(self, section: SettingsSection, field: Field, path: str, node: Node) -> object:
        if field.type.item is not None and isinstance(node, Sequence):
            return tuple(self._items(field.type.item, path, node))
        scalar = self._scalar(path, node)
        if scalar is not None:
            try:
                return field.type.read(scalar)
            except ValueError as error:
                self._wrong(path, node.line, str(error))
        return _placeholder(section, field)

    def _items(self, item: ValueType[str], path: str, node: Sequence) -> Iterator[str]:
        for index, one in enumerate(node.items):
            self._lines[f"{path}[{index}]"] = one.line
            if scalar := self._scalar(f"{path}[{index}]", one):
                yield item.read(scalar)

    def _scalar(self, path: str, node: Node) -> Scalar | None:
        if not isinstance(node, Scalar):
            self._wrong(path, node.line, "must be one value, not a list or mapping")
        elif node.is_null:
            self._wrong(path, node.line, "has no value; write one, or delete the line")
        elif not node.text.isprintable():
            self._wrong(
                path, node.line, f"{shown(node.text)} has an unprintable character; write printable text on one line"
            )
        else:
            return node
        return None

    def _redis(self, root: Mapping) -> tuple[tuple[str, str], ...]:
        directives = []
        for name, entry in self._mapping(root, "redis", "redis: {maxclients: 20000}").entries.items():
            path = f"redis.{name}"
            self._lines[path] = entry.value.line
            if scalar := self._scalar(path, entry.value):
                directives.append((name, scalar.text))
        return tuple(sorted(directives))

    def _hosts(self, root: Mapping) -> tuple[HostEntry, ...]:
        entry = root.entries.get("hosts")
        if entry is None:
            return ()
        self._lines["hosts"] = entry.line
        if isinstance(entry.value, Sequence):
            return tuple(self._host(index, item) for index, item in enumerate(entry.value.items))
        if not _is_null(entry.value):
            self._wrong("hosts", entry.value.line, f"must be a list; write one `{_HOST_EXAMPLE}` for each host")
        return ()

    def _host(self, index: int, node: Node) -> HostEntry:
        path = f"hosts[{index}]"
        self._lines[path] = node.line
        mapping = self._as_mapping(node, path, _HOST_EXAMPLE)
        self._refuse_unknown(mapping, [field.key for field in HOSTS.fields], f"{path}.")
        build: Callable[..., HostEntry] = HostEntry
        return build(**self._fields(HOSTS, mapping, f"{path}."))

    def _refuse_unknown(self, mapping: Mapping, known: Iterable[str], prefix: str) -> None:
        keys = list(known)
        for key, entry in mapping.entries.items():
            if key not in keys:
                self._mistakes.add(entry.line, f"the key {shown(prefix + key)} is unknown; {_nearest(key, keys)}")


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.is_null


def _placeholder(section: SettingsSection, field: Field) -> object:
    """A valid value in place of one that cannot be read, so that it causes no second mistake."""
    default: object = section.default(field)
    if default is None and field.required:
        return field.type.read(Scalar(line=0, text=field.example, is_plain=True))
    return default


def _nearest(key: str, known: list[str]) -> str:
    owners = [section.key for section in SECTIONS for field in section.fields if field.key == key]
    if close := get_close_matches(key, known, n=1):
        return f"did you mean `{close[0]}`?"
    if known == list(KEYS) and owners:
        return f"it belongs in `{owners[0]}`"
    return f"known are {', '.join(known)}"
