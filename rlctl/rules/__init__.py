"""Limits as data: the rules file, its compiled revisions in the fleet, changes, canaries and ramps.

Pure: `advice`, `compile`, `conditions`, `diff`, `edit`, `enforcement`, `key_state`, `load`, `schema`, `table`.
"""
