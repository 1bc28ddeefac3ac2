"""The guard's word on one tool call, before it is made.

A command is judged by the command guard where it would run. What a tool writes is judged by the path rules of the
change guard; where those would only ask, it goes through here: the change is asked about at the end of the turn,
when the whole of it can be shown. A read is judged as `cat` would be. What is too much to be judged while the agent
waits is refused.

Where there is no driver this is loaded anew for each call, so what only some calls need is imported by these.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Literal, cast

from flyball.agents.hooks.brief import Brief
from flyball.agents.hooks.payload import TOOL_MOST, HookCall
from flyball.agents.hooks.question import askable, binding
from flyball.agents.hooks.tools import ToolUse, tool_use
from flyball.guard.change import Change
from flyball.guard.commands import CommandPolicy, judge_command, project_policy
from flyball.guard.verdict import ORDINARY, Decision, Verdict, severity, worst

Real = Callable[[str], str]  # where a path of the agent's really leads, as the agent would name it
INPUT_MOST, PATHS_MOST = 256 << 10, 200
GRANTED = Verdict("allow", "granted", "A person allowed exactly this.")


def judge(word: HookCall, brief: Brief, real: Real) -> Verdict:
    """Allow, ask or deny. Whatever goes wrong while judging is a refusal."""
    try:
        found = _judged(word, brief, real)
        return askable(word, brief.workspace, found) if found.verdict == "ask" else found
    except Exception as fault:  # fail closed: a fault of ours must not let a call through
        return Verdict(
            "deny", "guard-error", f"The guard could not judge this call ({type(fault).__name__})."
        )


def fingerprint(word: HookCall) -> str:
    """What a person's grant is bound to: the tool, all of its input that matters, and where."""
    import hashlib

    said = json.dumps([word.tool, word.cwd, binding(word)], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def _judged(word: HookCall, brief: Brief, real: Real) -> Verdict:
    what = tool_use(word.tool, word.input, word.cwd)
    if _is_too_much(what, word):
        told = "This call says more at once than can be judged while it waits. Do it in smaller steps."
        return Verdict("deny", "too-much", told)
    named = _named(word.tool, brief)
    found = _of_kind(what, word, brief, real)
    if named and named.verdict == "allow":
        return named if what.kind in ("network", "unknown") else found
    return worst([named, found]) if named else found


def _is_too_much(what: ToolUse, word: HookCall) -> bool:
    size = len(word.asked.encode("utf-8", "replace"))
    return size > INPUT_MOST or len(what.writes) + len(what.paths) > PATHS_MOST


def _of_kind(what: ToolUse, word: HookCall, brief: Brief, real: Real) -> Verdict:
    match what.kind:
        case "command":
            return _command(what, word, brief)
        case "edit":
            return _edit(what, brief, real)
        case "read":
            return worst(_read(path, what.cwd, brief, real) for path in what.paths)
        case "network":
            return _network(brief)
        case "plain":
            return ORDINARY
        case "odd":
            told = f"The tool '{word.tool}' is not known with this input."
            return worst([Verdict("ask", "unknown-input", told), _unknown(word, brief)])
        case "unknown":
            return _unknown(word, brief)


def _unknown(word: HookCall, brief: Brief) -> Verdict:
    told = f"The tool '{word.tool[:TOOL_MOST]}' is not known."
    return Verdict(brief.policy.tools.unknown, "unknown-tool", told)


def _named(tool: str, brief: Brief) -> Verdict | None:
    """What the policy says of this tool by name; the strictest of the patterns that fit."""
    fits: list[Decision] = [
        word for name, word in brief.policy.tools.named.items() if fnmatchcase(tool, name)
    ]
    found = [Verdict(word, "tool", f"The policy says so of the tool '{tool[:TOOL_MOST]}'.") for word in fits]
    return worst(found) if found else None


# ---- commands --------------------------------------------------------------------------------------------


def command_policy(brief: Brief) -> CommandPolicy:
    return project_policy(brief.workspace, brief.home, brief.policy.commands, brief.state_dirs)


def _command(what: ToolUse, word: HookCall, brief: Brief) -> Verdict:
    """Judged with a `cd` before it where the agent is not at the top of its workspace."""
    places = [place for place in (word.cwd, what.cwd) if place and place.rstrip("/") != brief.workspace]
    line = "".join(f"cd {shlex.quote(place)}\n" for place in places) + what.command
    beside = [Verdict("ask", "background", what.beside)] if what.beside else []
    return worst([judge_command(line, command_policy(brief)), *beside])


def _read(path: str, cwd: str, brief: Brief, real: Real) -> Verdict:
    where = _absolute(path, cwd, brief)
    policy = command_policy(brief)
    return worst(
        judge_command(f"cat {shlex.quote(one)}", policy) for one in dict.fromkeys([where, real(where)])
    )


def _absolute(path: str, cwd: str, brief: Brief) -> str:
    return path if path.startswith(("/", "~")) else f"{cwd or brief.workspace}/{path}"


# ---- edits and the network -------------------------------------------------------------------------------


def _edit(what: ToolUse, brief: Brief, real: Real) -> Verdict:
    from flyball.guard.changes import judge_changes

    if brief.read_only:
        return Verdict("deny", "read-only", "This role may not change files.")
    changes: list[Change] = []
    for path, op, text in what.writes:
        where = _absolute(path, what.cwd, brief)
        kind = cast("Literal['add', 'modify', 'delete']", op)
        added = tuple(text.splitlines())
        names = dict.fromkeys([where, real(where)])
        changes += [Change(path=name, op=kind, lines_added=len(added), added=added) for name in names]
    ruling = judge_changes(changes, brief.policy, workspace=brief.workspace)
    found = worst(v for v in ruling.findings if v.rule not in ("name-collision",))
    if found.rule == "outside" and all(_is_scratch(change.path, brief) for change in changes):
        return Verdict("deny", "temporary", f"{found.reason} Only the workspace is written to.")
    if severity(found) == 1:
        return Verdict("allow", found.rule, f"{found.reason} It is asked about at the end of the turn.")
    return found


def _is_scratch(path: str, brief: Brief) -> bool:
    """A place where agents like to put notes; to try it is no sign of ill will."""
    return ".." not in path and path.startswith(("/tmp/", "/var/tmp/", f"{brief.home}/", "~/."))


def is_critical(found: Verdict, brief: Brief) -> bool:
    """CTO-7: refused for a reason after which nothing more should be tried."""
    return found.verdict == "deny" and found.rule in brief.policy.commands.critical


def _network(brief: Brief) -> Verdict:
    if brief.network != "all":
        return Verdict("deny", "network", "This run has no network but its own computer.")
    return Verdict(brief.policy.tools.network, "network", "It goes out to the network.")
