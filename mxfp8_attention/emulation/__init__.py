"""MXFP8 and other FP8 recipes emulated in plain PyTorch, on any device."""
