"""The state of fleets on this machine: folders, secrets, the record of the last deploy."""
