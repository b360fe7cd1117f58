"""coredis: reads how to connect and what to ask from stdin, writes the replies to stdout."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

import coredis
from coredis.connection import TCPLocation


async def connect(access: dict[str, Any], stack: AsyncExitStack) -> Any:
    login = {"username": access["username"], "password": access["password"]}
    if access["kind"] == "cluster":
        host, _, port = access["nodes"][0].rpartition(":")
        return await stack.enter_async_context(coredis.RedisCluster(host, int(port), **login))
    sentinels = [
        TCPLocation(host, int(port)) for host, _, port in (where.rpartition(":") for where in access["sentinels"])
    ]
    sentinel = await stack.enter_async_context(coredis.Sentinel(sentinels, sentinel_kwargs=login, **login))
    return await stack.enter_async_context(sentinel.primary_for(access["master_name"]))


async def main() -> None:
    asked = json.load(sys.stdin)
    async with AsyncExitStack() as stack:
        client = await connect(asked["access"], stack)
        replies = [await client.evalsha(call["sha1"], keys=[call["key"]], args=call["args"]) for call in asked["calls"]]
    json.dump(replies, sys.stdout)


asyncio.run(main())
