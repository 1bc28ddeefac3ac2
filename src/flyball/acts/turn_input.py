"""What an agent gets for one turn: its prompt, its login, its variables, its program, and the hosts that it can reach.

The instructions of a role are in `prompts/ROLE.md`. A repository replaces them with `.flyball/prompts/ROLE.md`, in which
`{shipped}` is replaced by the text that ships. Of the user's home only what `[agents.NAME]` names is visible. A
login is lent as a copy (`agents/login.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from msgspec import Struct

from flyball.acts.run_files import RunFiles
from flyball.agents import landlock, package_sources
from flyball.agents.accounts import (
    Account,
    LoginFile,
    account_of,
    addresses,
    configured,
    theirs,
    variables,
)
from flyball.agents.adapter import name_of, words_of
from flyball.agents.login import Login
from flyball.agents.sandbox import VERSIONS, Bind
from flyball.core.turns import PLAN_REVIEW, claimable
from flyball.domain import events as e
from flyball.domain.machine import JUDGING_ROLES, READ_ONLY_ROLES
from flyball.domain.settings import Lent, without_model
from flyball.errors import Gone
from flyball.guard.secrets import redact
from flyball.reading.terminal import as_object, whole
from flyball.reading.test_output import failing_names
from flyball.state.run import Run
from flyball.state.tally import CLOSED
from flyball.views.text import one_line

DIFF_MOST = 24_000  # characters; a prompt may have to fit into an argument of a command
NAMES_MOST = 30
LIMITS = (
    "Every change is checked before the run continues. Unless the task asks for it, do not delete or weaken tests, "
    "do not change CI or test configuration, do not add secrets, and leave .flyball/ alone."
)
READ_ONLY = "You cannot change files in this turn: read and run what you need, but changes are discarded."
SANDBOX = (
    "You work in a sandbox. It reaches your model provider and few other hosts, so installing packages or downloading "
    "may fail. If the task cannot be done without another host, ask for it by name."
)
LOOP_STATUS = """\
End your message with this block, filled in. The run ends only if EXIT_SIGNAL is true, at least two indicators are
ticked, and the checks pass. If you need a decision from a person, set Task Status to blocked and ask your question
under Reason: the run then stops until it is answered.

## Loop Status

**Iteration**: {turn}
**Progress**: what you did in this turn
**Circuit State**: {state}
**Task Status**: in_progress | blocked | complete

### Completion Indicators
- [ ] Task complete
- [ ] All tests passing

### Exit Decision
EXIT_SIGNAL: true | false

