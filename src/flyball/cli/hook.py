"""`flyball hook`: called by an agent's CLI before and after each tool call.

The hook configurations that Flyball writes call the same program by its file, which starts much faster.
"""

from __future__ import annotations

import sys

import click

from flyball.cli import examples


@click.command(epilog=examples("flyball hook pre claude ACT/hook/brief.json SHA256 < payload.json"))
@click.argument("moment", metavar="pre|post|note")
@click.argument("agent", metavar="claude|codex|gemini")
@click.argument("brief")
@click.argument("sha256")
def hook(moment: str, agent: str, brief: str, sha256: str) -> None:
    """Internal: called by agent hooks before and after each tool call.

    Reads a tool call from standard input. Exit code 0 allows it, 2 refuses it; any problem before a tool runs refuses
    it. After a tool has run (post, note) the call is only recorded.
    """
    from flyball.agents.hooks.program import main

    sys.stdout.flush()
    sys.exit(main(["flyball hook", moment, agent, brief, sha256]))
