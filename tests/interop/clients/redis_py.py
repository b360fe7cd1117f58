"""redis-py: reads how to connect and what to ask from stdin, writes the replies to stdout."""

import json
import sys
from typing import Any

from redis import RedisCluster, Sentinel


def connect(access: dict[str, Any]) -> Any:
    login = {"username": access["username"], "password": access["password"]}
    if access["kind"] == "cluster":
        host, _, port = access["nodes"][0].rpartition(":")
        return RedisCluster(host=host, port=int(port), **login)
    sentinels = [(host, int(port)) for host, _, port in (where.rpartition(":") for where in access["sentinels"])]
    return Sentinel(sentinels, sentinel_kwargs=login, **login).master_for(access["master_name"])


asked = json.load(sys.stdin)
client = connect(asked["access"])
json.dump([client.evalsha(call["sha1"], 1, call["key"], *call["args"]) for call in asked["calls"]], sys.stdout)
