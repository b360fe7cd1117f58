"""Shared parts of drills and rehearsals: throw-away fleets, worker processes, roles, faults, snapshots, clean-up.

Pure: `partition`, `roles`, `twin`.
"""
