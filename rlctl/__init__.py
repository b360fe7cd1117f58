"""rlctl: the operator's tool for Redis fleets that hold rate-limit state. Pure: `errors`, `secrets`, `services`."""

__version__ = "0.1.0"
