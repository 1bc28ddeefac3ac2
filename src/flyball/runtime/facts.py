"""What is known about a run, for `--json`, the terminal and the web page: the summary, why it stopped, proofs and rulings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from flyball.core import stops
from flyball.domain import events as e
from flyball.domain.messages import Answer, AnyMessage, readable
from flyball.domain.settings import Budget, dollars, elapsed, rough, show_duration
from flyball.errors import FlyballError, WorkspaceError
from flyball.journal.records import asking, continues_with, family
from flyball.state.run import Run
from flyball.views import reasons, run_view
from flyball.views.text import (
    agent_name,
    clean,
    cost,
    cost_text,
    cost_usd,
    day_and_clock,
    finding_text,
    first_few,
    one_line,
    plural,
    tokens,
)

if TYPE_CHECKING:
    from flyball.guard.secret_diffs import ShownDiff
    from flyball.journal.records import Records
    from flyball.runtime.app import App
    from flyball.views.measures import Measures
    from flyball.views.run_view import Line

LIST_LIMIT = 12
TAIL_BYTES = 1 << 16
SHOWN_CALL = 200
NO_BUDGET = Budget(uusd=None, tokens=None, wall_us=None)
RISKS = {"T0": "none", "T3": "low", "T2": "medium", "T1": "high"}


def why(records: Records, run: Run) -> list[str]:
    """Three sentences: what happened, the evidence, what to do next."""
    sentences = reasons.why(run)
    asker = asking(records, run)
    if run.stop is None and not records.driven(run.id):
        sentences[0] = f"Run {run.id} is in '{run.state}', but no process is running it."
        sentences[-1] = f"Continue with `{continues_with(records, run)}`."
    elif (unread := _unread(records, run, asker)) is not None:
        what = "answer" if isinstance(unread, Answer) else "message"
        sentences[-1] = f"Your last {what} is saved. Apply it with `{continues_with(records, run)}`."
    elif asker is not None and asker is not run:
        sentences[-1] = reasons.next_step(asker)
    return [" ".join(clean(sentence).split()) for sentence in sentences]


def _unread(records: Records, run: Run, asker: Run | None) -> AnyMessage | None:
    """What a person sent last, such as an answer or a hand-back, if no process is there to read it."""
    if run.status == "ended" or records.driven(run.id):
        return None
    below = [asker.id] if asker is not None and asker is not run else []
    mail = [letter for name in (run.id, *below) for letter in records.journal.mail(name)]
    return readable(mail[-1].body) if mail else None


def certificate_file(records: Records, run: Run) -> Path | None:
    path = records.dirs.run(run.id).certificate
    return path if run.checkout.certificate and path.exists() else None


def facts(records: Records, run: Run) -> dict[str, Any]:
    """The summary, and everything that `show` adds to it."""
    from flyball.views.task_record import record  # a run that only works needs none

    history = [e.decode(entry.body) for entry in records.journal.read(run.id)]
    certificate = certificate_file(records, run)
    return {
        **run_view.summary(run, asking(records, run)),
        "events": len(history),
        "repo": run.began.repo,
        "parent": run.began.parent or None,
        "children": [row.run for row in records.journal.rows(parent=run.id)],
        "began_at": run.began.at,
        "updated_at": run.at,
        "driven": records.driven(run.id),
        "settings": msgspec.to_builtins(run.settings),
        "base_commit": run.began.commit,
        "answers_out_of_reach": is_confined(run),
        "certificate_file": str(certificate) if certificate else None,
        "baseline_failing": run.evidence.baseline,
        "models": {name: msgspec.to_builtins(used) for name, used in _models(records, run.id).items()},
        "proofs": [_proof_facts(event) for event in history if _is_proof(event)],
        "rulings": [msgspec.to_builtins(event.ruling) for event in history if isinstance(event, e.Ruled)],
        "record": record(history, time.time_ns() // 1000),
        "why": why(records, run),
    }


def _models(records: Records, run_id: str) -> dict[str, e.Usage]:
    """What each model used, in this run and those below it."""
    models: dict[str, e.Usage] = {}
    below = (_models(records, row.run) for row in records.journal.rows(parent=run_id))
    events = (e.decode(entry.body) for entry in records.journal.read(run_id))
    turns = (event.result for event in events if isinstance(event, e.ActFinished))
    for used in (*below, *(turn.models for turn in turns if isinstance(turn, e.TurnEnded))):
        for name, usage in used.items():
            models[name] = models.get(name, e.Usage()).plus(usage)
    return models


def _is_proof(event: e.AnyEvent) -> bool:
    return isinstance(event, e.ActFinished) and isinstance(event.result, e.ProofEnded)


def _proof_facts(event: e.AnyEvent) -> dict[str, Any]:
    assert isinstance(event, e.ActFinished)
    return {"key": event.key, "took_us": event.took_us, **msgspec.to_builtins(event.result)}


# ---- as names and values ---------------------------------------------------------------------------------


def rows(run: Run, facts_: dict[str, Any]) -> list[tuple[str, str]]:
    """What `show` lists below the reason, of these facts; names without a value are left out."""
    return [(name, value) for name, value in (*_rows(run, facts_), *_history(facts_)) if value]


def _rows(run: Run, facts_: dict[str, Any]) -> list[tuple[str, str]]:
    now, proof = time.time_ns() // 1000, "; ".join(clean(command) for command in run.settings.proof)
    budget = NO_BUDGET if run.machine.supervises else run.settings.budget  # there each step has one
    process = "" if run.status == "ended" else "running" if facts_["driven"] else "not running"
    return [
        ("task", one_line(run.task, 200)),
        ("repository", run.began.repo),
        ("machine", f"{run.machine.name}, in '{run.state}'"),
        ("process", process),
        ("in state", _in_state(run, now)),
        ("parent", run.began.parent),
        ("children", first_few(facts_["children"])),
        ("started", f"{day_and_clock(run.began.at)}, {rough(now - run.began.at)} ago"),
        ("time", f"{elapsed(run.spending.wall_us)}{_of_wall(budget)}"),
        ("turns", f"{run.turns}{_of(None if run.machine.supervises else run.most('turns'))}"),
        ("iteration", f"{run.iteration}{_of(run.most('iterations'))}" if run.iteration else ""),
        ("cost", _cost(run, budget)),
        ("tokens", f"{_tokens(run)}{_of(budget.tokens)}"),
        ("models", "; ".join(_model(name, used) for name, used in facts_["models"].items())),
        ("agents", _agents(run)),
        ("sandbox", run.checkout.sandbox or run.settings.sandbox),
        ("answered by", _answers(run)),
        ("policy", run.settings.policy),
        ("risk", _risk(run)),
        ("breakpoints", ", ".join(run.settings.breakpoints)),
        ("changed", _changed(run)),
        *_findings(run),
        ("branch", (facts_["branch"] or "") if run.checkout.changed else ""),
        ("pull request", run.checkout.pull_request),
        ("certificate", facts_["certificate_file"] or ""),
        ("proof", proof or "none configured; the result will be unproven"),
    ]


def _risk(run: Run) -> str:
    """Of the plan, in the standing loop; else of what was changed."""
    assessment = run.plan.assessment if run.machine.supervises else run.evidence.ruling
    return (
        f"{RISKS.get(assessment.tier, '')} (tier {assessment.tier}): {assessment.tier_why}"
        if assessment and assessment.tier
        else ""
    )


def _findings(run: Run) -> list[tuple[str, str]]:
    """The ledger of a review, the latest of a long one."""
    lines = [f"{finding.id} {finding.status}, {finding_text(finding)}" for finding in run.findings[-10:]]
    return [("" if number else "findings", line) for number, line in enumerate(lines)]


def _changed(run: Run) -> str:
    if run.checkout.changed:
        return f"{plural(len(run.checkout.changed), 'file')}: {first_few(run.checkout.changed)}"
    awaits_approval = run.question is not None and run.question.kind == "approval"
    return (
        f"nothing so far; to see the change you are asked about: flyball diff {run.id}"
        if awaits_approval
        else "nothing"
    )


def _in_state(run: Run, now: int) -> str:
    """For how long, beside the time after which Flyball warns (TASK-6)."""
    allowed = stops.alert_time_us(run)
    if run.status == "ended" or not allowed:
        return ""
    late = " (late)" if now - run.entered_at >= allowed else ""
    return f"{rough(now - run.entered_at)}{late}; alert after {show_duration(allowed)}"


def _model(name: str, used: dict[str, int]) -> str:
    usage = msgspec.convert(used, e.Usage)
    return f"{clean(name)}: {usage.tokens} tokens, {cost(usage.cost_uusd)}"


def _agents(run: Run) -> str:
    """The agent of every role, then those of single roles."""
    agents = {role: agent_name(agent) for role, agent in sorted(run.settings.agents.items())}
    every = agents.pop("default", "")
    return ", ".join((*([every] if every else []), *(f"{role}: {agent}" for role, agent in agents.items())))


def _answers(run: Run) -> str:
    """Who can answer its questions (HUMAN-4)."""
    if is_confined(run):
        return "you only: the sandbox keeps agents away from the journal and the keys"
    return "you, but without a sandbox an agent could answer too"


def is_confined(run: Run) -> bool:
    return (run.checkout.sandbox or "unsandboxed") not in ("unsandboxed", "none")


def _of(limit: int | None) -> str:
    return f" of {limit:,}" if limit is not None else ""


def _of_wall(budget: Budget) -> str:
    return f" of {show_duration(budget.wall_us)}" if budget.wall_us is not None else ""


def _tokens(run: Run) -> str:
    return tokens(run.spent.tokens, cost_usd(run) is not None)


def _cost(run: Run, budget: Budget) -> str:
    return cost_text(run) + (f" of {dollars(budget.uusd)}" if budget.uusd is not None else "")


def _history(facts_: dict[str, Any]) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for proof in facts_["proofs"][-LIST_LIMIT:]:
        failing = proof.get("failing")
        result = (
            "passed" if proof["passed"] else f"failed{f', {failing} failing' if failing is not None else ''}"
        )
        rows.append(("", f"{result}, tree {proof['tree'][:10]}, {elapsed(proof['took_us'])}"))
    changes = [ruling for ruling in facts_["rulings"] if not ruling.get("unchanged")]
    allowed = sum(ruling["verdict"] == "allow" for ruling in changes)
    rows.append(("guard", f"{plural(len(changes), 'change')} checked, {allowed} allowed"))
    for ruling in facts_["rulings"][-LIST_LIMIT:]:
        if ruling["verdict"] != "allow":
            what = {"ask": "asked", "deny": "refused"}.get(ruling["verdict"], ruling["verdict"])
            reason = one_line(ruling.get("reason", ""))
            rows.append(("", f"{what} (rule {ruling.get('rule', '')}): {reason}"))
    return rows


# ---- the change ---------------------------------------------------------------------------------------------


def diff_of(app: App, run: Run, stat: bool) -> ShownDiff:
    """What a run changed, including a change that a person is asked about, without the secrets in it."""
    from flyball.guard.secret_diffs import ShownDiff, redact_diff
    from flyball.workspace import Workspace

    tree = _shown_tree(run)
    if not run.checkout.base_tree or run.checkout.base_tree == tree:
        return ShownDiff("")
    try:
        work = Workspace.open(app.run_files().run_dir(run).path)
    except WorkspaceError:
        return redact_diff(_from_branch(run, tree, stat))
    return redact_diff(work.diff(run.checkout.base_tree, tree, stat=stat))


def _from_branch(run: Run, tree: str, stat: bool) -> str:
    """The run's own folder is gone; the user's repository has its branch."""
    from flyball.workspace import inspect_repo

    repo = inspect_repo(Path(run.began.repo))
    shape = "--stat=100" if stat else "-p"
    options = ("-r", "-M", "--no-ext-diff", "--no-textconv", "--color=never", shape)
    return repo.git("diff-tree", *options, run.checkout.base_tree, tree).decode("utf-8", "replace")


def _shown_tree(run: Run) -> str:
    """The run's tree, with the change that a person is asked about, if there is one."""
    return asked_about(run) or run.tree


