"""Parse YAML into nodes with line numbers. Values remain text, which the type of each setting parses."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from rlctl.files.mistakes import Mistakes, shown

# libyaml takes a tenth of the time, but PyYAML may have been built without it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_BYTES = 1024 * 1024
_MAX_DEPTH = 20
# Limits the reading time: PyYAML takes about 10 microseconds a node, and far longer for some files of 1 MiB.
_MAX_NODES = 150_000

# The set includes lone CR, NEL, LS and PS. YAML ends a line at each of them, but editors do not. If the
# file could contain them, the line numbers in messages would differ from those in an editor.
# Python compiles the set of hidden characters ten times as fast as the negated set of visible ones.
_HIDDEN = re.compile("\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A single value as text; `is_plain` means that it was written without quotes."""

    line: int
    text: str
    is_plain: bool

    @property
    def is_null(self) -> bool:
        return self.is_plain and self.text in _NULLS


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    line: int
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The value of a key; `line` is the line of the key."""

    line: int
    value: "Node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """A mapping with its entries by key, in file order."""

    line: int
    entries: dict[str, Entry]


Node = Scalar | Sequence | Mapping


def compose(text: bytes, mistakes: Mistakes) -> Mapping:
    """Parse one YAML document whose root is a mapping. Reports each error to `mistakes`."""
    root = _Composer(_decoded(text, mistakes), mistakes).document()
    if not isinstance(root, Mapping):
        what = "a list" if isinstance(root, Sequence) else "a single value"
        mistakes.stop(root.line, f"the file holds {what}, not a mapping; write `key: value` lines")
    return root


def _decoded(text: bytes, mistakes: Mistakes) -> str:
    if len(text) > MAX_BYTES:
        mistakes.stop(1, "the file is larger than 1 MiB; is this the right file?")
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        mistakes.stop(_line_of(text, error.start), "the line is not UTF-8 text; save the file as UTF-8")
    if hidden := _HIDDEN.search(decoded):
        found = f"U+{ord(hidden[0]):04X}"
        line = decoded.count("\n", 0, hidden.start()) + 1
        mistakes.stop(line, f"the line has the control character {found}; delete it")
    return decoded


def _line_of(text: bytes, offset: int) -> int:
    return text.count(b"\n", 0, offset) + 1


class _Composer:
    def __init__(self, text: str, mistakes: Mistakes) -> None:
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=_LOADER)
        # libyaml may report the line after the last one. Editors do not show that line, so reports name the last one.
        self._last_line = text.rstrip("\n").count("\n") + 1
        self._mistakes = mistakes
        self._line = 1
        self._nodes = 0

    def document(self) -> Node:
        self._next()  # StreamStartEvent
        if isinstance(self._next(), yaml.StreamEndEvent):
            self._mistakes.stop(1, "the file is empty; write `key: value` lines")
        root = self._node(self._next(), 0)
        self._next()  # DocumentEndEvent
        if not isinstance(self._next(), yaml.StreamEndEvent):
            self._mistakes.stop(self._line, "a second document starts here; keep one document in a file")
        return root

    def _next(self) -> yaml.Event:
        try:
            event = next(self._events)
        except yaml.MarkedYAMLError as error:
            line, text = _explained(error, self._line)
            self._mistakes.stop(min(line, self._last_line), text)
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            # PyYAML without libyaml does not catch the errors that chr() and int() raise for an escape or a version out
            # of range.
            self._mistakes.stop(self._line, f"this is not valid YAML ({error}); write plain values")
        if event.start_mark:
            self._line = min(event.start_mark.line + 1, self._last_line)
        return event

    def _node(self, event: yaml.Event, depth: int) -> Node:
        line = self._line
        self._nodes += 1
        if depth > _MAX_DEPTH:
            self._mistakes.stop(line, f"the file is nested more than {_MAX_DEPTH} levels deep; use fewer levels")
        if self._nodes > _MAX_NODES:
            self._mistakes.stop(line, f"more than {_MAX_NODES} keys, values and lists; is this the right file?")
        if isinstance(event, yaml.AliasEvent):
            self._mistakes.stop(line, f"the alias {shown(f'*{event.anchor}')} is not allowed; write the value out")
        self._refuse_anchor_and_tag(event)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, line)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(line, depth)
        return self._mapping(line, depth)

    def _refuse_anchor_and_tag(self, event: yaml.Event) -> None:
        if anchor := getattr(event, "anchor", None):
            self._mistakes.add(self._line, f"the anchor {shown(f'&{anchor}')} is not allowed; write each value out")
        if tag := getattr(event, "tag", None):
            self._mistakes.add(self._line, f"the tag {shown(tag)} is not allowed; write the plain value")

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> Scalar:
        if _HIDDEN.search(event.value):
            self._mistakes.add(line, "the text has an escaped control character; delete it")
        return Scalar(line=line, text=event.value, is_plain=not event.style)

    def _sequence(self, line: int, depth: int) -> Sequence:
        items: list[Node] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return Sequence(line=line, items=tuple(items))

    def _mapping(self, line: int, depth: int) -> Mapping:
        entries: dict[str, Entry] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            value = self._node(self._next(), depth + 1)
            if not isinstance(key, Scalar):
                self._mistakes.add(key.line, "a key cannot be a list or a mapping; write `key: value`")
            elif first := entries.get(key.text):
                self._mistakes.add(key.line, f"{shown(key.text)} is given twice, first on line {first.line}; keep one")
            else:
                entries[key.text] = Entry(line=key.line, value=value)
        return Mapping(line=line, entries=entries)


_REMEDIES = {
    "cannot start any token": "indent with spaces, and quote a value that starts with a special character",
    "found a tab character": "indent with spaces",
    "mapping values are not allowed": "check the indentation, and quote a value that holds `: `",
    "could not find expected ':'": "write each setting as `key: value`",
}


def _explained(error: yaml.MarkedYAMLError, line: int) -> tuple[int, str]:
    mark = error.problem_mark or error.context_mark
    at = mark.line + 1 if mark else line
    problem = (error.problem or "it cannot be read").replace("\n", " ")
    remedy = next(
        (remedy for part, remedy in _REMEDIES.items() if part in problem),
        "check indentation, quotes and brackets",
    )
    opened = error.context_mark
    began = f", in the block from line {opened.line + 1}" if opened and opened.line + 1 != at else ""
    return at, f"this is not valid YAML ({problem}{began}); {remedy}"
