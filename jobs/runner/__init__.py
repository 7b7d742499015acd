"""The parent process on the node: runs the points of a job with the standard library only."""
