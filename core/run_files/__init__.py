"""What the parent and the ranks leave for each other in the run directory."""
