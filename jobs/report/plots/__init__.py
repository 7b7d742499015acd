"""Plots of the report, as SVG and PNG files."""
