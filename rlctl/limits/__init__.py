"""Code that the limiter and the rlctl command share: algorithms, decisions, keys, rules, releases, RESP. Pure."""
