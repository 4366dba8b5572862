"""A stranger's plugin: one sharder, and a folder of config beside the one that its entry point names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from core import Sharder, hookimpl


@hookimpl
def anycard_sharders() -> Sequence[type[Sharder]]:
    from anycard_stranger.everything_replicated import EverythingReplicated

    return [EverythingReplicated]


@hookimpl
def anycard_config_folders() -> Sequence[str]:
    return [str(Path(__file__).parent / "more_conf")]
