"""Tests of mxfp8_attention.accuracy."""
