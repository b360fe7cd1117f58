"""Scenario files as values. Pure: `load`, `model`, `schema`, `values`."""
