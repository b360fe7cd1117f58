"""Takes a file's nodes apart: what is wrong is noted with its line, and reading goes on with a stand-in."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TypeVar

from rlctl.files.mistakes import Mistakes, shown
from rlctl.files.values import ValueType
from rlctl.files.yaml import Entry, Mapping, Node, Scalar, Sequence

T = TypeVar("T")


class NodeReader:
    """What the nodes of one file mean."""

    def __init__(self, mistakes: Mistakes) -> None:
        self.mistakes = mistakes

    def keys(self, node: Mapping, known: Iterable[str], required: Iterable[str] = ()) -> dict[str, Entry]:
        """The mapping's entries; unknown and missing keys are mistakes."""
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
        """A mapping."""
        if isinstance(node, Mapping):
            return node
        self.mistakes.add(node.line, f"{what}: settings by name belong here")
        return Mapping(line=node.line, entries={})

    def items(self, node: Node, what: str) -> tuple[Node, ...]:
        """A list."""
        if isinstance(node, Sequence):
            return node.items
        self.mistakes.add(node.line, f"{what}: a list belongs here")
        return ()

    def value(self, node: Node, what: str, kind: ValueType[T]) -> T | None:
        """One value of a type; None where there is none that could be used."""
        if not isinstance(node, Scalar):
            self.mistakes.add(node.line, f"{what}: a list or mapping stands here; write one value")
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
