"""Failover drills: a scenario is data, a run is recorded, and pure checkers say what was lost and why.

Pure: `judge`.
"""
