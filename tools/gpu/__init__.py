"""Scripts for a GPU machine and the page of their results."""
