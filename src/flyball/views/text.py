"""Text for people: times, counts, money, tables, and agent output with terminal control characters removed."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from flyball.domain.results import Finding
from flyball.domain.settings import SECOND, dollars, without_model
from flyball.reading.terminal import plain, whole
from flyball.state.run import Run
from flyball.state.tally import closing_line

UNKNOWN = "–"
LAST_COLUMN = 24  # letters that the last column of a table gets, if it needs so many
NAME_WIDTH = 18  # of the names in front of values, at most
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Text that cannot control a terminal: escape sequences are removed, other controls are spelled out."""
    text = plain(whole(text)).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub(lambda match: f"\\x{ord(match.group()):02x}", text)


def one_line(text: str, width: int = 160) -> str:
    """The text on one line, shortened to a width."""
    line = " ".join(clean(text).split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def first_line(text: str, width: int = 160) -> str:
    """What a task is called: its first line."""
    return one_line(text.strip().partition("\n")[0], width)


def decode_argument(text: str) -> str:
    """A command-line argument as valid text, whatever bytes were typed."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# ---- times, counts, money --------------------------------------------------------------------------------


def _local(at: int) -> datetime:
    return datetime.fromtimestamp(at / SECOND, UTC).astimezone()


def clock(at: int) -> str:
    return _local(at).strftime("%H:%M:%S")


def day_and_clock(at: int) -> str:
    return _local(at).strftime("%Y-%m-%d %H:%M:%S")


def iso(at: int) -> str:
    return datetime.fromtimestamp(at / SECOND, UTC).isoformat().replace("+00:00", "Z")


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def finding_text(finding: Finding) -> str:
    """A finding on one line: where it is, how grave, and what is wrong."""
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    return one_line(f"{f'{place} ' if place else ''}({finding.severity}): {finding.text}", 160)


def first_few(names: Sequence[str], limit: int = 5) -> str:
    """Some names, and how many more there are."""
    text = ", ".join(one_line(name, 80) for name in names[:limit])
    return f"{text} and {len(names) - limit} more" if len(names) > limit else text


def is_free(agents: Iterable[str], tokens: int = 0) -> bool:
    """Whether nothing reported means that nothing was spent."""
    free = [without_model(agent) for agent in agents]
    return bool(free) and all(free) and not tokens


def cost(uusd: int, free: bool = False, unknown: str = UNKNOWN) -> str:
    """A cost in dollars: $0.00 only where nothing was spent; what no agent reports is unknown."""
    return dollars(uusd) if uusd or free else unknown


def cost_usd(run: Run) -> float | None:
    """What the run cost; None if nobody knows. Agents without a model cost nothing."""
    is_known = run.spent.cost_uusd > 0 or is_free(run.settings.agents.values(), run.spent.tokens)
    return run.spent.cost_uusd / 1_000_000 if is_known else None


def cost_text(run: Run, unknown: str = UNKNOWN) -> str:
    return cost(run.spent.cost_uusd, cost_usd(run) is not None, unknown)


def tokens(count: int, free: bool = False) -> str:
    return f"{count:,}" if count or free else UNKNOWN


def agent_name(agent: str) -> str:
    """An agent without the folder of its file or program: `script:agent.yaml`, `command:my-agent {prompt}`."""
    kind, colon, rest = agent.partition(":")
    if colon and kind == "script":
        rest = rest.rpartition("/")[2]
    elif colon:
        program, space, arguments = rest.partition(" ")
        rest = f"{program.rpartition('/')[2]}{space}{arguments}"
    return one_line(f"{kind}{colon}{rest}", 40)


def fields(rows: Sequence[tuple[str, str]], width: int = 0, indent: str = "  ") -> list[str]:
    """`name  value` lines. Values are wrapped under themselves to a width; 0 does not wrap."""
    lines: list[str] = []
    for name, value in rows:
        head = f"{indent}{name:<12} "
        for part in value.splitlines() or [""]:
            room = max(width - len(head), 20)
            parts = textwrap.wrap(
                part, room, break_on_hyphens=False, break_long_words=False
            )  # a path can be copied
            for line in parts if width else [part]:
                lines.append(f"{head}{line}".rstrip())
                head = " " * len(head)
    return lines


def wrapped(line: str, width: int) -> list[str]:
    """A line wrapped at words. Further lines start below its text: behind its indent and a name in front of it."""
    if not width or len(line) <= width:
        return [line]
    indent = len(line) - len(line.lstrip())
    name = re.match(r"\s*\S+(?: \S+)*?\s{2,}(?=\S)", line)
    column = name.end() if name and name.end() <= NAME_WIDTH else indent
    first, rest = line[:column], line[column:]
    parts = textwrap.wrap(
        rest, max(width - column, 20), break_on_hyphens=False, break_long_words=False, drop_whitespace=True
    )
    return [f"{first if number == 0 else ' ' * column}{part}" for number, part in enumerate(parts)]


# ---- tables ----------------------------------------------------------------------------------------------


def columns(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; the last column is not padded."""
    widths = [max(len(row[n]) for row in (headers, *rows)) for n in range(len(headers))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (headers, *rows)
    ]


def fitting(rows: Sequence[Sequence[str]], optional: Sequence[str], width: int) -> list[str]:
    """The lines of a table, its headers first, for a terminal of this width (0: of any).

    Columns are left out, in the order of `optional`, until the last one has some room; what is still too long is cut.
    """
    lines = columns(rows[0], rows[1:])
    for name in optional:
        last = max(len(row[-1]) for row in rows)
        if not width or lines[0].rindex(rows[0][-1]) + min(last, LAST_COLUMN) <= width:
            break
        place = rows[0].index(name) if name in rows[0] else len(rows[0])
        rows = [[*row[:place], *row[place + 1 :]] for row in rows]
        lines = columns(rows[0], rows[1:])
    return [line if not width or len(line) <= width else line[: width - 1] + "…" for line in lines]


def last_words(text: str, most: int) -> str:
    """How a message ends."""
    return one_line(closing_line(clean(text)).replace("**", "").lstrip("-*> "), most)
