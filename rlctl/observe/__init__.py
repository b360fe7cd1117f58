"""What is really there: every node's own answer, as a frozen value. Pure: `info`, `model`, `parse`."""
