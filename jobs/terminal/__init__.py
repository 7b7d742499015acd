"""Rendering for terminals and pipes."""
