"""What a failed order tells: only who refused it has surely not obeyed it."""

import pytest

from rlctl.errors import Refused, Unreachable
from rlctl.operations.failover import named_errors
from rlctl.system.redis import Closed, CommandFailed

UNCHANGED = "nothing was changed"


def test_who_refuses_has_changed_nothing() -> None:
    with pytest.raises(Refused, match="node-1 refuses: ERR no") as caught, named_errors("node-1", UNCHANGED):
        raise CommandFailed("ERR no")
    assert caught.value.hint == UNCHANGED


def test_who_breaks_off_may_have_obeyed() -> None:
    with pytest.raises(Unreachable, match="node-1 did not answer") as caught, named_errors("node-1", UNCHANGED):
        raise Closed("reset")
    assert "rlctl status" in caught.value.hint
    assert UNCHANGED not in caught.value.hint
