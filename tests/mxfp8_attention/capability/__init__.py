"""Tests of mxfp8_attention.capability.checks."""
