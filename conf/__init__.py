"""The catalogue of config groups: one folder per choice, one file per option."""
