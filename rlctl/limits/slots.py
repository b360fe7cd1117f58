"""Which slot of a Redis Cluster a key belongs to. Pure."""

from binascii import crc_hqx

SLOTS = 16384


def key_slot(key: str) -> int:
    """What CLUSTER KEYSLOT answers for this key."""
    return crc_hqx(hash_tag(key).encode("utf-8", "surrogatepass"), 0) % SLOTS


def hash_tag(key: str) -> str:
    """The part of a key that chooses its slot: the text between the first braces, or the whole key without one."""
    inside, closing, _rest = key.partition("{")[2].partition("}")
    return inside if inside and closing else key
