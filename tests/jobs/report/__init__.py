"""Tests of jobs.report."""
