"""Reads the YAML nodes of a file. A wrong node is recorded as a mistake, and reading continues without it."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TypeVar

from rlctl.files.mistakes import Mistakes, shown
from rlctl.files.values import ValueType
from rlctl.files.yaml import Entry, Mapping, Node, Scalar, Sequence

T = TypeVar("T")


class NodeReader:
    def __init__(self, mistakes: Mistakes) -> None:
        self.mistakes = mistakes

    def keys(self, node: Mapping, known: Iterable[str], required: Iterable[str] = ()) -> dict[str, Entry]:
        """The entries with known keys. Unknown keys and missing required keys are mistakes."""
        allowed = list(known)
        for key, entry in node.entries.items():
            if key not in allowed:
                near = get_close_matches(key, allowed, n=1)
                right = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(allowed)}"
                self.mistakes.add(entry.line, f"the key {shown(key)} is unknown; {right}")
        for key in required:
            if key not in node.entries:
                self.mistakes.add(node.line, f"`{key}` is missing")
        return {key: entry for key, entry in node.entries.items() if key in allowed}

    def mapping(self, node: Node, what: str) -> Mapping:
        """The node if it is a mapping, else an empty mapping and a mistake about `what`."""
        if isinstance(node, Mapping):
            return node
        self.mistakes.add(node.line, f"{what}: must be a mapping; write `key: value` lines")
        return Mapping(line=node.line, entries={})

    def items(self, node: Node, what: str) -> tuple[Node, ...]:
        """The items of a list; no items and a mistake about `what` if the node is not a list."""
        if isinstance(node, Sequence):
            return node.items
        self.mistakes.add(node.line, f"{what}: must be a list; write `- item` lines")
        return ()

    def value(self, node: Node, what: str, kind: ValueType[T]) -> T | None:
        """The node's value; None and a mistake about `what` if it is not a valid `kind`."""
        if not isinstance(node, Scalar):
            self.mistakes.add(node.line, f"{what}: must be one value, not a list or mapping")
            return None
        if node.is_null:
            self.mistakes.add(node.line, f"{what}: has no value; write one, or delete the line")
            return None
        try:
            value = kind.read(node)
            wrong = kind.refuse(value)
        except ValueError as failure:
            value, wrong = None, str(failure)
        if wrong:
            self.mistakes.add(node.line, f"{what}: {wrong}")
            return None
        return value
