"""Measures the limiter scripts on a fleet: speed compared with INCR, accuracy under attack, and scaling with shards.

Pure: `attack`, `claims`, `figures`, `scaling`, `stats`, `subjects`.
"""
