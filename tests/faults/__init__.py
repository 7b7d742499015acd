"""The fault matrix: what goes wrong on a cluster, and what the tool says of it."""
