"""The tests; they mirror the product."""
