"""Tests of jobs.status."""