**Reason**: why you go on or stop"""
PAIR = {
    "author": "When it is done, end your message with {done} alone on the last line. If the task cannot be done, end "
    "with FAIL alone on the last line and say why above it.",
    "reviewer": "If it can be merged, end your message with PASS alone on the last line. If it should be given up, end "
    "with FAIL alone on the last line. Otherwise list what must change, with file and line.",
}
ASK = (
    "If only a person can decide how to continue, ask: change nothing in this turn and end your message with that one "
    "question. The run then waits for the answer, and the next turn gets it. Do not ask for permission to begin."
)
TOOLS = (
    "You can also report with the tools of the MCP server `flyball`; they take precedence over your message: {claim}, "
    "`report_finding`, `report_progress`, `ask_human` and `request_approval`. After `ask_human` or `request_approval` end your turn; the answer comes with your next one."
)
CLAIM = "`outcome` (how your turn ended)"
CLAIMS: dict[str, str] = dict.fromkeys(("worker", "author"), "`finish` (the whole task is done)")
STEPS = (
    'Give the plan with the tool `outcome`: the name `planned`, and as `data` {"steps": [{"title": …, "paths": [the files '
    'that it changes], "criteria": [what must hold when it is done]}], "rollback": how to undo it all}. Each step becomes a '
    "task of its own, for an agent that is told only this step; it starts from the result of the step before. One step is "
    "enough for a small task. Changes of production, data or security need the rollback. If there is nothing to do, claim "
    "`nothing` and say why."
)
JUDGED = {
    "accepted": "the change can be merged as it is",
    "approved": "the work can start as planned",
    "rejected": "something must change first, and you have said what",
}
# role -> outcome -> when to claim it
MEANS = {
    "coder": {
        "fixed": "you have repaired the cause of the failure",
        "rewrite": "the approach is wrong, and the change has to be written again",
    },
    **dict.fromkeys(JUDGING_ROLES, JUDGED),
    "cto": {
        **JUDGED,
        "retry": "repeat the failed state with your guidance",
        "rollback": "go back to an earlier state; name it",
        "skip": "continue with the next state",
        "escalate": "a person has to decide",
    },
}


def prompt(
    run: Run, act: e.Act, instructions: str = "", diff: str = "", tools: bool = False, few_hosts: bool = False
) -> str:
    """`instructions` are the repository's own for this role; `diff` is the change so far, for roles that review it;
    `tools`: the agent has Flyball's MCP server; `few_hosts`: it cannot reach every host.
    """
    role = act.role
    parts = {
        "Task": run.task,
        "Your role": _role(role, instructions, act.why, few_hosts),
        "The plan": _plan(run, role),
        "Rules of this repository": _governance(run, role),
        "What happened before": "\n\n".join(act.told),
        "Failing now": _failing(run, act),
        "Failing before the latest change": _failed_before(run, role),
        "Open findings": _findings(run) if role not in JUDGING_ROLES else "",
        "The change": _change(diff) if role in JUDGING_ROLES else "",
        "The proof": _proof(run) if role in JUDGING_ROLES else "",
        "Checks": _checks(run),
        "How to report": _how_to_report(run, act, role, tools),
    }
    return "\n\n".join(f"# {title}\n\n{text}" for title, text in parts.items() if text) + "\n"


@cache
def shipped(role: str) -> str:
    """The text that ships for a role; a role without a text of its own gets the coder's."""
    folder = resources.files("flyball.acts").joinpath("prompts")
    file = folder.joinpath(f"{role}.md")
    return (file if file.is_file() else folder.joinpath("coder.md")).read_text("utf-8").strip()


def _plan(run: Run, role: str) -> str:
    """The plan file that the task carries out, and what a planner made of it."""
    file = f"The task carries out the plan in {run.plan_file}. Read it first." if run.plan_file else ""
    return "\n\n".join(part for part in (file, run.talk.plan if role != "planner" else "") if part)


def _governance(run: Run, role: str) -> str:
    """CTO-2: the files that a plan of `up` must follow."""
    names = run.settings.governance if role == "planner" and run.machine.supervises else ()
    return f"Read these files first. The plan must follow them: {', '.join(names)}" if names else ""


def _role(role: str, instructions: str, why: str, few_hosts: bool) -> str:
    text = shipped(PLAN_REVIEW) if why == PLAN_REVIEW else shipped(role)
    duty = instructions.strip().replace("{shipped}", text) or text
    alone = f"You are the {role} in an unattended run: nobody is there to answer while you work."
    rules = READ_ONLY if role in READ_ONLY_ROLES else LIMITS
    return "\n\n".join((alone, duty, rules, *([SANDBOX] if few_hosts else [])))


def _failing(run: Run, act: e.Act) -> str:
    """The failing tests of this very tree, with their output unless it has just been given."""
    proof = run.evidence.proof
    if proof is None or proof.passed or proof.tree != run.tree:
        return ""
    names = (proof.failing_tests or failing_names(proof.summary))[:NAMES_MOST]
    listed = "\n".join(f"- {name}" for name in names)
    repeated = any(proof.summary in text for text in act.told)
    return listed if repeated else "\n\n".join(part for part in (listed, proof.summary) if part)


def _failed_before(run: Run, role: str) -> str:
    """What failed in the last proof, if the files have changed since; reviewing roles look at the change itself."""
    proof = run.evidence.proof
    if proof is None or proof.passed or proof.tree == run.tree or role in JUDGING_ROLES:
        return ""
    return f"The checks have not run since. Run them to see what fails now.\n\n{proof.summary}"


