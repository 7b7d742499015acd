"""MLA RoPE: eager, Triton kernels, autograd."""
