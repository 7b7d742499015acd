"""Errors, predicted errors and gates."""
