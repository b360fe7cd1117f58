"""Memory of rate-limit state: the published models, the bytes that servers really take, and plans made from them.

Pure: `batch`, `compare`, `costs`, `layout`, `models`, `parse_request`, `plan`, `predict`, `published`,
`request`, `rules_file`, `server_memory`, `synthetic_users`, `warnings`.
"""
