"""Tests of what Hydra finds in this project."""
