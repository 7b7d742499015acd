"""Tests of mxfp8_attention.emulation.layer."""
