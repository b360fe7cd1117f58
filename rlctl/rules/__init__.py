"""Limits as data: the rules file, its compiled revisions in the fleet, and how they are changed and taken back.

Pure: `advice`, `compile`, `conditions`, `diff`, `edit`, `enforcement`, `key_state`, `load`, `schema`, `table`.
"""
