"""Computes the Redis Cluster slot of a key. Pure."""

from binascii import crc_hqx

SLOTS = 16384


def key_slot(key: str) -> int:
    """Return the slot of a key, as CLUSTER KEYSLOT does."""
    return crc_hqx(hash_tag(key).encode("utf-8", "surrogatepass"), 0) % SLOTS


def hash_tag(key: str) -> str:
    """Return the part of a key that determines its slot.

    This is the text in the first pair of braces, or the whole key if that text is empty or missing.
    """
    inside, closing, _rest = key.partition("{")[2].partition("}")
    return inside if inside and closing else key