def _findings(run: Run) -> str:
    open_findings = [f for f in run.findings if f.status not in CLOSED]
    return "\n".join(f"- {f.id} ({f.severity}) {f.file}:{f.line} {f.text}".strip() for f in open_findings)


def _change(diff: str) -> str:
    """The change itself, as far as it fits."""
    if not diff.strip():
        return "No file has been changed."
    rest = "" if len(diff) <= DIFF_MOST else "\n… The rest is left out; `git diff` shows it."
    return f"`git status` and `git diff` show it too.\n\n```diff\n{diff[:DIFF_MOST].rstrip()}\n```{rest}"


def _proof(run: Run) -> str:
    """How the proof of this very tree ended."""
    proof = run.evidence.proof
    if proof is None or proof.tree != run.tree:
        return (
            "It has not run on this change yet; Flyball runs it before the run may end."
            if run.settings.proof
            else ""
        )
    before = f" Before the run, {run.evidence.baseline} failed." if run.evidence.baseline else ""
    return (
        f"All checks passed on exactly this change.{before}"
        if proof.passed
        else f"It failed:\n\n{proof.summary}"
    )


def _checks(run: Run) -> str:
    if not run.settings.proof:
        return ""
    commands = "\n".join(f"    {command}" for command in run.settings.proof)
    return f"Flyball runs these commands in a clean checkout of your files. All of them must exit 0:\n\n{commands}"


def _how_to_report(run: Run, act: e.Act, role: str, tools: bool) -> str:
    plans = tools and role == "planner" and run.machine.supervises
    parts = (
        _report(run, act, role),
        STEPS if plans else "",
        TOOLS.format(claim=CLAIMS.get(role, CLAIM)) if tools else "",
    )
    return "\n\n".join(part for part in parts if part)


def _report(run: Run, act: e.Act, role: str) -> str:
    if role == "worker":
        return LOOP_STATUS.format(turn=act.turn, state=run.state)
    if role in PAIR:
        description = PAIR[role].format(done=run.settings.done_word)
        return f"{description}\n\n{ASK}" if role == "author" else description
    names = claimable(run)
    if len(names) < 2 and role not in JUDGING_ROLES:
        return ASK
    lines = "\n".join(f"    OUTCOME: {name}" for name in names)
    means = {name: when for name, when in MEANS.get(role, {}).items() if name in names}
    meanings = "\n".join(f"- {name}: {when}" for name, when in means.items())
    text = f"End your message with one of these, alone on the last line:\n\n{lines}"
    return "\n\n".join(part for part in (text, meanings, ASK) if part)


LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
SHOWN = 4
REFUSALS = "refused.jsonl"  # as the keeper names it
REFUSALS_MOST = 20
PAST_PROXY = {
    "tcp": "connected to {} past the proxy",
    "udp": "sent to {} past the proxy",
    "dns": "looked up {}",
}


class Network(Struct, frozen=True, kw_only=True):
    """`kind` is what the sandbox allows; `rules` are the proxy's; `why` says why it is wider than configured."""

    kind: str
    rules: dict[str, Any] | None = None
    bridges: tuple[str, ...] = ()
    why: str = ""


def network_of(run_files: RunFiles, run: Run, agent: str, variables: Mapping[str, str]) -> Network:
    """The network for a turn of this agent; `variables` is the environment that it gets."""
    if run.settings.network_agent != "model":
        return Network(kind=run.settings.network_agent)
    user = run_files.environment
    account = _account(agent)
    addresses_ = [] if without_model(agent) else [*addresses(account, agent, {**user, **variables})]
    addresses_ += configured(account, {**user, **variables})[0] if account else []
    own = list(dict.fromkeys([*run.settings.hosts, *run_files.allowed_hosts(run), *addresses_]))
    if account is None and not own:
        return Network(kind="all", why="Flyball does not know which hosts it needs")
    if account is not None and not account.proxied:
        return Network(kind="all", why="it does not use a proxy")
    why = _unconfined(run_files, run)
    if why:
        return Network(kind="all", why=why)
    rules = {
        "hosts": list(account.hosts) if account else [],
        "own": own,
        "sources": package_sources.hosts(user),
        "upstream": _upstream(user),
    }
    here = [where for where in own if where.rpartition(":")[0] in LOOPBACK]
    return Network(kind="model", rules=rules, bridges=tuple(here))


