"""MXFP8 numerics of multi-head latent attention: quantizer, RoPE, emulation, references."""
