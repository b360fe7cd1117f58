"""What this machine keeps about its fleets: folders, secrets, the record of the last deploy."""
