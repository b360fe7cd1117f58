"""Observes a fleet: what every node answers, as immutable values. Pure: `info`, `model`, `parse`."""
