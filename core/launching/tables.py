"""The look of every table that a command prints."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table


def build_table(columns: Sequence[str], right: Sequence[str] = (), title: str | None = None) -> Table:
    """Returns an empty table.

    Args:
        columns: The columns' titles.
        right: Those of them that hold numbers, and are aligned so.
        title: What stands above.
    """
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=box.SIMPLE_HEAD)
    for column in columns:
        # A name or number that does not fit goes on in the next line; none is cut short.
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table
