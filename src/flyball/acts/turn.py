"""One turn of an agent: started by a keeper, read by its adapter, checked by the guard, saved as a checkpoint.

Performing the same act again is safe at any moment: the keeper starts nothing twice, and the tree that the
agent left is written down before anything is undone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from flyball.acts import live_turn
from flyball.acts.assess import assess
from flyball.acts.live_turn import Dialogue, Live
from flyball.acts.proof import tests_are_known
from flyball.acts.run_files import Reach, RunFiles, interruption, scrub, share_links
from flyball.acts.turn_input import access_of, network_of, prompt, refusals
from flyball.agents import process
from flyball.agents.accounts import how_to_log_in
from flyball.agents.adapter import (
    Adapter,
    AgentResult,
    Ask,
    Talks,
    TurnRequest,
    adapter as find_adapter,
    cause_of,
    charged,
    refuse_all,
)
from flyball.agents.hooks import turn_brief
from flyball.agents.session_records import SessionRecord
from flyball.core.decide import Finished, Interrupted
from flyball.core.stops import so_far
from flyball.core.turns import PLAN_REVIEW, claimable, judgement, misfit
from flyball.domain import events as e
from flyball.domain.machine import JUDGING_ROLES, READ_ONLY_ROLES
from flyball.domain.settings import without_model
from flyball.guard.change import Change, Verdict, worst
from flyball.guard.changes import judge_changes, judge_tier, text_of
from flyball.guard.policy import Policy, policy_hash, tier_of
from flyball.guard.secrets import redact
from flyball.reading import calls as watching, prose, signals
from flyball.reading.indicators import named
from flyball.reading.prose import final_question, reported_error
from flyball.reading.terminal import error_fingerprint, message_fingerprint, whole_text
from flyball.state.run import Run
from flyball.state_dir import write_whole
from flyball.workspace import Workspace

TEXT_MOST = 1 << 20
TEXTS_MOST = 2_000  # files read whole; beyond it their lines are judged, and their number asks by itself
MESSAGE_MOST = 20_000
PLAN_LEAST = 600  # characters; a longer message of a planner is a plan, whatever it ends with
MODES = "user-modes.txt"  # of the user's git directory, when the turn began
SESSIONS = "sessions.json"  # what each session had used, beside the run's other files


def take_turn(
    run_files: RunFiles, run: Run, act: e.Act, stop: process.Stop, show: Callable[[str], None]
) -> Finished | Interrupted:
    work = run_files.workspace(run)
    agent = find_adapter(act.agent)
    folder = run_files.act_folder(act.key)
    home = run_files.home(run, f"agent-{act.role}")
    record = None if without_model(act.agent) else SessionRecord(act.agent, home)
    live = Live(agent, run, stop, show, record)
    begins = process.look(folder) == "unclaimed"
    if begins:
        process.begin(folder, _spec(run_files, run, act, agent, work, folder))
    if live_turn.alarming(folder):  # and the driver before us did not live to end it
        stop.set(now=True)
    role = act.role
    with live_turn.attended(folder, run, role, work, show, alarm=lambda: stop.set(now=True)) as ask:
        exit_status = _attended(live, folder, _request(run_files, run, act, agent, work, folder), begins, ask)
    alarming = live_turn.alarming(folder)
    over = (live.ending and exit_status.reason == "stopped") or (
        live.dialogue is not None and live.dialogue.closed
    )
    if interruption(exit_status) and not over and not alarming:
        scrub(folder)
        return _interrupted(work, act, folder, exit_status, agent)
    run_files.never_began(folder, exit_status)
    result = whole_text(live_turn.witnessed(_agent_result(agent, folder, exit_status), folder, act.agent))
    result = charged(
        run_files.run_dir(run).path / SESSIONS, act.key, record.completed(result) if record else result
    )
    result = _ended_early(result, live) if live.ending else _resumable(result)
    finished = _judged(run_files, run, act, work, folder, result, live, exit_status, alarming)
    scrub(folder)
    return finished


def _attended(live: Live, folder: Path, request: TurnRequest, begins: bool, ask: Ask | None) -> process.Exit:
    """A conversation that another driver started cannot be continued: its agent is ended, and its session resumed."""
    agent = live.agent
    if isinstance(agent, Talks):
        if not begins:
            process.end(folder)
        else:
            live.dialogue = Dialogue(folder, agent.converse(request, ask or refuse_all))
            live.dialogue.open()
    try:
        return process.attend(folder, on_output=live, stop=live.stop)
    finally:
        if live.dialogue:
            live.dialogue.close()


def _request(
    run_files: RunFiles, run: Run, act: e.Act, agent: Adapter, work: Workspace, folder: Path
) -> TurnRequest:
    role, prompt_file = act.role, folder / "prompt"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / MODES).exists():  # before the agent begins; a later driver keeps it
        write_whole(folder / MODES, work.user_modes().encode())
    if not prompt_file.exists():
        diff = (
            work.diff(run.checkout.base_tree, act.tree)
            if role in JUDGING_ROLES and run.checkout.base_tree
            else ""
        )
        few = network_of(run_files, run, act.agent, {}).rules is not None
        duties = run_files.instructions(run, role)
        words = prompt(run, act, duties, diff, tools=agent.hooked, few_hosts=few)
        prompt_file.write_text(words, encoding="utf-8")
    return TurnRequest(
        prompt=prompt_file.read_text("utf-8"),
        prompt_file=prompt_file,
        role=role,
        place=act.place,
        place_in_file=act.place_in_file,
        session=act.session,
        resume=act.resume,
        so_far=so_far(run) if act.resume else "",
        proof=run.settings.proof,
        wall_s=act.wall_us / 1_000_000 if act.wall_us else None,
        hooks=folder / turn_brief.FOLDER if agent.hooked else None,
        server=live_turn.server_line(folder, run_files.mounted(run)) if agent.hooked else (),
        key=act.key,
        cwd=str(work.repo_root if run_files.mounted(run) else work.checkout),
        confined=run_files.confined(run),
        read_only=role in READ_ONLY_ROLES,
    )


def _spec(
    run_files: RunFiles, run: Run, act: e.Act, agent: Adapter, work: Workspace, folder: Path
) -> process.Spec:
    role = act.role
    home = run_files.home(run, f"agent-{role}")
    request = _request(run_files, run, act, agent, work, folder)
    briefed = ()
    if agent.hooked:
        place, options = live_turn.brief(run_files, run, act, work, home, folder)
        briefed, request = (str(place),), replace(request, hook_options=options)
    launch = agent.launch(request)
    lent = access_of(run_files, run, act.agent, home, launch.env)
    own = {"FLYBALL_TURN": str(act.turn), "FLYBALL_ROLE": role}
    env = {**run_files.env(run, home), **lent.env, **own, **launch.env}
    if not run_files.mounted(run):
        share_links(run, work.repo_root, work.checkout)
    reach = Reach(
        files=work.checkout,
        home=home,
        network=lent.network.kind,
        reads=(*launch.reads, *briefed),
        bridges=lent.network.bridges,
        programs=lent.programs,
        lent_reads=lent.reads,
        lent_writes=lent.writes,
        read_only=role in READ_ONLY_ROLES,
    )
    return process.Spec(
        argv=run_files.enclosed(run, launch.argv, reach),
        cwd=str(work.checkout),
        env=env,
        stdin_file=launch.stdin_file,
        login=lent.login,
        stdin_held=launch.talks,
        proxy=lent.network.rules,
        status=run_files.confined(run),
        processes=run.settings.processes,
        wall_s=act.wall_us / 1_000_000 if act.wall_us else None,
        idle_s=act.idle_us / 1_000_000 if act.idle_us else None,
    )


def _agent_result(agent: Adapter, folder: Path, exit_status: process.Exit) -> AgentResult:
    """Output that no adapter can read makes a failed turn of the agent, not an error of Flyball."""
    try:
        return agent.read(_text(process.read_out(folder)), _text(process.read_err(folder)), exit_status)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as odd:
        return AgentResult(
            verdict="unknown", error=f"What it wrote cannot be read: {type(odd).__name__}: {odd}"
        )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _interrupted(
    work: Workspace, act: e.Act, folder: Path, exit_status: process.Exit, agent: Adapter
) -> Interrupted:
    tree = left_tree(work, folder)
    ref = work.keep(tree, f"interrupted/{act.key}") if tree != act.tree else ""
    return Interrupted(
        act.key, interruption(exit_status), ref, session=_agent_result(agent, folder, exit_status).session
    )


def left_tree(work: Workspace, folder: Path) -> str:
    """The tree that the agent left, computed once: undoing a change must not alter what was checked."""
    note = folder / "tree"
    if not note.exists():
        write_whole(note, work.tree().encode(), sync=False)
    return note.read_text()


def _ended_early(result: AgentResult, live: Live) -> AgentResult:
    """Flyball ended the agent: what it did counts, and a missing final message is not its failure."""
    if result.verdict not in ("killed", "unknown", "ok"):
        return result
    if live.unreadable:
        return replace(result, verdict="unknown", error=live.unreadable)
    return replace(result, verdict="turn_limit" if live.over_budget else "ok", error=live.over_budget)


def _resumable(result: AgentResult) -> AgentResult:
    """A session that is gone is treated like one that is full: the agent continues in a new one, and is told what was done."""
    return (
        replace(result, verdict="context")
        if result.lost_session and result.verdict in ("unknown", "killed")
        else result
    )


# ---- judging what it left ------------------------------------------------------------------------------------


def _judged(
    run_files: RunFiles,
    run: Run,
    act: e.Act,
    work: Workspace,
    folder: Path,
    result: AgentResult,
    live: Live,
    exit_status: process.Exit,
    alarming: e.Action | None,
) -> Finished:
    """The guard checks the change, the core decides what follows, and this function does it."""
    tree = left_tree(work, folder)
    changes = [*work.changes(act.tree, tree), *work.special_files()]
    ruling = judge(run_files, run, act, work, tree, changes)
    word = judgement(run, act, result.verdict, ruling, tree, bool(changes), alarming)
    result = replace(result, error=word.error or result.error)
    reported = tuple(shown(line) for line in work.agent_git_report())
    ruling = word.ruling
    if word.undo:
        ruling = replace(ruling, kept=work.keep(tree, act.key))
        work.restore(act.tree)
    turn = replace(
        _turn(run, act, result, live, exit_status, changed=bool(changes)),
        tree=word.tree,
        undone=tuple(map(shown, _paths(changes))) if word.read_only else (),
        held=() if word.counts or word.read_only else tuple(map(shown, _paths(changes))),
        commit=_checkpoint(work, act, tree, word.publish, run) if word.checkpoint else "",
        reported=reported,
        refused=refusals(folder),
    )
    turn = _with_changes(turn, changes) if word.counts else turn
    plans = act.do == "agent:planner" and run.machine.supervises and turn.verdict == "ok"
    if plans and not misfit(run, act.role, turn.claim):
        turn = replace(turn, assessment=assess(run_files, run, work, turn))
    return Finished(key=act.key, result=turn, took_us=exit_status.took_us, ruling=ruling)


def _with_changes(turn: e.TurnEnded, changes: list[Change]) -> e.TurnEnded:
    return replace(
        turn,
        changed=_paths(changes),
        lines=sum(c.lines_added + c.lines_deleted for c in changes),
        deleted=sum(c.op == "delete" for c in changes),
    )


def _paths(changes: list[Change]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(plain(change.path) for change in changes))


def judge(
    run_files: RunFiles, run: Run, act: e.Act, work: Workspace, tree: str, changes: list[Change]
) -> e.Ruling:
    """The guard's verdict on what one turn changed, on top of everything that this run has changed before."""
    folder = run_files.act_folder(act.key)
    touched = run_files.tampered(run) or live_turn.tampered(folder) or _loosened(folder, work)
    if touched:
        return _tampering(run, touched, act.tree, tree)
    policy = run_files.policy(run)
    verdict = judge_changes(
        changes,
        policy,
        workspace=str(work.repo_root),
        prior_changed_files=[path for path in run.checkout.changed if path not in run.checkout.excused],
        prior_lines=run.checkout.lines - run.checkout.excused_lines + int(run.began.options.get("lines", 0)),
        prior_deleted=run.checkout.deleted,
        existing_symlinks=work.links(tree) if changes else {},
        texts=_texts(work, act.tree, tree, changes),
        tests_by_id=bool(run.settings.proof) and tests_are_known(work),
    )
    approved, root = run.began.options.get("tier"), run.began.repo or "/workspace"
    verdict = worst((verdict, judge_tier(_paths(changes), policy, approved, root)))
    ruling = _as_fact(verdict, policy, act.tree, tree)
    unchanged = not changes and ruling.verdict == "allow"
    return _tiered(run, policy, changes, replace(ruling, unchanged=unchanged))


