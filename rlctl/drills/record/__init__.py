"""What a run writes down, and how it is read again. Pure: `evidence`, `ledger`, `ops`, `sample`."""
