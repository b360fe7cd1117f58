"""The command line of rlctl. Only this package imports click and rich. Pure: `shortage`, `visible`."""
