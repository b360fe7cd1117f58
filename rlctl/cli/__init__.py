"""The command line: parse, call, render. The only importer of click and rich. Pure: `shortage`, `visible`."""
