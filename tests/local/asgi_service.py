"""A small ASGI service that limits its callers, for a real uvicorn worker."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from rlctl.limiter import AsyncLimiter, FixedWindow

Message = MutableMapping[str, Any]
RULE = FixedWindow(3, 24 * 3600 * 1000)
PATIENT_MS = 30_000.0


class Service:
    """Answers 200 or 429, with the name of its event loop and the source of the decision."""

    limiter: AsyncLimiter

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        decision = await self.limiter.decide(RULE, scope["path"])
        about = {
            "loop": type(asyncio.get_running_loop()).__module__,
            "source": decision.source,
            "cause": decision.cause,
        }
        status = 200 if decision.allowed else 429
        headers = [(name.lower().encode(), text.encode()) for name, text in decision.headers().items()]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(about).encode()})

    async def _live(
        self, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        await receive()
        self.limiter = await AsyncLimiter.connect(
            json.loads(os.environ["LIMITER"]), budget_ms=PATIENT_MS, connect_timeout_ms=PATIENT_MS
        )
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.limiter.close()
        await send({"type": "lifespan.shutdown.complete"})


app = Service()
