"""What a run will need, worked out before it starts."""
