"""SLURM: everything that is specific to it."""
