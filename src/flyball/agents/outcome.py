"""The result of an agent's process, in the same form for all agents (AGENT-2).

Laws:
- Facts that its command line states come first, then how the process ended, then words that the command line itself
  wrote. What the agent said, and what its tools printed, decides nothing here.
- Success needs both: the closing event that says so, and exit code 0.
"""

from __future__ import annotations

import json
import re
import time

from msgspec.structs import replace

from flyball.agents.adapter import AgentResult, Call, ended_badly
from flyball.agents.limit_patterns import STATUSES
from flyball.agents.limit_text import closing_report, read_limit
from flyball.agents.process import Exit
from flyball.domain.events import Usage
from flyball.reading import calls as watching
from flyball.reading.streams import Facts, read_stream
from flyball.reading.streams.goose_stream import FAILED_WHOLE
from flyball.reading.streams.stream_facts import Event
from flyball.reading.terminal import plain

MESSAGE_MOST = 20_000
CANNOT_RUN = (126, 127)
ENDED_BY_SIGNAL = (130, 137, 143)
CODES: dict[str, dict[int, str]] = {
    "gemini": {41: "auth", 53: "turn_limit", **{status - 256: kind for status, kind in STATUSES.items()}},
}
"""What an exit code says where nothing else does: Gemini's are its own, or an HTTP status modulo 256."""
LOST_SESSION = ("no conversation found with session id", "no rollout found for thread", "session not found")
TAIL_LINES = 12
NO_REASON = re.compile(r"Reading additional input from stdin")  # Codex always writes it
SPEAKERS = (
    "claude",
    "codex",
    "gemini",
    "opencode",
)  # they always say something when they have done their work
TURN_LIMITS = ("LimitsExceeded", "TimeExceeded")
UNREAD_STREAM = re.compile(r'\s*(?:\[\s*)?\{|.*^\{\s*"(?:type|jsonrpc|session_id)"', re.S | re.M)
AIDER_ANSWERED = re.compile(
    r"^Tokens: (?P<input>[\d.,]+k?) sent(?:, (?P<write>[\d.,]+k?) cache write)?(?:, (?P<read>[\d.,]+k?) cache hit)?"
    r", (?P<output>[\d.,]+k?) received\b.*?(?:\s+Cost: .*?, \$(?P<usd>[\d.]+) session)?", re.M
)  # fmt: skip
AIDER_FAILED = re.compile(r"^(?:litellm\.|Model \S+ has hit a token limit)", re.M)
MINI_FAILED = re.compile(r"litellm\.|[\w.]+(?:Error|Exception)\b")
MINI_ENDED = re.compile(r"^Exit:[ \t]*$", re.M)


def read_result(
    name: str,
    out: str,
    err: str,
    exit: Exit,  # noqa: A002
    now_us: int | None = None,
    zone: str = "UTC",
    *,
    may_be_silent: bool = False,
) -> AgentResult:
    """The result of one turn of the agent `name`, from everything that it wrote.

    `may_be_silent`: for any other program; it may have done its work without printing anything.
    """
    now_us = now_us or exit.started_at_us + exit.took_us or int(time.time() * 1_000_000)
    facts = read_stream(out, name)
    if facts is None and name == "gemini":  # `-o json` writes its errors there
        facts = read_stream(err, name)
    if facts is not None:
        return _from_stream(facts, err, exit, now_us, zone)
    reading = _from_text(name, plain(out), err, exit, now_us, zone)
    if reading.verdict == "ok" and _no_answer(name, out, may_be_silent):
        return replace(reading, verdict="unknown", error=_how(exit))
    return reading


def call_of(call: watching.Call) -> Call:
    return Call(tool=call.tool, input=call.input, result=call.result, error=call.error, writes=call.writes)


# ---- a known stream ------------------------------------------------------------------------------------------


