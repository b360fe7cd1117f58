"""Failover drills: a scenario defines the faults, a run is recorded, and pure checks judge the record.

Pure: `judge`.
"""
