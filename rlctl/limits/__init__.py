"""What the runtime library and the operator's tool share: algorithms, decisions, keys, rules, releases, RESP. Pure."""
