"""The history that a fleet keeps of its releases, as it is read again."""

import json
from types import SimpleNamespace
from typing import Any

from rlctl.scripts.registry import read_history


def test_only_entries_of_one_kind_are_read_newest_first() -> None:
    newest, oldest, other = {"kind": "scripts", "n": 2}, {"kind": "scripts", "n": 1}, {"kind": "rules", "n": 3}
    texts = [*map(json.dumps, (newest, other)), "{torn", '["scripts"]', "null", json.dumps(oldest)]
    link: Any = SimpleNamespace(call=lambda *_words: texts)
    assert read_history(link, "scripts") == (newest, oldest)
    assert read_history(link, "rules") == (other,)
    assert read_history(link, "locks") == ()
