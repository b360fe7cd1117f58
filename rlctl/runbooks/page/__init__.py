"""Runbook pages as values, read and checked. Pure."""
