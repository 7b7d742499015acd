"""Tests of jobs.schedulers."""
