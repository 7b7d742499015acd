"""Tests of builders."""
