"""The rules file that README.md shows works."""

import re
from pathlib import Path

from rlctl.rules.advice import advise
from tests.unit.rules.documents import rule_set

README = Path(__file__).parents[3] / "README.md"


def test_the_example_of_the_readme() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    [text] = [block for block in blocks if "rules:" in block]
    rules = rule_set(text)
    assert [rule.id for rule in rules.rules] == ["api-per-key"]
    assert advise(rules) == ()
