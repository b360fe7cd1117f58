"""Where processes live: local children, containers, hosts. Forming the fleet is not their job. Pure: `remains`."""
