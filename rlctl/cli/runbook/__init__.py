"""The commands of `rlctl runbook`."""
