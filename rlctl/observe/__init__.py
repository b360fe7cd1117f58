"""Observes a fleet: the answers of every node, as immutable values. Pure: `info`, `model`, `parse`."""