def _from_stream(facts: Facts, err: str, exit: Exit, now_us: int, zone: str) -> AgentResult:  # noqa: A002
    kind, reset = _kind(facts, err, exit, now_us, zone)
    error = "" if kind == "ok" else facts.problem or _why(kind, facts.end, err, exit)
    return AgentResult(
        verdict=kind,
        message=facts.message,
        session=facts.session,
        usage=replace(facts.usage, cost_uusd=facts.cost_uusd or 0),
        priced="" if facts.cost_uusd is None else "reported",
        total_tokens=facts.total_tokens,
        total_uusd=facts.total_uusd,
        models=facts.models,
        model=facts.model,
        reset_at=reset,
        plan_percent=facts.plan_percent,
        plan_reset_at=facts.plan_reset_s * 1_000_000 if facts.plan_reset_s else None,
        error=error,
        calls=tuple(call_of(call) for call in (*facts.calls, *facts.running.values())),
        lost_session=facts.lost_session or _lost(facts.problem) or _lost(err),
    )


def _kind(facts: Facts, err: str, exit: Exit, now_us: int, zone: str) -> tuple[str, int | None]:  # noqa: A002
    forced = ended_badly(exit)
    if forced in ("timeout", "cannot_start") or exit.reason == "swarm":
        return forced, None
    if facts.end == "ok":
        return _claimed_success(exit, forced), None
    if facts.end:
        limit, reset = _limit_of(facts, facts.reports, now_us, zone)
        stated_end = facts.end if facts.end != "error" else ""
        kind = stated_end or limit or CODES.get(facts.dialect, {}).get(exit.code or 0, "unknown")
        return kind, (reset if not stated_end else None)
    if facts.retry is not None:  # it was waiting for the provider when it ended or was ended
        limit, reset = _limit_of(facts, [facts.retry], now_us, zone)
        if limit:
            return limit, reset
    limit, reset = read_limit(facts.dialect, err, now_us, zone)
    if limit:
        return limit, reset
    return (forced or "killed"), None


def _claimed_success(exit: Exit, forced: str) -> str:  # noqa: A002
    if forced == "hung" or exit.reason == "stopped" or exit.code == 0:
        return "ok"  # it had finished and only failed to exit
    return "killed" if forced or exit.code in ENDED_BY_SIGNAL else "unknown"


def _limit_of(facts: Facts, events: list[Event], now_us: int, zone: str) -> tuple[str | None, int | None]:
    """The limit that events report: the closing one, and those before it that explain it."""
    lines = "\n".join(json.dumps(event, ensure_ascii=False) for event in events)
    limit, reset = read_limit(facts.dialect, lines, now_us, zone)
    if limit == "plan_limit" and facts.refused_until_s:
        return limit, facts.refused_until_s * 1_000_000  # to the second; the words say it to the minute
    return limit, reset


def _lost(words: str) -> bool:
    return any(phrase in words.lower() for phrase in LOST_SESSION)


# ---- plain text ----------------------------------------------------------------------------------------------


def _from_text(name: str, out: str, err: str, exit: Exit, now_us: int, zone: str) -> AgentResult:  # noqa: A002
    verdict, reset, words = ended_badly(exit), None, _own_words(name, out, err, exit)
    if verdict in ("", "hung") or (name in OWN_WORDS and verdict == "killed"):
        limit, reset = read_limit(name, words, now_us, zone) if words else (None, None)
        verdict = limit or verdict or _by_code(name, exit)
    if verdict == "ok":
        verdict = _quiet_failure(name, out)
    error = "" if verdict == "ok" else exit.error or _last_line(err) or _last_line(out) or _how(exit)
    message = out.strip()[-MESSAGE_MOST:]
    used, uusd = _used(out) if name == "aider" else (Usage(), None)
    return AgentResult(
        verdict=verdict,
        message=message,
        error=error,
        reset_at=reset,
        lost_session=_lost(err),
        usage=replace(used, cost_uusd=uusd or 0),
        priced="" if uusd is None else "reported",
    )


def _no_answer(name: str, out: str, may_be_silent: bool) -> bool:
    """Nothing, or a stream that was cut before anything in it could be read."""
    silent = not (may_be_silent or out.strip())
    return name == "acp" or (name in SPEAKERS and (silent or UNREAD_STREAM.match(out) is not None))


