"""Preflight and health checks: each says what it saw and what would fix it. Pure."""
