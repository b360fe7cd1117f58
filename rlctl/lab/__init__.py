"""What drills and rehearsals share: throw-away fleets, worker processes, roles, faults, snapshots, clean-up.

Pure: `partition`, `roles`, `twin`.
"""
