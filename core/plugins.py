"""`python -m core.plugins`: lists what is installed, who ships it, what it provides, and what failed to load."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from core.config.search_path import CONF, config_sources
from core.launching.command_line import run_command
from core.launching.tables import build_table
from core.plugin_system.catalogue import Catalogue, load_catalogue

USAGE = """python -m core.plugins

Lists the plugins, the distribution that each comes from, what it provides, and why one that failed to load failed.
ANYCARD_PLUGINS=name,... restricts what is loaded; ANYCARD_TRACE_HOOKS=1 prints every hook call."""


def main() -> int:
    """Runs the command line and returns its exit code."""
    return run_command(list_plugins)


def list_plugins() -> int:
    """Prints the plugins; imports no framework."""
    if any(argument in ("-h", "--help") for argument in sys.argv[1:]):
        print(USAGE)
        return 0
    catalogue = load_catalogue()
    console = Console()
    console.print(plugin_table(catalogue))
    for provider, path in [("anycard", f"file://{CONF}"), *config_sources()]:
        console.print(f"config of {provider}: {path}", soft_wrap=True, highlight=False, markup=False)
    for failed in catalogue.failed:
        console.print(failed.sentence(), soft_wrap=True, highlight=False, markup=False)
    return 0


def plugin_table(catalogue: Catalogue) -> Table:
    """Returns one row a plugin."""
    table = build_table(("plugin", "from", "provides"))
    for plugin in catalogue.loaded:
        name = plugin.candidate.name
        provided = catalogue.provided_by(name)
        text = "\n".join(f"{kind}: {', '.join(names)}" for kind, names in provided.items())
        table.add_row(name, plugin.candidate.distribution, text or "nothing")
    for failed in catalogue.failed:
        table.add_row(failed.candidate.name, failed.candidate.distribution, "failed to load, see below")
    return table


if __name__ == "__main__":
    sys.exit(main())
