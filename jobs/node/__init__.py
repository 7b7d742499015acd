"""What runs on the node: environment, capability, validation, benchmark, record."""
