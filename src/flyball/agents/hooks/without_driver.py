"""The verdict without a driver: from the pinned brief, in the hook's own process. Nobody can be asked, so ask
means deny.

Each verdict is noted in a file in the agent's private home. The agent can write there: it could remove a note or add
one, but only about calls that the policy allows or that did not run. The driver marks these notes as unwitnessed.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat

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
from flyball.agents.hooks.turn_brief import Brief, parse


def rule(data: bytes, moment: str, agent: str, payload: bytes) -> tuple[int, bytes, bytes]:
    reply = _replied(parse(data), moment, agent, payload)
    return reply.code, reply.out.encode(), reply.err.encode("utf-8", "replace")


def _replied(brief: Brief, moment: str, agent: str, payload: bytes) -> Reply:
    try:
        word = read(payload, agent, moment)
    except BadPayload as odd:
        return refuse(f"cannot read the call: {odd}.")
    if word.moment != "pre":
        _note(brief, word, "", "", "")
        return Reply()
    ruling = judge(word, brief, os.path.realpath)
    verdict = "deny" if ruling.verdict == "ask" else ruling.verdict
    _note(brief, word, verdict, ruling.rule, ruling.reason)
    if ruling.verdict == "ask":
        return refuse(f"{ruling.reason} ({ruling.rule}) This needs approval, but Flyball is not running.")
    return allow(word) if ruling.verdict == "allow" else refuse(f"{ruling.reason} ({ruling.rule})")


def _note(brief: Brief, word: HookCall, verdict: str, rule: str, reason: str) -> None:
    """Best effort: on a full disk there is no note, and the verdict still counts."""
    fields = {"moment": word.moment, "tool": word.tool[:TOOL_MOST], "call": word.call[:NAME_MOST]}
    row = {**fields, "input": word.asked[:INPUT_MOST], "failed": word.failed}
    line = json.dumps({**row, "verdict": verdict, "rule": rule, "reason": reason})
    with contextlib.suppress(OSError):
        _append(brief.late, line.encode("utf-8", "replace") + b"\n")


def _append(path: str, line: bytes) -> None:
    """Only to a regular file: a pipe that the agent puts there would block the hook."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            os.write(fd, line)
    finally:
        os.close(fd)
