"""Tests of the configuration: its groups, its types, its rules."""
