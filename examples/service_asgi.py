"""An ASGI service that limits its callers by the rules of rules.yaml. Each event loop has an AsyncLimiter of its own.

    umask 077
    rlctl -f examples/topology-local.yaml env --as limiter -o json > limiter.json
    LIMITER_SETTINGS=limiter.json uvicorn --app-dir examples service_asgi:app --port 8080
    curl -i -H 'X-Api-Key: ada' localhost:8080/

Any ASGI server and framework will do: connect at startup, decide in a middleware, close at shutdown.
"""

import json
import os
import sys
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from rlctl.limiter import AsyncLimiter, Decision

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Service:
    """Answers 200, or 429 with the headers that say when to try again."""

    limiter: AsyncLimiter

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Decide by every rule that applies to the request; an export also needs a lease while it runs."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        who = caller(scope)
        decisions = await self.limiter.decide_all(who)
        if not all(decision.allowed for decision in decisions) or scope["path"] != "/export":
            await respond(send, decisions)
            return
        async with self.limiter.hold("exports", who) as lease:
            await respond(send, (*decisions, lease))

    async def _live(self, receive: Receive, send: Send) -> None:
        """Connect before the first request, close the connections after the last."""
        await receive()
        budget_ms = float(os.environ.get("LIMITER_BUDGET_MS", "5"))  # longest wait of a decision for Redis
        self.limiter = await AsyncLimiter.connect(settings(), policy="local:4", budget_ms=budget_ms, rules=True)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.limiter.close()
        await send({"type": "lifespan.shutdown.complete"})


def settings() -> dict[str, object]:
    """Read what `rlctl env --as limiter -o json` printed."""
    found: dict[str, object] = json.loads(Path(os.environ["LIMITER_SETTINGS"]).read_text(encoding="utf-8"))
    return found


def caller(scope: Message) -> dict[str, str]:
    """Return the dimensions of a request that rules may count by."""
    who = {"ip": scope["client"][0], "endpoint": scope["path"]}
    key = dict(scope["headers"]).get(b"x-api-key")
    return {**who, "api_key": key.decode("latin-1")} if key else who


async def respond(send: Send, decisions: Sequence[Decision]) -> None:
    """Answer with the headers of the denial, or of the rule with the least left."""
    told = strictest(decisions)
    status = 200 if told is None or told.allowed else 429
    headers = {"Content-Type": "application/json", **(told.headers() if told else {})}
    lines = [(name.lower().encode(), text.encode()) for name, text in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    body = {"source": told.source, "reason": told.reason} if told else {}
    await send({"type": "http.response.body", "body": json.dumps(body).encode() + b"\n"})


def strictest(decisions: Sequence[Decision]) -> Decision | None:
    """Return the denial, or the decision with the least left; None if no rule applies to the request."""

    def left(decision: Decision) -> tuple[bool, int]:
        return decision.allowed, sys.maxsize if decision.remaining is None else decision.remaining

    return min(decisions, key=left, default=None)


app = Service()
