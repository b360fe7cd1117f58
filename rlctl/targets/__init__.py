"""Where a fleet's processes run: this machine, containers or hosts. Targets send no Redis commands. Pure: `remains`."""
