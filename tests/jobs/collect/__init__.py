"""Tests of jobs.collect."""
