"""`flyball hook`: what an agent's CLI runs before and after each tool call. It answers in that CLI's own way.

The configurations that Flyball writes call the same program by its file, which starts in a fraction of the time.
"""

from __future__ import annotations

import sys

import click


@click.command(epilog="\b\nExample:\n  flyball hook pre claude ACT/hook/brief.json SHA256 < payload.json")
@click.argument("moment", metavar="pre|post|note")
@click.argument("agent", metavar="claude|codex|gemini")
@click.argument("brief")
@click.argument("sha256")
def hook(moment: str, agent: str, brief: str, sha256: str) -> None:
    """Judge the tool call on standard input by the pinned brief: exit code 0 is yes, 2 is no.

    Whatever goes wrong before a tool runs is a no. After it (post) and beside it (note) the word is only recorded.
    """
    from flyball.agents.hooks.program import main

    sys.stdout.flush()
    sys.exit(main(["flyball hook", moment, agent, brief, sha256]))