def _loosened(folder: Path, work: Workspace) -> str:
    """Landlock cannot keep an agent from changing the mode of a file of the same user; so it is noticed here."""
    noted = folder / MODES
    changed = noted.exists() and noted.read_text() != work.user_modes()
    return f"The mode of a file in {work.record.common_dir}" if changed else ""


def _tiered(run: Run, policy: Policy, changes: list[Change], ruling: e.Ruling) -> e.Ruling:
    """CTO-3: how much is at stake, from the task's words and every file that was really changed."""
    paths = tuple(dict.fromkeys((*run.checkout.changed, *(plain(change.path) for change in changes))))
    tier, why = tier_of(
        paths, run.began.task, policy, writes=bool(paths), workspace=run.began.repo or "/workspace"
    )
    return replace(ruling, tier=tier, tier_why=why[0][:300])


def _texts(
    work: Workspace, old: str, new: str, changes: list[Change]
) -> dict[str, tuple[str | None, str | None]]:
    readable_changes = [change for change in changes if _readable(change)][:TEXTS_MOST]
    places = [(old, c.from_ or c.path) for c in readable_changes] + [(new, c.path) for c in readable_changes]
    binary = [change.binary for change in readable_changes] * 2
    texts = [
        None if data is None else text_of(data) if odd else _text(data)
        for data, odd in zip(work.read_all(places), binary, strict=True)
    ]
    pairs = zip(texts[: len(readable_changes)], texts[len(readable_changes) :], strict=True)
    return {
        change.path: pair
        for change, pair in zip(readable_changes, pairs, strict=True)
        if any(pair) or not change.binary
    }


