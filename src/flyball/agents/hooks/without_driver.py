"""A ruling without a driver: by the pinned brief, in the hook's own process. Nobody can be asked, so ask is no.

What was ruled is noted in a file in the agent's private home. The agent can write there: it could take away a note
or add one, but only of what the policy allows, or of what did not run; the driver marks these as seen by nobody.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat

from flyball.agents.hooks.brief import Brief, parse
from flyball.agents.hooks.payload import (
    INPUT_MOST,
    NAME_MOST,
    TOOL_MOST,
    BadPayload,
    HookCall,
    Reply,
    allow,
    read,
    refuse,
)
from flyball.agents.hooks.tool_calls import judge


def rule(data: bytes, moment: str, agent: str, payload: bytes) -> tuple[int, bytes, bytes]:
    reply = _replied(parse(data), moment, agent, payload)
    return reply.code, reply.out.encode(), reply.err.encode("utf-8", "replace")


def _replied(brief: Brief, moment: str, agent: str, payload: bytes) -> Reply:
    try:
        word = read(payload, agent, moment)
    except BadPayload as odd:
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


def _note(brief: Brief, word: HookCall, verdict: str, rule: str, reason: str) -> None:
    """Best effort: no disk, no note, and the ruling stands."""
    named = {"moment": word.moment, "tool": word.tool[:TOOL_MOST], "call": word.call[:NAME_MOST]}
    row = {**named, "input": word.asked[:INPUT_MOST], "failed": word.failed}
    line = json.dumps({**row, "verdict": verdict, "rule": rule, "reason": reason})
    with contextlib.suppress(OSError):
        _append(brief.late, line.encode("utf-8", "replace") + b"\n")


def _append(path: str, line: bytes) -> None:
    """Only to a file: whatever else the agent has put there would hold the hook up."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            os.write(fd, line)
    finally:
        os.close(fd)
