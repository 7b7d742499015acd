"""Half an hour of random faults on a test cluster: `python -m tests.soak`."""
