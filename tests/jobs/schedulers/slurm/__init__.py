"""Tests of jobs.schedulers.slurm."""
