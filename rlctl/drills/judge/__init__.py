"""From the record of a run to its numbers, checks and verdict. Pure."""
