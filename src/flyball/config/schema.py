"""Every setting: what it takes, what it does, and when a change of it loosens a rule. A key not listed is refused.

To add a setting, write a row here, a field with its default in `domain/settings.py`, and the code that reads it.
`flyball config`, `flyball init`, `flyball trust`, the environment variables and the table in docs/configuration.md
all follow from the row.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import cast

from msgspec import Struct

from flyball.config import cron, loosening, values
from flyball.config.loosening import Looser, never
from flyball.config.values import (
    ROLES,
    Choice,
    Count,
    Duration,
    Flag,
    Kind,
    Money,
    Text,
    Texts,
    Value,
    matching,
    parse_agent,
)
from flyball.domain.machine import NAME, WORKERS, Machine
from flyball.domain.settings import DAY, Settings

NAMES = "made of letters, digits, '_' and '-'"
NETWORKS = ("none", "loopback", "all")  # each wider than the one before
AGENT_NETWORKS = ("none", "loopback", "model", "all")
VIEWS = ("strict", "normal")


class Key(Struct, frozen=True):
    """One setting. `field` is where it goes in Settings ("" if it has no field of its own)."""

    field: str
    kind: Kind
    doc: str
    looser: Looser = never
    holds: str = (
        ""  # "commands" or "agents": values that run programs, which a tracked file may not add unasked
    )


def _agent(text: str) -> str:
    return str(parse_agent(text))


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise values.BadValue(f"a list of states {NAMES}")
    return text


AGENT = Key("", Text(_agent, "an agent"), "The agent that plays a role.", holds="agents")
MACHINE_NAME = matching(NAME.pattern, f"the name of a machine, {NAMES}")
POLICY_NAME = matching(NAME.pattern, f"the name of a policy, {NAMES}")
COMMANDS = Texts(values.command, "commands")
DONE_WORD = matching(
    r"[A-Z][A-Z0-9_-]{0,31}", "one upper-case word other than PASS and FAIL", but=("PASS", "FAIL")
)
TOKENS = Count(most=10**12, none=True)
SANDBOXES = Choice(("auto", "bwrap", "landlock", "none", "required"))

VARIABLES = Texts(values.variable, "names of environment variables", comma=True)
PLACES = Texts(values.place, "absolute paths or paths beginning with ~/")
LENT: dict[str, Key] = {  # of [agents.NAME]
    "env": Key("", VARIABLES, "Environment variables that this agent gets.", loosening.extended),
    "reads": Key(
        "", PLACES, "Files and folders outside the checkout that this agent may read.", loosening.extended
    ),
    "writes": Key(
        "", PLACES, "Files and folders outside the checkout that this agent may write.", loosening.extended
    ),
}

KEYS: dict[str, Key] = {
    "proof.commands": Key(
        "proof",
        COMMANDS,
        "Commands that must all exit 0 before a run may succeed; with none, a run ends as unproven.",
        loosening.removed,
        holds="commands",
    ),
    "proof.timeout": Key(
        "proof_timeout_us", Duration(), "A proof command that takes longer fails.", loosening.more
    ),
    "proof.require": Key(
        "proof_require",
        Choice(("all", "no-worse")),
        'What a proof needs: "all" commands exit 0; "no-worse" is for projects that are red at the start: every test '
        "that passed before passes, and at least one that failed passes now.",
        loosening.only(loose="no-worse"),
    ),
    "proof.tests": Key(
        "proof_tests",
        Texts(values.inside, "patterns", comma=True),
        "More files that belong to the tests, as patterns such as checks/**: support files, data, scripts.",
    ),
    "proof.bite": Key(
        "proof_bite",
        Choice(("always", "auto", "never")),
        "Break the change on purpose before a run ends, to see whether the proof notices: always, never, or (auto) "
        "where a proof takes under two minutes or no test is known to need the change.",
        loosening.later(("always", "auto", "never")),
    ),
    "proof.repeat": Key(
        "proof_repeat",
        Count(least=1, most=20),
        "How often a test that failed before the change must pass after it.",
        loosening.fewer,
    ),
    "workspace.setup": Key(
        "setup",
        COMMANDS,
        "Commands to run once in each new checkout, for example to install dependencies.",
        holds="commands",
    ),
    "workspace.share": Key(
        "share",
        Texts(values.inside, "folders", comma=True),
        "Folders of the repository to share with checkouts, read-only, such as .venv or node_modules.",
    ),
    "workspace.ignore": Key(
        "ignore",
        Texts(values.inside, "patterns", comma=True),
        "Files that the tests write, as in .gitignore. They are not part of a change, and a proof may create them.",
        loosening.extended,
    ),
    "run.machine": Key(
        "", MACHINE_NAME, "The machine that a run uses: build, loop, review, task or your own."
    ),
    "run.write": Key(
        "write",
        Choice(("turn", "loop")),
        'In build, write and fix are one agent turn each; "loop" makes each a run of loop.',
    ),
    "run.breakpoints": Key(
        "breakpoints",
        Texts(_name, "states", comma=True),
        "States to pause after, before the next state is entered.",
        loosening.removed,
    ),
    "run.require_test_pass": Key(
        "require_test_pass",
        Flag(),
        "false skips the test state of build; the final proof always runs.",
        loosening.only(loose=False),
    ),
    "run.review": Key(
        "review",
        Choice(("unless-done", "always")),
        '"always" asks the reviewer even when the author is done and the proof passes.',
        loosening.all_but("always"),
    ),
    "run.consensus": Key(
        "consensus",
        Flag(),
        "In review, author and reviewer swap places until both accept the same tree.",
        loosening.only(loose=False),
    ),
    "run.done_word": Key("done_word", DONE_WORD, "The word that an author writes alone on the last line."),
    "run.indicators": Key(
        "indicators",
        Texts(values.phrase, "phrases of two words or more", comma=True),
        "More phrases that count as completion indicators in loop.",
        loosening.extended,
    ),
    "run.commit": Key(
        "commit",
        Choice(("branch", "merge", "pr")),
        '"branch" leaves the result on flyball/RUN; "merge" also lands it on your branch; "pr" opens a pull request.',
        loosening.all_but("branch"),
    ),
    "forge.remote": Key(
        "remote",
        matching(r"[A-Za-z0-9_.][A-Za-z0-9_./-]{0,99}", "the name of a remote"),
        "The remote that branches of pull requests are pushed to.",
        holds="commands",
    ),
    "forge.repository": Key(
        "forge",
        matching(r"([A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100})?", "OWNER/NAME"),
        "The repository on GitHub, if the address of the remote does not name it.",
        holds="commands",
    ),
    "budget.usd": Key(
        "budget.uusd",
        Money(),
        "Dollars for a run and its child runs; checked before each turn.",
        loosening.more,
    ),
    "budget.tokens": Key("budget.tokens", TOKENS, "Tokens for a run and its child runs.", loosening.more),
    "budget.wall": Key(
        "budget.wall_us",
        Duration(least=0, none=True),
        "Working time of a run; waiting for you or for a rate limit does not count.",
        loosening.more,
    ),
    "budget.day_usd": Key(
        "budget.day_uusd", Money(), "Dollars for all runs together in the last 24 hours.", loosening.more
    ),
    "budget.day_tokens": Key(
        "budget.day_tokens", TOKENS, "Tokens for all runs together in the last 24 hours.", loosening.more
    ),
    "budget.week_usd": Key(
        "budget.week_uusd", Money(), "Dollars for all runs together in the last 7 days.", loosening.more
    ),
    "budget.week_tokens": Key(
        "budget.week_tokens", TOKENS, "Tokens for all runs together in the last 7 days.", loosening.more
    ),
    "budget.plan_percent": Key(
        "budget.plan_percent",
        Count(least=1, most=100, none=True),
        "Percent of your plan's usage window that a run may use, if the agent reports it; then it waits for the next window.",
        loosening.more,
    ),
    "task.plan": Key(
        "plan_file",
        matching(r"(?!(.*/)?\.{1,2}(/|$))[^/\0][^\0]*|", "a path inside the repository"),
        "The plan file of the repository that a task run carries out; the cto role reviews the code base first.",
    ),
    "up.parallel": Key("parallel", Count(least=1, most=16), "Plans that `flyball up` works on at once."),
    "up.schedule": Key(
        "schedule",
        Texts(cron.line, "lines such as '0 3 * * 1 Update the dependencies'"),
        "What `flyball up` starts by the clock: five cron fields (UTC), then the task.",
        holds="commands",
    ),
    "up.health": Key(
        "health_us",
        Duration(),
        "How often `flyball up` checks its plans against git, budgets and the files that it writes.",
    ),
    "up.webhook": Key(
        "webhook",
        matching(r"((127\.0\.0\.1|localhost):[0-9]{1,5})?", "a loopback address such as 127.0.0.1:8787"),
        "Where `flyball up` takes triggers over HTTP, signed with FLYBALL_WEBHOOK_SECRET.",
        never,
    ),
    "up.github": Key(
        "github",
        matching(r"([A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100})?", "OWNER/NAME"),
        "The GitHub repository whose open issues with the label `up.github_label` become tasks.",
        holds="commands",
    ),
    "up.github_label": Key(
        "github_label",
        matching(r"[^\n]{1,100}", "the name of a label"),
        "The label of issues that become tasks.",
        holds="commands",
    ),
    "up.poll": Key("poll_us", Duration(), "How often to look for issues."),
    "up.governance": Key(
        "governance",
        Texts(values.inside, "files", comma=True),
        "Files that planners must follow; each plan records their hashes.",
        loosening.removed,
    ),
    "up.approve_usd": Key(
        "approve_uusd", Money(), "A plan with a higher cost estimate waits for your approval.", loosening.more
    ),
    "up.approve_tokens": Key(
        "approve_tokens", TOKENS, "A plan that needs more tokens waits for your approval.", loosening.more
    ),
    "rate_limit.retry_every": Key(
        "retry_every_us", Duration(), "How often to try again when a limit does not say when it resets."
    ),
    "rate_limit.fallback": Key(
        "fallback",
        Texts(_agent, "agents"),
        "Agents to use, in this order, while another is rate-limited.",
        holds="agents",
    ),
    "retention.auto": Key(
        "retention.auto",
        Flag(),
        "Prune at the end of a run, at most once a day; false: only `flyball prune` does.",
        loosening.only(loose=True),
    ),
    "retention.age": Key(
        "retention.age_us",
        Duration(least=0),
        "An ended run older than this loses its working files; its logs are compressed, a merged branch is deleted.",
        loosening.less,
    ),
    "retention.size_mb": Key(
        "retention.size_mb",
        Count(most=10**9, none=True),
        "If the ended runs of a repository hold more than this many megabytes, the oldest are pruned earlier.",
        loosening.less,
    ),
    "retention.runs": Key(
        "retention.runs_us",
        Duration(least=30 * DAY, none=True),
        "An ended run older than this is removed from the journal too, if its result is merged or it had none.",
        loosening.less,
    ),
    "guard.policy": Key(
        "policy",
        POLICY_NAME,
        "The policy to apply: default, or one from .flyball/policy.toml.",
        loosening.differs,
    ),
    "guard.sandbox": Key(
        "sandbox",
        SANDBOXES,
        "auto uses bubblewrap, else Landlock, else none; required refuses to run without one.",
        loosening.weaker_sandbox,
    ),
    "guard.processes": Key(
        "processes",
        Count(least=64, most=10**6),
        "An agent or proof with more processes than this at once is stopped as a fork bomb.",
        loosening.more,
    ),
    "guard.network.agent": Key(
        "network_agent",
        Choice(AGENT_NETWORKS),
        "What agents may reach in the sandbox. model: the agent's own provider and guard.hosts, through a proxy; "
        "all where its provider is not known.",
        loosening.later(AGENT_NETWORKS),
    ),
    "guard.network.proof": Key(
        "network_proof",
        Choice(NETWORKS),
        "What proof commands may reach in the sandbox.",
        loosening.later(NETWORKS),
    ),
    "guard.hosts": Key(
        "hosts",
        Texts(values.host, "hosts", comma=True),
        "Further hosts that agents may reach with network model, such as docs.python.org or *.example.com:8443.",
        loosening.extended,
    ),
    "guard.view": Key(
        "view",
        Choice(VIEWS),
        "What agents and proofs may read. strict: only the checkout, the system's programs, toolchains and the login.",
        loosening.later(VIEWS),
    ),
    "inbox.remind": Key(
        "remind_us", Duration(), "You are reminded of an open question each time this much time has passed."
    ),
    "inbox.defaults": Key(
        "defaults",
        Texts(values.default_answer, "lines such as 'loop go-on after 8h'"),
        "Answers that Flyball gives if nobody answers in time, as KIND VERB after DURATION, and TEXT for answer and redirect.",
        loosening.extended,
    ),
    "notify.urls": Key(
        "notify",
        Texts(values.address, "addresses"),
        "Where people are notified, as Apprise addresses such as mailto://… or slack://… (extra: flyball[notify]).",
        loosening.extended,
    ),
    "guard.pass_env": Key(
        "pass_env",
        VARIABLES,
        "Environment variables that every agent gets; --pass-env adds one.",
        loosening.extended,
    ),
}

SOME, ANY = Count(least=1), Count()
LIMITS: dict[str, Key] = {  # over the machine's own table; `limits_of` says which of them a machine has
    "iterations": Key("", SOME, "Entries to the machine's iteration state (write in build).", loosening.more),
    "turns": Key("", SOME, "Agent turns.", loosening.more),
    "fix": Key(
        "",
        ANY,
        "Entries to fix in one iteration; likewise any state in the machine's [most].",
        loosening.more,
    ),
    "no_progress": Key("", SOME, "Turns in a row without progress.", loosening.more),
    "same_error": Key("", SOME, "Turns in a row with the same error.", loosening.more),
    "probe": Key(
        "", ANY, "Changed turns without a proof after which the files are proved; 0: never.", loosening.rarer
    ),
    "same_action": Key("", SOME, "Identical tool calls in a row with the same result.", loosening.more),
    "calls": Key("", SOME, "Tool calls in one turn.", loosening.more),
    "call_errors": Key("", SOME, "The same error from tool calls of one turn.", loosening.more),
    "retries": Key("", Count(most=100), "Failed turns in a row that are tried again.", loosening.more),
    "failures": Key(
        "", Count(least=1, most=3), "Failures in one state before it is escalated.", loosening.more
    ),
    "cto": Key("", Count(most=2), "Recoveries by the cto role in one task.", loosening.more),
    "phase_timeout": Key("", Duration(), "Time limit for each turn, proof or other act.", loosening.more),
    "idle_timeout": Key("", Duration(), "An agent without output for this long has hung.", loosening.more),
    "cooldown": Key(
        "",
        Duration(none=True, never=0),
        "After this long an open circuit tries one turn without an answer.",
        loosening.sooner,
    ),
}
WITHIN = Key("", Duration(), "Time limit for one state, over its [within].", loosening.more)
ALERT = Key("", Duration(), "Warn after this long in one state, over its [alert].", loosening.more)
STATE_COUNT = Key("", ANY, "Entries to this state in one iteration.", loosening.more)

SECTIONS = tuple(dict.fromkeys(["agents", "limits", *(key.split(".")[0] for key in KEYS)]))


def key_of(key: str, machines: Collection[str]) -> Key | None:
    """The row of this key; None if there is no such key."""
    if key in KEYS:
        return KEYS[key]
    section, _, rest = key.partition(".")
    if section == "agents":
        return AGENT if rest in ROLES else _lent(rest)
    return _limit(split_limit(key, machines)[1]) if section == "limits" else None


def _lent(rest: str) -> Key | None:
    name, _, field = rest.partition(".")
    return LENT.get(field) if NAME.fullmatch(name) and name not in ROLES else None


def _limit(name: str) -> Key | None:
    """Any state may have a limit in a machine's [most]; `refuse_unknown_limits` checks it against the machine."""
    table, dot, state = name.partition(".")
    if dot:
        row = {"within": WITHIN, "alert": ALERT}.get(table)
        return row if NAME.fullmatch(state) else None
    return LIMITS.get(name) or (STATE_COUNT if NAME.fullmatch(name) else None)


