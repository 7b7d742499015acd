"""Tests of the node side."""