def _readable(change: Change) -> bool:
    return change.op in ("add", "modify", "delete", "rename") and (change.bytes or 0) <= TEXT_MOST


def _as_fact(verdict: Verdict, policy: Policy, old: str, new: str) -> e.Ruling:
    others = tuple(shown(f"{v.verdict} {v.rule} {v.file}: {v.reason}") for v in verdict.findings[:20])
    return e.Ruling(
        verdict=verdict.verdict,
        rule=verdict.rule,
        reason=shown(verdict.reason),
        file=shown(verdict.file),
        line=verdict.line,
        policy=policy.name,
        policy_hash=policy_hash(policy),
        diff=hashlib.sha256(f"{old}:{new}".encode()).hexdigest(),
        waivable=verdict.waivable,
        tree=new,
        others=others,
    )


def _tampering(run: Run, name: str, old: str, new: str) -> e.Ruling:
    """The rules themselves were changed, so nothing can be checked by them."""
    return e.Ruling(
        verdict="deny",
        rule="tampering",
        reason=f"{name} was modified since the run began. Restore it, or cancel the run.",
        file=name,
        policy=run.settings.policy,
        policy_hash=run.settings.policy_hash,
        diff=hashlib.sha256(f"{old}:{new}".encode()).hexdigest(),
        waivable=False,
        tree=new,
    )


