"""Preflight and health checks, each with its evidence and a fix. Pure."""
