"""What services and operators share: algorithms, decisions, keys, rules, releases, RESP. Pure."""
