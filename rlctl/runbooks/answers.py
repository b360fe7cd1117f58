"""Looks up the page for a finding, an error or the cause of a fallback, in an index of the pages."""

import json
from collections.abc import Mapping
from functools import cache

from rlctl.assets import read_asset

# Written by `python -m tests.unit.runbooks.index`, and compared with the pages by a test.
FILE_NAME = "answers.json"


def page_for_finding(code: str) -> str | None:
    """The id of the page for a finding of status or doctor; None if no page lists the code."""
    return _index()["findings"].get(code)


def page_for_error(code: str) -> str | None:
    """The id of the page for an error of rlctl; None if no page lists the code."""
    return _index()["error_codes"].get(code)


def page_for_cause(cause: str) -> str | None:
    """The id of the page for a cause that prevents Redis from deciding; None if no page lists the cause."""
    return _index()["causes"].get(cause)


@cache
def _index() -> Mapping[str, Mapping[str, str]]:
    index: Mapping[str, Mapping[str, str]] = json.loads(read_asset("runbooks", FILE_NAME))
    return index
