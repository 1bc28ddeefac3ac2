"""Codex, run once for each turn with `exec --json`; its hooks, given on the command line, ask the guard.

Inside Flyball's sandbox Codex's own sandbox is off (it cannot start inside another); otherwise it is on.
"""

from __future__ import annotations

from flyball.agents.adapter import Launch, TurnRequest
from flyball.agents.stream_agent import StreamAgent

OPTIONS = (
    *("--json", "--skip-git-repo-check", "--disable", "plugins", "--dangerously-bypass-hook-trust"),
    *(
        "-c",
        "check_for_update_on_startup=false",
        "-c",
        "analytics.enabled=false",
        "-c",
        'otel.exporter="none"',
    ),
)


class CodexAgent(StreamAgent):
    name = "codex"
    hooked = True

    def launch(self, request: TurnRequest) -> Launch:
        own = ("-s", "read-only" if request.read_only else "workspace-write")
        sandbox = ("--dangerously-bypass-approvals-and-sandbox",) if request.confined else own
        resume = ("resume", request.session) if request.resume else ()
        argv = ("codex", "exec", *OPTIONS, *request.hook_options, *sandbox, *resume, "-")
        prompt = str(request.prompt_file)
        return Launch(argv=argv, stdin_file=prompt, reads=(prompt,))
