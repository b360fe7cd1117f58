"""Where a fleet's processes run: this machine, containers, hosts. Targets only place processes. Pure: `remains`."""