def limits_of(machine: Machine) -> list[str]:
    """The names of the limits that do something in this machine."""
    states = machine.states.values()
    roles = {state.of for state in states if state.act == "agent"}
    keys = [
        "phase_timeout",
        *(["turns", "calls", "call_errors", "same_action", "retries", "idle_timeout"] if roles else []),
    ]
    keys += ["iterations"] if machine.iteration else []
    stalls = [s for s in states if s.of in WORKERS and machine.place(s.name, "stalled")]
    keys += ["no_progress", "same_error"] if stalls else []
    asks = [s for s in stalls if _asks(machine, machine.place(s.name, "stalled"))]
    keys += ["cooldown"] if asks else []
    keys += ["failures"] if any(machine.place(s.name, "third_failure") for s in states) else []
    keys += ["cto"] if "cto" in roles else []
    within = [f"within.{state.name}" for state in states if state.do]
    alert = [f"alert.{state.name}" for state in states if state.do]
    return [*dict.fromkeys((*keys, *machine.most)), *within, *alert]


def _asks(machine: Machine, target: str) -> bool:
    return target in machine.states and machine.states[target].act == "ask"


def split_limit(key: str, machines: Collection[str]) -> tuple[str, str]:
    """`limits.loop.turns` as ("loop", "turns"); `limits.turns` as ("", "turns")."""
    rest = key.removeprefix("limits.")
    machine, _, name = rest.partition(".")
    return (machine, name) if machine in machines else ("", rest)


