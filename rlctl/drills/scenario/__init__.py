"""Reads and checks scenario files. Pure: `load`, `model`, `schema`, `values`."""
