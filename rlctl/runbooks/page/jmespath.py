"""JMESPath over the JSON that a command printed. Pure."""

import json
from typing import Any

from jmespath import compile as compile_query
from jmespath.exceptions import JMESPathError

_LISTS = frozenset({"filter_projection", "projection", "value_projection", "subexpression", "index_expression"})
_EMPTY: tuple[object, ...] = ("", [], {})


def why_invalid(query: str) -> str:
    """Why an expression is invalid; empty for a valid one."""
    try:
        tree = compile_query(query).parsed
    except JMESPathError as failure:
        return f"not a JMESPath expression: {str(failure).splitlines()[0]}"
    if tree["type"] in _LISTS and query.startswith("!"):
        return "`!` negates only the first word; write !(...) around the whole expression"
    return ""


def search(query: str, output: str) -> Any:  # noqa: ANN401  JSON holds anything
    """The result of the expression on an output; None if the output is not JSON."""
    try:
        document = json.loads(output)
    except ValueError:
        return None
    try:
        return compile_query(query).search(document)
    except JMESPathError:
        # The document has another shape than the expression expects.
        return None


def holds(query: str, output: str) -> bool:
    """Whether the result of the expression is true by JMESPath's rules. The number 0 is true."""
    found = search(query, output)
    return found is not None and found is not False and found not in _EMPTY
