"""Well-known networks in plain torch, under the names in which their weights are published."""
