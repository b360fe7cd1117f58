"""What the users of a release may do that they might not before, or no longer may. Pure."""

from dataclasses import dataclass

# What a limiter script may call: commands on the one key that it is given, and the clock.
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
    """Words of an ACL rule that a user gains and loses: `+command`, `~keys`, `&channels`."""

    user: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]

    def describe(self) -> str:
        """For people; empty where nothing changes."""
        gains = f" gains {' '.join(self.gained)}" if self.gained else ""
        losses = f" loses {' '.join(self.lost)}" if self.lost else ""
        return f"user {self.user}{gains}{' and' if gains and losses else ''}{losses}" if gains or losses else ""

    def to_json(self) -> dict[str, object]:
        """As `scripts plan -o json` shows it."""
        return {"user": self.user, "gained": list(self.gained), "lost": list(self.lost)}


def rights_change(user: str, before: str, after: str) -> RightsChange:
    """Compare two rules of one user, each the words of ACL SETUSER without the selectors."""
    old, new = _grants(before), _grants(after)
    return RightsChange(user=user, gained=tuple(sorted(new - old)), lost=tuple(sorted(old - new)))


def rule_in(acl_file: str, user: str) -> str:
    """The words of a user's rule in an ACL file, without selectors."""
    lines = (line for line in acl_file.splitlines() if line.startswith(f"user {user} "))
    return next(lines, "").split(" (", 1)[0]


def _grants(rule: str) -> frozenset[str]:
    return frozenset(word for word in rule.split() if word[0] in "+~&%")
