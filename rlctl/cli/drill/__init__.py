"""The commands of `rlctl failover-drill`."""
