"""Tests of jobs.compare."""
