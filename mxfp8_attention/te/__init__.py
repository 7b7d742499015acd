"""Transformer Engine."""
