"""Config of the stranger."""
