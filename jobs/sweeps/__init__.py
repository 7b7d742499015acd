"""The ledger of a sweep: plan, points, ids, and reading it back."""
