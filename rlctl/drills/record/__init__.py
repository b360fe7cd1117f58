"""Records runs, and reads them back as evidence. Pure: `evidence`, `ledger`, `ops`, `sample`."""
