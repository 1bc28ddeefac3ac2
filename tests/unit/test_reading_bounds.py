"""Programs print megabytes of anything. Every reader of their output does a bounded, linear amount of work on it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from flyball.agents.limit_text import read_limit
from flyball.agents.reset_times import reset_at
from flyball.guard.secrets import redact
from flyball.reading import calls, indicators, prose, signals, terminal, test_output

RUNTIME = signals.Runtime()
READERS: dict[str, Callable[[str], object]] = {
    "failing": test_output.failing,
    "passing": test_output.passing,
    "failing_names": test_output.failing_names,
    "error_fingerprint": terminal.error_fingerprint,
    "message_fingerprint": terminal.message_fingerprint,
    "observe": lambda text: calls.observe(calls.CallWatch(), calls.Call("Bash", text, text, error=True)),
    "loop": lambda text: signals.read_output(text, dialect="loop", role="worker", runtime=RUNTIME),
    "review": lambda text: signals.read_output(text, dialect="review", role="reviewer", runtime=RUNTIME),
    "read_verdict": lambda text: prose.read_verdict(text, ("x", "a")),
    "read_outcome": lambda text: prose.read_outcome(text, ("x", "a")),
    "final_question": prose.final_question,
    "reported_error": prose.reported_error,
    "read_lines": test_output.read_lines,
    "lack": lambda text: test_output.lack(text, 1),
    "missing_names": test_output.missing_names,
    "red_ci": signals.red_ci,
    "named": lambda text: indicators.named([text]),
    "prose": prose.read,
    "spoken": prose.spoken,
    "plain": terminal.plain,
    "lines_of": terminal.lines_of,
    "redact": redact,
    "last_lines": lambda text: terminal.last_lines(text, 1_000_000, 2_000),
    "read_limit": lambda text: read_limit("claude", text, 0),
    "reset_at": lambda text: reset_at(text, 0),
}
PIECES = (
    *("\n", "\r", " \n", "a", "1", " ", ".", "-", "~", "[", "(", "{", "`", '"', "<", "#", "=", "\x1b["),
    *("a-", "a.", "a/", "C:\\", "` `` ", '"a b ', "<code>", "<!--", "~~a", "> ", "- ", "a\n", "a  "),
    *("<files>\n", "OUTCOME: x\n", "EXIT_SIGNAL: true\n", "if you say ", "no key ", "i cannot proceed "),
    *(
        "  FAIL [\n",
        "FAIL a [\n",
        "Ran 1 test in 1s\n\nFAILED (\n",
        "Summary [\n",
        "1 passed, ",
        "not ok 1 \\#\n",
    ),
    *('{"type":"text"}\n', '{"a":', "error: ", "you've hit your ", "reset 2026-01-01 ", "2026-01-01 "),
    *(f"Tests:{' ' * 5_000}x\n", f"pid{' ' * 1_900}\n", f"{'<code>' * 1_600}\n", f"{'if say ' * 1_400}:\n"),
)
SMALL, LARGE = 4_000, 32_000
GROWTH = 3 * LARGE / SMALL  # linear work grows 8 times; quadratic work, 64 times
LEAST_S = 0.003  # below this a clock tells nothing


@pytest.mark.sampled(8)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_work_grows_no_faster_than_the_text(reader: Callable[[str], object]) -> None:
    slow = [piece for piece in PIECES if not _is_linear(reader, piece)]
    assert not slow, f"more than linear work on repeated {[piece[:20] for piece in slow]}"


def _is_linear(reader: Callable[[str], object], piece: str) -> bool:
    """By CPU time, which other processes do not add to; a single slow moment is measured again."""
    for _ in range(3):
        small = max(LEAST_S, _cpu_s(reader, _repeated(piece, SMALL)))
        if _cpu_s(reader, _repeated(piece, LARGE)) <= GROWTH * small:
            return True
    return False


@pytest.mark.sampled(8)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_three_megabytes_cost_no_more_than_one(reader: Callable[[str], object]) -> None:
    """Readers with patterns read the end; the others only split or replace, at a few nanoseconds a character."""
    for piece in ("\n", "a", "[", "a.b/"):
        one = max(0.2, _cpu_s(reader, _repeated(piece, 1_000_000)))
        assert _cpu_s(reader, _repeated(piece, 3_000_000)) < 5 * one, f"unbounded work on {piece!r}"


def _repeated(piece: str, size: int) -> str:
    return (piece * (size // len(piece) + 1))[:size]


def _cpu_s(reader: Callable[[str], object], text: str) -> float:
    began = time.process_time()
    reader(text)
    return time.process_time() - began