def _account(agent: str) -> Account | None:
    return None if without_model(agent) else account_of(agent)


def _unconfined(run_files: RunFiles, run: Run) -> str:
    sandbox = run_files.sandbox_of(run)
    if sandbox.kind == "none":
        return "there is no sandbox"
    if sandbox.kind == "landlock" and landlock.abi() < landlock.TCP_ABI:
        return "Landlock has no rules for the network in this kernel"
    return ""


def _upstream(user: Mapping[str, str]) -> str:
    """The proxy that this machine itself uses, if it is one that we can speak to."""
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        if urlsplit(user.get(name, "")).scheme == "http":
            return user[name]
    return ""


# ---- what is said about it -----------------------------------------------------------------------------------


def notes(run_files: RunFiles, run: Run) -> list[str]:
    """Notes about each agent, shown at the start of a run."""
    if run.settings.network_agent != "model":
        return []
    agents = sorted({*run.settings.agents.values(), *run.settings.fallback})
    outside = [agent for agent in agents if not without_model(agent)]
    texts = (_note(name_of(agent), network_of(run_files, run, agent, {})) for agent in outside)
    return list(dict.fromkeys(texts))


def _note(name: str, network: Network) -> str:
    if network.rules is None:
        return f"{name} can reach any host: {network.why}."
    hosts = list(dict.fromkeys([*network.rules["own"], *network.rules["hosts"]]))
    more = f" and {len(hosts) - SHOWN} more" if len(hosts) > SHOWN else ""
    return f"{name} can reach {', '.join(hosts[:SHOWN])}{more}, and no other host."


def refusals(folder: Path) -> tuple[str, ...]:
    """What the proxy of an act refused, as sentences; control characters from the agent are removed."""
    try:
        lines = (folder / REFUSALS).read_text("utf-8", "replace").splitlines()
    except OSError:
        return ()
    sentences = [_refusal(json.loads(line)) for line in lines[:REFUSALS_MOST]]
    more = len(lines) - REFUSALS_MOST
    return (*sentences, *([f"Refused {more} more hosts."] if more > 0 else []))


def _refusal(record: Mapping[str, Any]) -> str:
    name = f"[{record['host']}]" if ":" in record["host"] else str(record["host"])
    where = name if record["how"] == "dns" else f"{name}:{record['port']}"
    who = one_line(whole(redact(str(record["command"]))), COMMAND_MOST) or "The agent"
    deed = PAST_PROXY.get(record["how"], "wanted {}").format(whole(where)[:300])
    return f"{who} {deed}: refused, nothing was sent."


COMMAND_MOST = 60  # a prompt on the command line must not hide which host was wanted
HELPER_S = 30
KEY_MOST = 10_000


class Access(Struct, frozen=True, kw_only=True):
    network: Network
    env: dict[str, str] = {}
    programs: tuple[str, ...] = ()
    reads: tuple[Bind, ...] = ()
    writes: tuple[Bind, ...] = ()
    login: dict[str, Any] | None = None


def access_of(run_files: RunFiles, run: Run, agent: str, home: Path, variables: Mapping[str, str]) -> Access:
    """What a turn of this agent gets in that private home; `variables` is the environment that its adapter sets."""
    user, account = run_files.environment, _account(agent)
    more = run.settings.lent.get(name_of(agent), Lent())
    mounted = run_files.mounted(run)
    env = _env(account, user, (*run.settings.pass_env, *more.env), variables)
    network = network_of(run_files, run, agent, {**env, **variables})
    return Access(
        network=network,
        env={**(package_sources.variables(user) if network.rules else {}), **env},
        programs=tuple(words_of(agent)),
        reads=tuple(_binds(more.reads, user, home, mounted)),
        writes=tuple(_binds(more.writes, user, home, mounted)),
        login=_lend(run_files, account, home, variables),
    )


# ---- variables -----------------------------------------------------------------------------------------------


