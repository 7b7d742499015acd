"""Checks of what hardware and libraries support, with reasons."""
