"""MXFP8 in plain PyTorch."""
