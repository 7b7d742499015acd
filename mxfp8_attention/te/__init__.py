"""The layer through Transformer Engine, which is imported only when a path is built."""