def shown(text: str) -> str:
    """What people see of a verdict: a name or a link's target may be a secret."""
    return redact(plain(text))


def plain(text: str) -> str:
    """File names may be any bytes; the journal holds text."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _checkpoint(work: Workspace, act: e.Act, tree: str, publish: bool, run: Run) -> str:
    """Save a checkpoint; the user's branch moves only if the guard allowed the change."""
    commit = work.checkpoint(tree, act.turn, f"Turn {act.turn}: {run.state}\n\nFlyball-Run: {run.id}")
    if publish:
        work.publish(commit)
    return commit


# ---- reading what it said ------------------------------------------------------------------------------------


def _turn(
    run: Run, act: e.Act, result: AgentResult, live: Live, exit_status: process.Exit, *, changed: bool
) -> e.TurnEnded:
    role = act.role
    failed = [call for call in result.calls if call.error]
    error = result.error or (failed[-1].result if failed else "")
    error = error or (reported_error(result.message) if result.verdict == "ok" else "")
    reset_at, now = result.reset_at, exit_status.started_at_us + exit_status.took_us
    if result.reset_in_us is not None:
        reset_at = now + result.reset_in_us
    return e.TurnEnded(
        verdict=result.verdict,
        message=redact(result.message)[-MESSAGE_MOST:],
        session=result.session,
        usage=_counted(result.usage),
        models={redact(name): _counted(used) for name, used in result.models.items()},
        claim=_redacted(_asking(claim(run, role, result), role, result, changed)),
        reset_at=reset_at,
        plan_percent=result.plan_percent,
        plan_reset_at=result.plan_reset_at
        or (now + (result.plan_reset_in_us or 0)) * bool(result.plan_reset_in_us),
        error=redact(error if result.verdict == "ok" else _with_help(act, result, exit_status))[-2000:],
        fingerprint=error_fingerprint(error) if error else "",
        said=message_fingerprint(result.message),
        calls=max(len(result.calls), len(result.actions)),
        actions=result.actions,
        wanted=result.wanted,
        halted=live.fired.code if live.fired else "",
        halted_why=redact(_why_halted(live.fired)) if live.fired else "",
    )


