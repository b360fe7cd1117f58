"""Questions to what a command printed: JMESPath over its JSON. Pure."""

import json
from typing import Any

from jmespath import compile as compile_query
from jmespath.exceptions import JMESPathError

_LISTS = frozenset({"filter_projection", "projection", "value_projection", "subexpression", "index_expression"})
_EMPTY: tuple[object, ...] = ("", [], {})


def refuse(query: str) -> str:
    """Why an expression is none; "" for one that can be asked."""
    try:
        tree = compile_query(query).parsed
    except JMESPathError as failure:
        return f"no JMESPath expression: {str(failure).splitlines()[0]}"
    if tree["type"] in _LISTS and query.startswith("!"):
        return "the `!` concerns only the first word; write !(...) around what it is to deny"
    return ""


def ask(query: str, output: str) -> Any:  # noqa: ANN401  JSON holds anything
    """What the expression finds in an output; None where that is no JSON."""
    try:
        document = json.loads(output)
    except ValueError:
        return None
    try:
        return compile_query(query).search(document)
    except JMESPathError:
        # Asked of something that has another shape than the expression speaks of.
        return None


def holds(query: str, output: str) -> bool:
    """Whether the answer counts as true, as JMESPath counts: 0 does."""
    expected_answer = ask(query, output)
    return expected_answer is not None and expected_answer is not False and expected_answer not in _EMPTY
