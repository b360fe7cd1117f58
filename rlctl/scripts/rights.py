"""The permissions that a Redis user gains or loses with a new release. Pure."""

from dataclasses import dataclass

# The commands that a limiter script may call: commands on the script's one key, and TIME.
GRANTABLE = frozenset(
    {
        *("append", "decr", "decrby", "exists", "expire", "expireat", "expiretime", "get", "getrange", "getset"),
        *("incr", "incrby", "incrbyfloat", "persist", "pexpire", "pexpireat", "pexpiretime", "psetex", "pttl", "set"),
        *("setex", "setnx", "setrange", "strlen", "time", "ttl", "type"),
        *("hdel", "hexists", "hget", "hgetall", "hincrby", "hlen", "hmget", "hset", "hsetnx"),
        *("lindex", "llen", "lpop", "lpush", "lrange", "ltrim", "rpop", "rpush"),
        *("sadd", "scard", "sismember", "srem"),
        *("zadd", "zcard", "zcount", "zincrby", "zrange", "zrangebyscore", "zrank", "zrem", "zremrangebyrank"),
        *("zremrangebyscore", "zrevrange", "zrevrangebyscore", "zscore"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RightsChange:
    """The parts of an ACL rule that a user gains and loses, such as `+command`, `~keys` and `&channels`."""

    user: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]

    def describe(self) -> str:
        """Return the change as one sentence; empty if nothing changes."""
        gains = f" gains {' '.join(self.gained)}" if self.gained else ""
        losses = f" loses {' '.join(self.lost)}" if self.lost else ""
        return f"user {self.user}{gains}{' and' if gains and losses else ''}{losses}" if gains or losses else ""

    def to_json(self) -> dict[str, object]:
        return {"user": self.user, "gained": list(self.gained), "lost": list(self.lost)}


def rights_change(user: str, before: str, after: str) -> RightsChange:
    """Compare two ACL rules of a user. Each rule has the words of ACL SETUSER, without selectors."""
    old, new = _grants(before), _grants(after)
    return RightsChange(user=user, gained=tuple(sorted(new - old)), lost=tuple(sorted(old - new)))


def rule_in(acl_file: str, user: str) -> str:
    """Return the ACL rule of a user from an ACL file, without selectors; empty if the file lacks the user."""
    lines = (line for line in acl_file.splitlines() if line.startswith(f"user {user} "))
    return next(lines, "").split(" (", 1)[0]


def _grants(rule: str) -> frozenset[str]:
    return frozenset(word for word in rule.split() if word[0] in "+~&%")
