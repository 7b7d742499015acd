"""Jobs: the record, the node side that writes it, and the cluster side that plans and gathers."""
