"""Reads and checks runbook pages, and returns each page as a value. Pure."""
