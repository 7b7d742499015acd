"""Generated input for everything that the tool reads: `python -m tests.fuzz`."""
