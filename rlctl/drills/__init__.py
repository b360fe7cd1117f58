"""Failover drills: a scenario says what to break, a run is recorded, and pure checks judge the record.

Pure: `judge`.
"""
