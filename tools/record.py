#!/usr/bin/env python3
"""Record `flyball demo` on a terminal and write it as docs/demo.svg, a picture that plays.

The demo really runs, in a pseudo-terminal. Each line appears when it did in the session, with long waits cut short,
and the picture scrolls like a terminal. Viewers who prefer no motion see the end of the session.
"""

from __future__ import annotations

import codecs
import fcntl
import html
import os
import pty
import re
import struct
import sys
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COLUMNS, ROWS = 104, 30
CELL, LINE, SIZE, MARGIN, TOP = 8.43, 19, 14, 16, 40
LONGEST_WAIT_S, READING_S, END_S = (
    1.0,
    0.12,
    8.0,
)  # a wait at most; at least between two lines; before it starts again
CODE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b[()][A-Z0-9]|\x1b[=>78]")
PALETTE = {
    1: "#ff6b6b",
    2: "#7ee787",
    3: "#f2cc60",
    4: "#79c0ff",
    5: "#d2a8ff",
    6: "#56d4dd",
    7: "#e6edf3",
    0: "#484f58",
}
STYLE = """\
text { font: %dpx ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #e6edf3; white-space: pre }
.b { font-weight: bold } .d { opacity: 0.65 } .u { text-decoration: underline }
"""


class Screen:
    """As much of a terminal as the demo needs: text, colours, moving up and erasing."""

    def __init__(self) -> None:
        self.lines: list[list[tuple[str, tuple[int, ...]]]] = [[]]
        self.times: list[float] = [0.0]
        self.row, self.column, self.style = 0, 0, ()

    def feed(self, data: str, now: float) -> None:
        at = 0
        while at < len(data):
            code = CODE.match(data, at)
            if code:
                self._control(code[1] or "", code[2] or "")
            else:
                self._put(data[at], now)
            at = code.end() if code else at + 1

    def _put(self, char: str, now: float) -> None:
        if char == "\n":
            self.row += 1
            if self.row == len(self.lines):
                self.lines.append([])
                self.times.append(now)
        elif char == "\r":
            self.column = 0
        elif char >= " " and self.column == COLUMNS:
            self._put("\n", now)
            self.column = 0
            self._put(char, now)
        elif char >= " ":
            line = self.lines[self.row]
            line.extend([(" ", ())] * (self.column + 1 - len(line)))
            line[self.column] = (char, self.style)
            self.column += 1
            self.times[self.row] = now

    def _control(self, numbers: str, kind: str) -> None:
        if kind == "m":
            given = tuple(int(number or 0) for number in numbers.split(";"))
            self.style = () if given == (0,) else (*self.style, *given)
        elif kind == "A":
            self.row = max(0, self.row - int(numbers or 1))
        elif kind == "K":
            self.lines[self.row] = self.lines[self.row][: 0 if numbers == "2" else self.column]


def record(argv: list[str]) -> Screen:
    """The screen after the command has ended; a command that fails is no recording."""
    screen, began = Screen(), time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(COLUMNS), LINES=str(ROWS))
        os.environ.pop("NO_COLOR", None)
        os.environ["PATH"] = (
            f"{Path(argv[0]).parent}:{os.environ['PATH']}"  # what is printed names no path of here
        )
        os.execv(argv[0], argv)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while data := _read(terminal):
        screen.feed(decoder.decode(data), time.monotonic() - began)
    if os.waitpid(pid, 0)[1]:
        raise SystemExit(f"{' '.join(argv)} failed")
    return screen


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so when the other end is closed
        return b""


def when(times: list[float]) -> list[float]:
    """When each line appears: as in the session, but no wait is long and no line comes too fast to see."""
    shown, now, last = list[float](), 0.0, 0.0
    for at in times:
        now += min(max(at - last, READING_S), LONGEST_WAIT_S)
        last = max(at, last)
        shown.append(now)
    return shown


def svg(screen: Screen) -> str:
    lines, times = list(screen.lines), when(screen.times)
    while not any(char.strip() for char, _ in lines[-1]):
        lines.pop()
    width, height = COLUMNS * CELL + 2 * MARGIN, ROWS * LINE + TOP + MARGIN
    text = "\n".join(_line(number, line) for number, line in enumerate(lines) if line)
    buttons = "".join(
        f'<circle cx="{20 + n * 20}" cy="20" r="6" fill="{fill}"/>'
        for n, fill in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" aria-label="flyball demo, recorded">
<style>{STYLE % SIZE}{_motion(len(lines), times)}</style>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>{buttons}
<svg x="{MARGIN}" y="{TOP}" width="{COLUMNS * CELL:.0f}" height="{ROWS * LINE}"><g class="scroll"><g class="reveal">
{text}
</g></g></svg>
</svg>
"""


def _line(number: int, line: list[tuple[str, tuple[int, ...]]]) -> str:
    """The runs of one style, each placed at its column."""
    runs: list[tuple[int, str, tuple[int, ...]]] = []
    for column, (char, style) in enumerate(line):
        if runs and runs[-1][2] == style:
            runs[-1] = (runs[-1][0], runs[-1][1] + char, style)
        else:
            runs.append((column, char, style))
    spans = "".join(
        f'<tspan x="{at * CELL:.1f}"{_look(style)}>{html.escape(text)}</tspan>'
        for at, text, style in runs
        if text.strip()
    )
    return f'<text y="{(number + 1) * LINE - 5}">{spans}</text>' if spans else ""


def _look(style: tuple[int, ...]) -> str:
    """Colour and weight of a run, as attributes."""
    classes = [name for code, name in ((1, "b"), (2, "d"), (4, "u")) if code in style]
    colours = [PALETTE[code % 10] for code in style if 30 <= code <= 37 or 90 <= code <= 97]
    look = f' class="{" ".join(classes)}"' if classes else ""
    return look + (f' fill="{colours[-1]}" style="fill:{colours[-1]}"' if colours else "")


def _motion(count: int, times: list[float]) -> str:
    """Two animations in step: lines are uncovered one by one, and the text moves up once the window is full."""
    total = times[count - 1] + END_S
    full = count * LINE
    marks = [(0.0, 0), *((times[n], n + 1) for n in range(count)), (total, count)]
    reveal = "".join(
        f"{at / total:.3%} {{ clip-path: inset(0 0 {full - n * LINE}px 0) }} " for at, n in marks
    )
    scroll = "".join(
        f"{at / total:.3%} {{ transform: translateY({min(0, (ROWS - n) * LINE)}px) }} " for at, n in marks
    )
    return f"""
.scroll {{ transform: translateY({min(0, (ROWS - count) * LINE)}px) }}
@media (prefers-reduced-motion: no-preference) {{
.reveal {{ animation: reveal {total:.1f}s step-end infinite }} .scroll {{ animation: scroll {total:.1f}s step-end infinite }} }}
@keyframes reveal {{ {reveal}}}
@keyframes scroll {{ {scroll}}}
"""


def main() -> None:
    screen = record([str(Path(sys.executable).parent / "flyball"), "demo"])
    picture = svg(screen)
    (ROOT / "docs" / "demo.svg").write_text(picture, "utf-8")
    print(f"docs/demo.svg: {len(screen.lines)} lines, {len(picture) // 1024} KB")


if __name__ == "__main__":
    main()