def _with_help(act: e.Act, result: AgentResult, exit_status: process.Exit) -> str:
    """What went wrong; where the agent's login was refused, also how to log in."""
    if result.verdict != "auth":
        return cause_of(result, exit_status, act.idle_us)
    return f"{result.error.rstrip('. ')}. {how_to_log_in(act.agent)}".strip()


def _counted(usage: e.Usage) -> e.Usage:
    """A turn never gives money back: a negative report counts as no report."""
    return msgspec.convert({name: max(0, n) for name, n in msgspec.structs.asdict(usage).items()}, e.Usage)


def _why_halted(fired: watching.FiredRule) -> str:
    return f"The turn was halted: {fired.rule}, {fired.observed} times where {fired.threshold} are allowed. {fired.evidence}".strip()


def _redacted(claim_: e.Claim) -> e.Claim:
    """Claims are journaled and shown, so secrets are removed from them."""
    return msgspec.convert(_without_secrets(msgspec.to_builtins(claim_)), e.Claim)


def _without_secrets(value: Any) -> Any:
    match value:
        case str():
            return redact(value)
        case list() | tuple():
            return [_without_secrets(item) for item in cast("list[Any]", value)]
        case dict():
            table = cast("dict[str, Any]", value)
            return {redact(key): _without_secrets(item) for key, item in table.items()}
        case _:
            return value


def claim(run: Run, role: str, result: AgentResult) -> e.Claim:
    """What the agent claims: through its structured channel, else in its words by the reading rules."""
    claim_ = result.claim
    if role == "worker" and claim_.finished:
        red = signals.red_ci(result.message)
        return replace(claim_, indicators=named(claim_.indicators, run.settings.indicators), missing=red)
    if role == "worker":
        return _loop_claim(claim_, result.message, run.settings.indicators)
    if role == "author" or (role == "reviewer" and "passed" in run.here.on):
        return replace(claim_, signal=_review_signal(run, role, claim_, result.message))
    if claim_.outcome or claim_.signal:
        return claim_
    judges = role in JUDGING_ROLES or (run.act is not None and run.act.why == PLAN_REVIEW)
    reader = prose.read_verdict if judges else prose.read_outcome
    outcome = reader(result.message, claimable(run)) or ""
    outcome = outcome or (prose.unlisted_claim(result.message, claimable(run)) if judges else "")
    signal = outcome.upper() if outcome in ("pass", "fail") else ""
    return replace(claim_, outcome="" if signal else outcome, signal=signal)


def _asking(claim_: e.Claim, role: str, result: AgentResult, changed: bool) -> e.Claim:
    """A question that ends a turn without a change, and without any claim, is for a person."""
    claims = (
        claim_.outcome or claim_.signal or claim_.finished or claim_.data or claim_.ask or claim_.findings
    )
    plans = role == "planner" and len(result.message) > PLAN_LEAST
    if changed or claims or plans or result.verdict != "ok" or role in ("reviewer", "cto"):
        return claim_
    return replace(claim_, ask=final_question(result.message))


def _loop_claim(claim_: e.Claim, message: str, extra: tuple[str, ...]) -> e.Claim:
    reading = signals.read_output(
        message, dialect="loop", role="worker", runtime=signals.Runtime(), extra_indicators=extra
    )
    missing = () if reading.reading == "complete" else reading.missing
    return replace(
        claim_,
        finished=reading.exit_signal is True,
        indicators=reading.indicators,
        reading=reading.reading,
        missing=missing if reading.exit_signal else (),
    )


def _review_signal(run: Run, role: str, claim_: e.Claim, message: str) -> str:
    """The word on the last line, or over the structured channel: `finish`, or the word as an outcome (PAIR-2)."""
    reader, done_word = ("reviewer" if role == "reviewer" else "worker"), run.settings.done_word
    reading = signals.read_output(
        message, dialect="review", role=reader, runtime=signals.Runtime(), done_word=done_word
    )
    if "FAIL" in (reading.signal, claim_.outcome, claim_.signal):
        return "FAIL"
    mine, word = ("PASS", "PASS") if role == "reviewer" else ("DONE", done_word)
    finished = role == "author" and claim_.finished
    return mine if finished or word == claim_.outcome or mine in (reading.signal, claim_.signal) else ""
