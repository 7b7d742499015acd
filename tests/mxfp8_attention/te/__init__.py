"""Tests of mxfp8_attention.te.layer."""
