"""Tests of mxfp8_attention.rope.mla."""
