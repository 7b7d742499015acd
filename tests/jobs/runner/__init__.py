"""Tests of jobs.runner."""