def _env(
    account: Account | None, user: Mapping[str, str], names: tuple[str, ...], extra: Mapping[str, str]
) -> dict[str, str]:
    passed = {name: user[name] for name in names if name in user}
    if account is None:
        return passed
    keys = {name: user[name] for name in configured(account, user)[1] if name in user}
    values = {**variables(account, {**_of_files(account, user), **user}), **keys}
    return {**_from_helper(account, user, {**values, **passed, **extra}), **values, **passed}


def _of_files(account: Account, user: Mapping[str, str]) -> dict[str, str]:
    """Variables that the user has set in the agent's own settings file (`env` of Claude's settings.json)."""
    if account.helper is None:
        return {}
    env: object = _settings(account.helper[0], user).get("env")
    return (
        {k: v for k, v in cast("dict[str, Any]", env).items() if isinstance(v, str)}
        if isinstance(env, dict)
        else {}
    )


def _from_helper(account: Account, user: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """An API key that a command of the user prints. It runs outside the sandbox, because it may need a password
    manager.
    """
    if account.helper is None or any(
        name in values for name in account.env if name.endswith(("_KEY", "_TOKEN"))
    ):
        return {}
    file, key, variable = account.helper
    command = _settings(file, user).get(key)
    if not isinstance(command, str) or not command.strip():
        return {}
    try:
        process = subprocess.run(
            ["/bin/sh", "-c", command],
            env=dict(user),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HELPER_S,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as problem:
        raise Gone(f"{key} in ~/{file} could not be run: {type(problem).__name__}") from None
    answer = process.stdout.strip()
    if process.returncode != 0 or not answer or len(answer) > KEY_MOST:
        raise Gone(f"{key} in ~/{file} printed no key (exit code {process.returncode})")
    return {variable: answer}


def _settings(path: str, user: Mapping[str, str]) -> dict[str, Any]:
    try:
        return as_object(Path(user.get("HOME", "/nowhere"), path).read_bytes()) or {}
    except OSError:
        return {}


# ---- files ---------------------------------------------------------------------------------------------------


def _binds(paths: tuple[str, ...], user: Mapping[str, str], home: Path, mounted: bool) -> Iterator[Bind]:
    """Each path where it is, and what is in the user's home also in the private one, where the agent looks for it."""
    whole = user.get("HOME", "/nowhere")
    for text in paths:
        real = Path(whole, text[2:]) if text.startswith("~/") else Path(text)
        if not real.exists():
            continue
        yield str(real), str(real)
        if not real.is_relative_to(whole):
            continue
        place = home / real.relative_to(whole)
        if mounted:
            yield str(real), str(place)
        elif not os.path.lexists(place):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.symlink_to(real)


def _lend(
    run_files: RunFiles, account: Account | None, home: Path, variables: Mapping[str, str]
) -> dict[str, Any] | None:
    """Lend the login, and return how the keeper writes it back; None if there is none."""
    user = run_files.environment
    files = account.files if account else ()
    lent = [
        [str(theirs(file, user)), ours, file.rotates, list(file.only)]
        for file in files
        if (ours := _ours(file, home, variables)) and theirs(file, user).exists()
    ]
    versions = ((Path(user.get("HOME", "/nowhere"), path), path) for path in VERSIONS)
    lent += [[str(place), path, False, []] for place, path in versions if place.exists()]
    if not lent:
        return None
    ledger = home.with_name(f"{home.name}.lent.json")
    login = {
        "home": str(home),
        "ledger": str(ledger),
        "lock": str(run_files.state_dir / "login.lock"),
        "files": lent,
    }
    try:
        Login(login).share(lend=True)
    except OSError as problem:
        raise Gone(f"the login cannot be copied for the agent: {problem}") from None
    return login if any(file.rotates for file in files) else None


def _ours(file: LoginFile, home: Path, variables: Mapping[str, str]) -> str:
    """The path below the private home; "" if the adapter has put the agent's folder elsewhere."""
    moved = variables.get(file.moved) if file.moved else None
    if not moved:
        return file.path
    place = Path(moved, file.rest)
    return str(place.relative_to(home)) if place.is_relative_to(home) else ""
