"""What a person is asked about one tool call, and which calls nobody can be asked about.

Law: a grant covers nothing that the question did not show. A call that does not fit into it whole, or holds what must
be hidden, is refused and cannot be granted.
"""

from __future__ import annotations

import json
from typing import Any

from flyball.agents.hooks.payload import TOOL_MOST, HookCall
from flyball.guard.verdict import Verdict

CALL_MOST, REASON_MOST = 1_500, 300  # with all that stands around them less than what the journal keeps
UNBOUND = ("description", "justification", "timeout")  # what the agent says of it, and how long it may take
WHERE_TO = "Do it in smaller steps, or by a program of the repository."


def binding(word: HookCall) -> dict[str, Any]:
    """The part of the input that a grant is bound to: all that matters for what is done."""
    return {name: value for name, value in word.input.items() if name not in UNBOUND}


def call(word: HookCall, workspace: str) -> str:
    """The tool, the command as it will be run, all the rest of the input, and where."""
    rest = binding(word)
    command = rest.pop("command") if isinstance(rest.get("command"), str) else ""
    more = json.dumps(rest, sort_keys=True, ensure_ascii=False) if rest else ""
    place = f"[in {word.cwd}]" if word.cwd.rstrip("/") not in ("", workspace) else ""
    return f"{word.tool}: " + " ".join(part for part in (command, more, place) if part)


def askable(word: HookCall, workspace: str, found: Verdict) -> Verdict:
    """An ask, if a person can be shown the whole of it; else a refusal."""
    from flyball.guard.secrets import redact

    text = call(word, workspace)
    if len(word.tool) > TOOL_MOST or len(text) > CALL_MOST:
        why = f"A person would have to be asked, and it is too long to be shown whole. {WHERE_TO}"
        return Verdict("deny", f"{found.rule}/too-long", f"{found.reason[:REASON_MOST]} {why}")
    if redact(text) != text or not all(sign.isprintable() or sign in "\n\t" for sign in text):
        why = "A person would have to be asked, and it holds a secret or signs that cannot be shown."
        return Verdict("deny", f"{found.rule}/hidden", f"{found.reason[:REASON_MOST]} {why}")
    return found


def question(word: HookCall, workspace: str, found: Verdict) -> str:
    """What it wants to do, and why that is not simply allowed."""
    return f"{call(word, workspace)} ({found.rule}: {found.reason[:REASON_MOST]})"
