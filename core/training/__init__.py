"""The trainer, which runs on every rank: windows, metrics, evaluation, checkpoints, the summary."""
