"""The offline HTML report of a collection."""
