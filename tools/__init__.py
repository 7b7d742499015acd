"""Developer scripts: calibration, document makers, GPU runs."""