def _own_words(name: str, out: str, err: str, exit: Exit) -> str:  # noqa: A002
    """What the program itself says about its end: never its model's words, nor the output of its tools."""
    if exit.code == 0 and not (name == "aider" or (name == "mini" and MINI_FAILED.match(_of_mini(out)))):
        return ""
    own = OWN_WORDS[name](out) if name in OWN_WORDS else closing_report(name, out) if exit.code else ""
    return "\n".join(_tail(own) + _tail(err))


def _tail(text: str) -> list[str]:
    """The end of what was said: what stands before it may be the agent's work. Indented lines are a traceback's."""
    return [line for line in text.splitlines() if line.strip() and not line[0].isspace()][-TAIL_LINES:]


def _of_aider(out: str) -> str:
    """It ends with exit code 0 whatever happened. An answer is followed by its tokens, an error is litellm's."""
    failed = list(AIDER_FAILED.finditer(out, _after(AIDER_ANSWERED, out) or 0))
    return out[failed[-1].start() :] if failed else ""


def _used(out: str) -> tuple[Usage, int | None]:
    """Aider names the tokens of each answer, rounded, and the cost of all of them if it knows the model's price."""
    used, uusd = Usage(), None
    for match in AIDER_ANSWERED.finditer(out):
        read, write = _tokens(match["read"]), _tokens(match["write"])
        used = used.plus(
            Usage(
                input_tokens=max(0, _tokens(match["input"]) - read - write),
                cache_write_tokens=write,
                cache_read_tokens=read,
                output_tokens=_tokens(match["output"]),
            )
        )
        uusd = round(float(match["usd"]) * 1_000_000) if match["usd"] else uusd
    return used, uusd


def _tokens(words: str | None) -> int:
    """`1.2k`, `12,345` as a number."""
    digits = (words or "0").replace(",", "")
    return round(float(digits.removesuffix("k")) * (1000 if digits.endswith("k") else 1))


def _of_mini(out: str) -> str:
    """It prints the whole conversation, and how it ended after that."""
    ended = _after(MINI_ENDED, out)
    return "" if ended is None else out[ended:].strip()


def _of_claude(out: str) -> str:
    """`claude -p` prints its last words alone; with an exit code they are the error."""
    return out


OWN_WORDS = {"aider": _of_aider, "mini": _of_mini, "claude": _of_claude}


def _after(pattern: re.Pattern[str], out: str) -> int | None:
    return next((match.end() for match in reversed(list(pattern.finditer(out)))), None)


def _quiet_failure(name: str, out: str) -> str:
    """A turn that ended with exit code 0 although the program says that it did not succeed."""
    if name == "aider" and _of_aider(out):
        return "unknown"
    ended = (_of_mini(out) or out.strip()) if name == "mini" else ""
    if (name == "mini" and MINI_FAILED.match(ended)) or (name == "goose" and FAILED_WHOLE.fullmatch(out)):
        return "unknown"
    return "turn_limit" if ended.startswith(TURN_LIMITS) else "ok"


def _by_code(name: str, exit: Exit) -> str:  # noqa: A002
    if exit.code == 0:
        return "ok"
    if exit.code in CODES.get(name, {}):
        return CODES[name][exit.code]
    if exit.code in ENDED_BY_SIGNAL:
        return "killed"
    return "cannot_start" if exit.code in CANNOT_RUN else "unknown"


def _why(kind: str, end: str, err: str, exit: Exit) -> str:  # noqa: A002
    if end:
        return f"its closing event says: {kind.replace('_', ' ')}"
    silent = exit.signal or (kind == "killed" and not exit.code)  # what stands on standard error is no reason
    return exit.error or ("" if silent else _last_line(err)) or _how(exit)


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip() and not NO_REASON.match(line)]
    return lines[-1].strip() if lines else ""


def _how(exit: Exit) -> str:  # noqa: A002
    if exit.signal is not None:
        return f"ended by signal {exit.signal}"
    return (
        f"ended with exit code {exit.code} and without a closing event"
        if exit.code == 0
        else f"exited with {exit.code}"
    )
