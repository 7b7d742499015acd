"""Numerics of MXFP8 multi-head latent attention: emulation, RoPE, references and gates."""
