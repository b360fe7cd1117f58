"""Judges the record of a run: numbers, checks and verdict. Pure."""