def asked_about(run: Run) -> str:
    """The tree with a change that the guard asks about; "" where it asks about none."""
    ruling = run.evidence.ruling
    return ruling.tree if run.question and ruling and ruling.verdict != "allow" else ""


# ---- the agent, and the figures of many runs ---------------------------------------------------------------


def current_call(records: Records, run: Run) -> str:
    """The last tool call of the agent that works now, from the end of its output; "" if there is none."""
    from flyball.agents import process

    act = run.act
    if act is None or not act.do.startswith("agent:") or run.status != "running":
        return ""
    return _last_call(act.agent, process.read_out(records.dirs.act(act.key), TAIL_BYTES))


def live(records: Records, run: Run, now: int) -> dict[str, str]:
    """What `watch` shows of a run now: where it is, its counters, and what happens at the moment."""
    from flyball.views.run_view import Live

    live_ = Live()
    for member in family(records, run):
        live_.runs[member.id], live_.since[member.id] = member, member.at
        live_.calls[member.id] = current_call(records, member)
    return {"place": live_.place(run), "counters": live_.counters(run, now), "now": live_.now(run, now)}


def story(records: Records, run: Run, most: int) -> list[Line]:
    """The last lines of what `log` prints of a run and the runs below it."""
    from flyball.views.run_view import Timeline

    timeline, members = Timeline(), [row.run for row in reversed(records.journal.rows(root=run.id))]
    entries = [entry for member in members or [run.id] for entry in records.journal.read(member)]
    entries.sort(key=lambda entry: entry.at)
    lines = [timeline.line(entry.run, e.decode(entry.body)) for entry in entries]
    return [line for line in lines if line.level][-most:]


def _last_call(agent: str, output: bytes) -> str:
    from flyball.agents.adapter import adapter
    from flyball.agents.hooks.action_log import shortened

    try:
        reader = adapter(agent)
    except FlyballError:
        return ""
    for line in reversed(output.decode("utf-8", "replace").splitlines()):
        call = reader.doing(line)
        if call:
            return shortened(f"{call.tool} {call.input}", SHOWN_CALL)
    return ""


def measures(
    records: Records, repo: str | None, since: int, now: int, machine: str | None = None
) -> Iterator[Measures]:
    """The counts of each run that did something since then."""
    from flyball.views.measures import measure

    for row in records.journal.rows(repo=repo, machine=machine):
        if row.updated_at < since:
            continue
        counts = measure((e.decode(entry.body) for entry in records.journal.read(row.run)), now, since)
        if counts:
            yield counts
