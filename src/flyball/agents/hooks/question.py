"""What a person is asked about one tool call, and which calls cannot be asked about.

Law: an approval covers nothing that the question did not show. A call that does not fit into the question, or contains
a secret, is denied and cannot be approved.
"""

from __future__ import annotations

import json
from typing import Any

from flyball.agents.hooks.payload import TOOL_MOST, HookCall
from flyball.guard.change import Verdict

CALL_MOST, REASON_MOST = 1_500, 300  # with the rest of the question less than the journal keeps
UNBOUND = ("description", "justification", "timeout")  # what the agent says of it, and how long it may take
WHERE_TO = "Split it into smaller steps, or put it in a script of the repository."


def binding(word: HookCall) -> dict[str, Any]:
    """The part of the input that an approval is bound to: everything that changes what the call does."""
    return {name: value for name, value in word.input.items() if name not in UNBOUND}


def call(word: HookCall, workspace: str) -> str:
    """The tool, the command as it will be run, all the rest of the input, and where."""
    rest = binding(word)
    command = rest.pop("command") if isinstance(rest.get("command"), str) else ""
    more = json.dumps(rest, sort_keys=True, ensure_ascii=False) if rest else ""
    place = f"[in {word.cwd}]" if word.cwd.rstrip("/") not in ("", workspace) else ""
    return f"{word.tool}: " + " ".join(part for part in (command, more, place) if part)


def askable(word: HookCall, workspace: str, verdict: Verdict) -> Verdict:
    """The ask itself, if a person can be shown all of the call; else a deny."""
    from flyball.guard.secrets import redact

    text = call(word, workspace)
    if len(word.tool) > TOOL_MOST or len(text) > CALL_MOST:
        why = f"This needs approval, but it is too long to show in full. {WHERE_TO}"
        return Verdict("deny", f"{verdict.rule}/too-long", f"{verdict.reason[:REASON_MOST]} {why}")
    if redact(text) != text or not all(sign.isprintable() or sign in "\n\t" for sign in text):
        why = "This needs approval, but it contains a secret or characters that cannot be shown."
        return Verdict("deny", f"{verdict.rule}/hidden", f"{verdict.reason[:REASON_MOST]} {why}")
    return verdict


def question(word: HookCall, workspace: str, verdict: Verdict) -> str:
    """What the call does, and why it needs approval."""
    return f"{call(word, workspace)} ({verdict.rule}: {verdict.reason[:REASON_MOST]})"
