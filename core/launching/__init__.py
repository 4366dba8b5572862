"""From a checked config to ranks that run, and back to one result or one error."""
