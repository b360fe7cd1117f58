"""Throw-away fleets for drills and runbooks: roles, faults, partitions, snapshots, clean-up.

Pure: `partition`, `roles`, `twin`.
"""
