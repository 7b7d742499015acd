"""Tests of jobs.verbs."""
