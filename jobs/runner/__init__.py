"""The parent process on the node; standard library only."""
