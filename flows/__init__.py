"""What runs: the flows, the shipped jobs and the command line."""
