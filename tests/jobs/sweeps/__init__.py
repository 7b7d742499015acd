"""Tests of jobs.sweeps."""
