"""Tests of jobs.terminal."""
