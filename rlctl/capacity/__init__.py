"""Memory of rate-limit state: published models, the bytes that servers use, capacity plans, and measurements.

Pure: `batch`, `compare`, `costs`, `layout`, `models`, `parse_request`, `plan`, `predict`, `published`,
`request`, `rules_file`, `server_memory`, `synthetic_users`, `warnings`.
"""
