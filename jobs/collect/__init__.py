"""From job ids to results/: copies of files, tables, review text."""
