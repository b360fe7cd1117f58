"""Where a fleet's processes run: this machine, containers, hosts. They place processes only. Pure: `remains`."""
