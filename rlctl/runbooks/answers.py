"""Which page answers a finding, an error or the cause of a fallback: read from an index, without reading the pages."""

import json
from collections.abc import Mapping
from functools import cache

from rlctl.assets import read_asset

# Written by `python -m tests.unit.runbooks.index`, and compared with the pages by a test.
FILE_NAME = "answers.json"


def page_for_finding(code: str) -> str | None:
    """The id of the page that answers a finding of status or doctor."""
    return _index()["findings"].get(code)


def page_for_error(code: str) -> str | None:
    """The id of the page that answers an error of rlctl."""
    return _index()["error_codes"].get(code)


def page_for_cause(cause: str) -> str | None:
    """The id of the page that answers why Redis did not decide."""
    return _index()["causes"].get(cause)


@cache
def _index() -> Mapping[str, Mapping[str, str]]:
    index: Mapping[str, Mapping[str, str]] = json.loads(read_asset("runbooks", FILE_NAME))
    return index
