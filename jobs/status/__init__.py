"""Scheduler answers joined with records: the state of every point."""
