"""Assertions on the form of every error, as text and as JSON."""

from tests.local.driver import LocalFleet, Ran


def assert_failed_cleanly(ran: Ran) -> None:
    """Assert a message and a hint on stderr, nothing on stdout, and no traceback."""
    assert ran.out == ""
    assert "Traceback" not in ran.err
    assert "rlctl: " in ran.err
    assert "\n  hint: " in ran.err


def assert_fails(fleet: LocalFleet, *words: str, code: int, name: str, says: str = "", **more_env: str) -> None:
    """Assert the same error as text and as JSON."""
    text = fleet.run(*words, expect=code, **more_env)
    assert_failed_cleanly(text)
    assert says in text.err
    structured = fleet.run("-o", "json", *words, expect=code, **more_env)
    assert structured.out == ""
    assert "Traceback" not in structured.err
    error = structured.error()
    assert set(error) == {"code", "message", "hint"}
    assert error["code"] == name
    assert says in error["message"]
    assert error["hint"]
