"""rlctl: the operator's tool for Redis fleets that hold rate-limit state."""

__version__ = "0.1.0"
