"""Measures the limiter scripts on a fleet: speed beside plain INCR, accuracy under attack, and more shards.

Pure: `attack`, `claims`, `figures`, `scaling`, `stats`, `subjects`.
"""
