"""What runs on the login node: plan, submit, follow, collect, report, compare; never torch."""
