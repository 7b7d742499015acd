"""Points on this machine, one after another."""
