"""The verbs of launch.py, one file each, and how the command line is read."""
