"""A real SLURM cluster on this machine, started and stopped by the tests themselves."""
