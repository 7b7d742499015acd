"""Tests of the login side."""
