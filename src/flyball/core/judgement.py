"""What becomes of the change that a turn left: it stands, it stands while a person is asked, or it is undone."""

from __future__ import annotations

import hashlib

from msgspec import Struct
from msgspec.structs import replace

from flyball.core.run import Run
from flyball.core.tally import FAILED
from flyball.domain import events as e
from flyball.domain.machine import READ_ONLY_ROLES


class Judgement(Struct, frozen=True, kw_only=True):
    """What the shell does with the change, and what it reports."""

    ruling: e.Ruling  # as it counts, with the tree that an approval would bring back
    tree: str  # that the checkout holds afterwards
    undo: bool  # keep the change under a ref, and put the checkout back
    checkpoint: bool  # record the tree
    publish: bool  # … and move the user's branch to it
    counts: bool  # its files are the run's: they count for the radius
    read_only: bool  # a role that may not change files has changed some
    error: str = ""  # what ended the turn, where the guard did


def judgement(
    run: Run,
    act: e.Act,
    verdict: str,
    ruling: e.Ruling,
    tree: str,
    changed: bool,
    alarm: e.Action | None = None,
) -> Judgement:
    """`verdict` is the agent's, `ruling` the guard's on `tree`; `changed` also by files that no tree holds."""
    reads_only = act.do.partition(":")[2] in READ_ONLY_ROLES
    alarms = alarm is not None and ruling.verdict != "deny"
    if alarm is not None and alarms:
        ruling = _refused(ruling, alarm)
    read_only = reads_only and tree != act.tree and ruling.verdict != "deny"
    if read_only:
        reason = f"A {act.do.partition(':')[2]} may not change files. The change was undone."
        ruling = replace(ruling, verdict="allow", rule="read-only", reason=reason)
    passed = not read_only and (ruling.verdict == "allow" or ruling.diff in run.evidence.waivers)
    stands = passed or (ruling.verdict == "ask" and verdict not in FAILED and not read_only)
    undo = not stands and (tree != act.tree or changed)
    if undo:
        ruling = replace(ruling, tree=act.tree if reads_only and alarm else tree)
    return Judgement(
        ruling=ruling,
        tree=tree if stands else act.tree,
        undo=undo,
        checkpoint=stands and tree != act.tree,
        publish=passed and tree != act.tree,
        counts=passed,
        read_only=read_only,
        error=ruling.reason if alarms else "",
    )


def _refused(ruling: e.Ruling, alarm: e.Action) -> e.Ruling:
    """CTO-7: the call was refused and did not run; what the agent did besides is for a person to judge."""
    call = f"{alarm.tool}: {alarm.input[:200]}"
    bound = f"{ruling.diff}:{alarm.tool}:{alarm.input}".encode("utf-8", "replace")
    also = f" Besides, of what it changed: {ruling.reason} ({ruling.file})" if ruling.verdict == "ask" else ""
    reason = f"It tried {call}. That was refused ({alarm.rule}): {alarm.reason}{also}"
    rule, diff = alarm.rule.rpartition("/")[2], hashlib.sha256(bound).hexdigest()
    return replace(ruling, verdict="deny", rule=rule, reason=reason, diff=diff, call=call, waivable=True)
