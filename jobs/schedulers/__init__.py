"""Where sweeps run: one interface, one implementation per scheduler."""
