"""From job ids to results/: files, tables, review text."""