def is_table(name: str, machines: Collection[str]) -> bool:
    """Whether there may be keys below this name."""
    if name.startswith("limits."):
        return split_limit(name + ".", machines)[1] in ("", "within.", "alert.")
    section, _, agent = name.partition(".")
    if section == "agents" and agent:
        return agent not in ROLES and bool(NAME.fullmatch(agent))
    return name in SECTIONS or name == "guard.network"


def known(machines: Collection[str]) -> list[str]:
    """All keys by name, except those that name a state."""
    return [
        *KEYS,
        *(f"agents.{role}" for role in ROLES),
        *(f"limits.{name}" for name in LIMITS),
        *(f"limits.{machine}.{name}" for machine in machines for name in LIMITS),
    ]


def defaults() -> dict[str, Value]:
    """Every key that has a value before anyone sets one."""
    return {"run.machine": "build"} | {key: _default(row.field) for key, row in KEYS.items() if row.field}


def _default(field: str) -> Value:
    value: object = Settings()
    for name in field.split("."):
        value = getattr(value, name)
    return cast("Value", value)


def documentation() -> list[tuple[str, str, str]]:
    """(key, default, what it does) for every setting: the table in docs/configuration.md."""
    plain = defaults()
    rows = [("agents.default", "", "The agent for every role without its own. There is no default.")]
    rows += [("agents.ROLE", "agents.default", f"The agent for one role: {', '.join(ROLES[:-1])}.")]
    rows += [(f"agents.NAME.{field}", "[]", row.doc) for field, row in LENT.items()]
    rows += [(key, written(row.kind, plain[key]), row.doc) for key, row in KEYS.items()]
    rows += [(f"limits.{name}", "from the machine", row.doc) for name, row in LIMITS.items()]
    special = (("limits.within.STATE", WITHIN), ("limits.alert.STATE", ALERT))
    return [*rows, *((name, "from the machine", row.doc) for name, row in special)]


def written(kind: Kind, value: Value) -> str:
    """A value as TOML has it."""
    text = kind.show(value)
    bare = isinstance(kind, Money) and text != values.NONE
    return str(text) if bare else json.dumps(text, ensure_ascii=False)
