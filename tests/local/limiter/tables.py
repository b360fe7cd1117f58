"""Tables of (time, arguments -> reply), and the code that runs them."""

from tests.local.limiter.server import T0, Argument, Limiter

# Microseconds after T0, the arguments up to the time, the reply.
Row = tuple[int, tuple[Argument, ...], list[int]]


def play(limiter: Limiter, key: str, script: str, rows: list[Row], *, start: int = T0) -> None:
    """Run every row on the same key, in order."""
    for number, (at, args, reply) in enumerate(rows):
        assert limiter.call(script, key, *args, start + at) == reply, f"row {number}: {args} at {at}"


def keeps_state(limiter: Limiter, key: str, script: str, row: Row) -> bool:
    """Whether this call, which must reply as the row says, does not change the state."""
    before = limiter.state(key)
    play(limiter, key, script, [row])
    return limiter.state(key) == before
