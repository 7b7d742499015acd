"""The RoPE benchmark."""
