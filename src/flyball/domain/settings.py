"""The settings of a run, and the units that they are written in. They are part of its first event and never change.

A duration is a whole number of microseconds, written `90s`, `1h30m`, `2d`; money is a whole number of micro-dollars. Any
order of units is read, since a journal may hold a table that was written so; the printed form has the largest first.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
MAX_US = 366 * DAY
UNITS = {"d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND}
_PART = re.compile(r"([0-9]{1,9})([dhms])")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def parse_duration(text: str) -> int | None:
    """Microseconds; None if the text is not a duration of at most 366 days."""
    if not _WHOLE.fullmatch(text):
        return None
    length = sum(int(count) * UNITS[unit] for count, unit in _PART.findall(text))
    return length if length <= MAX_US else None


def show_duration(us: int) -> str:
    """Exact to the second: `1d2h3m4s`. `parse_duration` reads it back."""
    parts: list[str] = []
    for unit, size in UNITS.items():
        count, us = divmod(us, size)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


def elapsed(us: int) -> str:
    """How long something took: `0.4s`, `42s`, `3m10s`, `2d4h`."""
    return f"{max(us, 0) // 100_000 / 10:.1f}s" if us < 10 * SECOND else rough(us)


def rough(us: int) -> str:
    """Whole seconds, in at most two units: for ages and countdowns."""
    us = max(us, 0)
    smallest = next((size // step for size, step in ((DAY, 24), (HOUR, 60)) if us >= size), SECOND)
    return show_duration(us - us % smallest)


def dollars(uusd: int) -> str:
    """`$0.021`: at least two decimals, and all that matter."""
    whole, rest = divmod(abs(uusd), 1_000_000)
    cents = f"{rest:06d}".rstrip("0").ljust(2, "0")
    return f"{'-' if uusd < 0 else ''}${whole}.{cents}"


# ---- settings ----------------------------------------------------------------------------------------------


DOLLAR = 1_000_000


class Budget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a top-level run may use. Zero allows nothing at all; None means no limit."""

    uusd: int | None = 5 * DOLLAR
    tokens: int | None = 2_000_000
    wall_us: int | None = 4 * HOUR
    day_uusd: int | None = None  # of all runs together, in the last 24 hours
    day_tokens: int | None = None
    week_uusd: int | None = None
    week_tokens: int | None = None
    plan_percent: int | None = None  # of the plan's own window, as the agent reports it

    @property
    def windows(self) -> bool:
        """Whether the spending of other runs limits this one."""
        limits = (self.day_uusd, self.day_tokens, self.week_uusd, self.week_tokens)
        return any(limit is not None for limit in limits)


