"""A ruling without a driver: by the pinned brief, in the hook's own process. Nobody can be asked, so ask is no.

What was ruled is noted in a file in the agent's private home. The agent can write there: it could take away a note
or add one, but only of what the policy allows, or of what did not run; the driver marks these as seen by nobody.
"""

from __future__ import annotations

import json
import os

from flyball.hook.brief import Brief, parse
from flyball.hook.judge import judge
from flyball.hook.payload import INPUT_MOST, Reply, Unread, Word, allow, read, refuse


def rule(data: bytes, moment: str, agent: str, payload: bytes) -> tuple[int, bytes, bytes]:
    reply = _replied(parse(data), moment, agent, payload)
    return reply.code, reply.out.encode(), reply.err.encode("utf-8", "replace")


def _replied(brief: Brief, moment: str, agent: str, payload: bytes) -> Reply:
    try:
        word = read(payload, agent, moment)
    except Unread as odd:
        return refuse(f"the question cannot be read: {odd}.")
    if word.moment != "pre":
        _note(brief, word, "", "", "")
        return Reply()
    said = judge(word, brief, os.path.realpath)
    verdict = "deny" if said.verdict == "ask" else said.verdict
    _note(brief, word, verdict, said.rule, said.reason)
    if said.verdict == "ask":
        return refuse(
            f"{said.reason} ({said.rule}). A person would have to be asked, and no driver is there to ask."
        )
    return allow(word) if said.verdict == "allow" else refuse(f"{said.reason} ({said.rule})")


def _note(brief: Brief, word: Word, verdict: str, rule: str, reason: str) -> None:
    """Best effort: no disk, no note, and the ruling stands."""
    row = {"moment": word.moment, "tool": word.tool, "input": word.asked[:INPUT_MOST], "call": word.call}
    line = json.dumps({**row, "verdict": verdict, "rule": rule, "reason": reason, "failed": word.failed})
    try:
        fd = os.open(brief.late, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return
    try:
        os.write(fd, line.encode("utf-8", "replace") + b"\n")
    finally:
        os.close(fd)
