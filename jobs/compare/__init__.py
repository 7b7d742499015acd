"""Two collections compared: what changed, by how much, and whether that exceeds the noise."""