class Retention(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How long the files of ended runs are kept. Only pruning reads it; no run depends on it."""

    auto: bool = True  # prune by itself, at most once a day
    age_us: int = 7 * DAY
    size_mb: int | None = 2_000  # of one repository's ended runs
    runs_us: int | None = None  # None: the journal keeps every run


class CallLimits(Struct, frozen=True):
    """How many tool calls of one turn are too many; a rule fires when the count is greater (CTO-9)."""

    same_call: int = 3
    same_error: int = 5
    cycles: int = 4
    warn: int = 300
    halt: int = 600


INDICATORS_MIN = 2  # how many different indicators a claim to be done needs at least
INDICATORS = (  # what an agent may say to claim that it is done (LOOP-1); `reading.indicators` finds them
    *(
        "task complete",
        "implementation finished",
        "pr merged",
        "all done",
        "no more work",
        "ready for review/merge",
    ),
    *(
        "all tests passing",
        "pr approved",
        "ci/cd checks passed",
    ),  # these count only as ticked boxes of a checklist
)


class Lent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one agent gets from the user's environment and files, besides what Flyball gives it by default."""

    env: tuple[str, ...] = ()  # names of variables, never their values
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


class Settings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of one run, pinned at its start (defaults < user < repository < environment < flags)."""

    agents: dict[str, str] = {}  # role -> agent, e.g. {"default": "script:agent.yaml"}
    proof: tuple[str, ...] = ()  # the commands that prove a tree
    proof_timeout_us: int = 10 * MINUTE
    proof_require: str = "all"  # or "no-worse": nothing that passed before fails now, and something is mended
    proof_tests: tuple[str, ...] = ()  # further paths on the test side
    proof_bite: str = "auto"  # auto | always | never: break the change on purpose at the gate
    proof_repeat: int = 3  # how often a test that failed before must pass
    setup: tuple[str, ...] = ()  # run once in each new checkout
    share: tuple[str, ...] = ()  # read-only folders of the repository
    ignore: tuple[str, ...] = ()  # patterns of files that tests write; they are not part of a change
    write: str = "turn"  # or "loop": each write and fix of build is a loop run
    breakpoints: tuple[str, ...] = ()
    require_test_pass: bool = True
    review: str = "unless-done"  # or "always"
    consensus: bool = False
    done_word: str = "DONE"
    indicators: tuple[str, ...] = ()  # phrases that count as completion indicators beside those of the list
    commit: str = "branch"  # or "merge", or "pr"
    remote: str = "origin"  # where a pull request is pushed to
    forge: str = ""  # OWNER/NAME on GitHub; "": as the remote's address says
    limits: dict[str, dict[str, int]] = {}  # machine -> key -> value, over the machine's own [most]
    timeouts_us: dict[
        str, dict[str, int]
    ] = {}  # machine -> phase_timeout | idle_timeout | cooldown | within.STATE | alert.STATE
    budget: Budget = Budget()
    retention: Retention = Retention()
    retry_every_us: int = 60 * SECOND
    fallback: tuple[str, ...] = ()
    policy: str = "default"
    policy_hash: str = ""
    sandbox: str = "auto"  # auto | bwrap | landlock | none | required
    processes: int = 4_096  # processes at once in one act; more is treated as a fork bomb
    network_agent: str = "model"  # none | loopback | model | all
    network_proof: str = "loopback"
    hosts: tuple[str, ...] = ()  # that agents may reach besides their model's
    view: str = (
        "normal"  # or "strict": nothing is readable but the checkout, system and toolchains, and the login
    )
    notify: tuple[str, ...] = ()  # addresses for Apprise; never pinned, since they hold passwords
    approve_uusd: int | None = 50 * DOLLAR  # a plan with a higher estimate needs approval
    approve_tokens: int | None = 1_000_000
    governance: tuple[str, ...] = ()  # files that planners must follow; their hashes are recorded
    remind_us: int = DAY  # an open question is asked again each time this much has passed
    defaults: tuple[str, ...] = ()  # "KIND VERB after DURATION TEXT": how an unanswered question is answered
    plan_file: str = ""  # the plan file that a `task` run carries out
    parallel: int = 1  # plans that `flyball up` works on at once
    schedule: tuple[str, ...] = ()  # "MINUTE HOUR DAY MONTH WEEKDAY what is to be done"
    health_us: int = 10 * MINUTE  # how often `flyball up` checks that the journal, git and GitHub agree
    webhook: str = ""  # where `flyball up` takes triggers over HTTP
    github: str = ""  # OWNER/NAME of the repository whose issues are tasks …
    github_label: str = "flyball"  # … if they have this label
    poll_us: int = 5 * MINUTE
    pass_env: tuple[str, ...] = ()  # names of variables that every agent gets
    lent: dict[str, Lent] = {}  # by the agent's name: claude, codex, gemini, aider …

    def agent_for(self, role: str) -> str:
        return self.agents.get(role) or self.agents.get("default", "")

    def limit(self, machine: str, key: str, default: int | None = None) -> int | None:
        return self.limits.get(machine, {}).get(key, default)

    def timeout_us(self, machine: str, key: str, default: int) -> int:
        return self.timeouts_us.get(machine, {}).get(key, default)


# ---- what an unanswered question comes to ------------------------------------------------------------------


TAKES_TEXT = ("answer", "redirect")
DEFAULTS: dict[
    str, tuple[str, ...]
] = {  # kind of question -> what its default answer may be; other kinds wait
    **dict.fromkeys(("approval", "evidence", "block", "permission"), ("reject",)),
    "clarification": ("answer", "redirect", "cancel"),
    "done": ("answer", "redirect", "cancel"),
    "breakpoint": ("go-on", "reject", "cancel"),
    "loop": ("go-on", "answer", "redirect", "retry", "cancel"),
    "infrastructure": ("go-on", "retry", "cancel"),
    "limit": ("go-on", "retry", "cancel"),
}


class Default(Struct, frozen=True):
    """One line of `inbox.defaults`. A default can refuse a change, a result or more money, but never allow it."""

    kind: str
    verb: str
    after_us: int
    text: str


@lru_cache(maxsize=64)
def parse_default(line: str) -> Default:
    """`clarification answer after 4h Decide yourself.`; a ValueError says what is wrong with it."""
    kind, verb, after, length, *text = [*line.split(None, 4), *[""] * 4][:5]
    if kind not in DEFAULTS:
        raise ValueError(f"questions of one of these kinds: {', '.join(DEFAULTS)} (others wait)")
    if verb not in DEFAULTS[kind]:
        raise ValueError(f"for {kind} one of: {', '.join(DEFAULTS[kind])}")
    words, after_us = text[0].strip(), parse_duration(length)
    if after != "after" or after_us is None or bool(words) != (verb in TAKES_TEXT):
        raise ValueError(f"'{kind} {verb} after 4h{' TEXT' if verb in TAKES_TEXT else ''}'")
    return Default(kind, verb, after_us, words)


def without_model(agent: str) -> bool:
    """mechanic and script agents use no model: they cost nothing and need no host."""
    return agent.partition(":")[0] in ("mechanic", "script")
