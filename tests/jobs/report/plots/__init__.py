"""Tests of jobs.report.plots."""
