"""The child process on the node: environment, capability, validation, benchmark, record."""
