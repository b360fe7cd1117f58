"""The effects: one wrapper for each thing outside rlctl.

Pure: `host_facts`, `open_files`, `playbook_events`, `server_log`.
"""
