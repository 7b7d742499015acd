"""The fault matrix: what goes wrong on a cluster, and how the tool reports it."""
