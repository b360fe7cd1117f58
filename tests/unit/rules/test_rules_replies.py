"""Replies to reads of the rules: anything but texts is an error with the server's address."""

from typing import Any, cast

import pytest

from rlctl.rules.store import expect_texts
from rlctl.system.redis import InvalidReply, NodeLink


class Link:
    endpoint = "127.0.0.1:7000"


LINK = cast("NodeLink", Link())


@pytest.mark.parametrize(("reply", "count"), [(["1", None], 2), ([], 0), (["a", "b"], None), ([], None)])
def test_texts_are_taken(reply: list[Any], count: int | None) -> None:
    assert expect_texts(LINK, reply, count) == reply


@pytest.mark.parametrize(
    ("reply", "count"), [([1, "a"], 2), ([["a"]], 1), (["a"], 2), ("ab", 2), (2, 2), (None, 2), ([1], None)]
)
def test_anything_else_is_nonsense(reply: Any, count: int | None) -> None:
    with pytest.raises(InvalidReply, match=r"^127\.0\.0\.1:7000: not (1|2|a list of) texts: "):
        expect_texts(LINK, reply, count)
