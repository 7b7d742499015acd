"""Points as jobs of a SLURM cluster."""
