"""What a drill must not leave changed."""

import pytest

from rlctl.lab.snapshot import differences

BEFORE = {"node-0": {"setting save": "a", "user limiter": "b"}, "node-1": {"setting save": "a"}}


@pytest.mark.parametrize(
    ("after", "found"),
    [
        pytest.param(BEFORE, (), id="the same"),
        pytest.param(
            {**BEFORE, "node-1": {"setting save": "x"}}, ("node-1: setting save differs from before",), id="set"
        ),
        pytest.param({**BEFORE, "node-1": {}}, (), id="a node that does not answer is not compared"),
        pytest.param({"node-0": BEFORE["node-0"]}, (), id="a node that is gone is not compared"),
        pytest.param(
            {**BEFORE, "node-0": {"setting save": "a"}}, ("node-0: user limiter differs from before",), id="a user gone"
        ),
        pytest.param(
            {**BEFORE, "node-1": {"setting save": "a", "user x": "y"}},
            ("node-1: user x differs from before",),
            id="a user more",
        ),
    ],
)
def test_what_differs_is_named(after: dict[str, dict[str, str]], found: tuple[str, ...]) -> None:
    assert differences(BEFORE, after) == found
