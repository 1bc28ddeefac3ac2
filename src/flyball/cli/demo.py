"""`flyball demo`: fix a small broken project offline, with the commands that a user would type."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from flyball.cli import examples, fitted
from flyball.errors import FlyballError
from flyball.state_dir import remove

PROJECT = {
    "booking.py": '''"""Bookings of a room: (start, end) in hours, the end not included."""


def overlaps(one, other):
    """Whether two bookings want the room at the same time."""
    return one[0] < other[1] and other[0] <= one[1]


def fits(booking, taken):
    return not any(overlaps(booking, other) for other in taken)


def first_free(length, taken, opens=8, closes=20):
    """The earliest start at which the room is free long enough; None if there is none."""
    for start in range(opens, closes - length + 1):
        if fits((start, start + length), taken):
            return start
    return None
''',
    "test_booking.py": """import unittest

from booking import first_free, fits


class BookingTest(unittest.TestCase):
    def test_the_same_hour_does_not_fit_twice(self):
        self.assertFalse(fits((9, 10), [(9, 10)]))

    def test_a_booking_around_another_does_not_fit(self):
        self.assertFalse(fits((8, 12), [(9, 10)]))

    def test_one_may_begin_when_another_ends(self):
        self.assertTrue(fits((10, 11), [(9, 10)]))
        self.assertTrue(fits((8, 9), [(9, 10)]))

    def test_the_first_free_hour(self):
        self.assertEqual(first_free(2, [(8, 9), (10, 12)]), 12)
        self.assertEqual(first_free(1, [(8, 9), (10, 12)]), 9)
        self.assertEqual(first_free(3, [(9, 12)]), 12)

    def test_a_full_day(self):
        self.assertIsNone(first_free(1, [(8, 20)]))
""",
    "README.md": "# Booking\n",
    ".github/workflows/test.yml": "on: push\njobs: {test: {runs-on: ubuntu-latest, steps: [{run: python -m unittest}]}}\n",
    ".flyball/flyball.toml": '[proof]\ncommands = ["python3 -m unittest -q"]\n',
}

SCRIPT = """\
roles:
  planner:
    - say: "One line in the README."
  coder:
    - write:
        README.md: "# Booking\\n\\nRun the tests with `python -m unittest`.\\n"
        .github/workflows/test.yml: "on: push\\njobs: {test: {runs-on: ubuntu-latest, steps: [{run: 'true'}]}}\\n"
      say: "Done. I also made the CI faster."
      usage: {input_tokens: 2100, output_tokens: 240, cost_usd: 0.021}
    - write:
        README.md: "# Booking\\n\\nRun the tests with `python -m unittest`.\\n"
      say: "Only the README this time."
      usage: {input_tokens: 1900, output_tokens: 180, cost_usd: 0.018}
  critic:
    - say: |
        The README says it, and nothing else changed.
        OUTCOME: accepted
"""


@click.command(epilog=examples("flyball demo", "flyball demo --no-keep"))
@click.option("--keep/--no-keep", default=True, help="Keep the demo's folder, to look at it afterwards.")
def demo(keep: bool) -> None:
    """Watch Flyball fix a small broken project, offline."""
    folder = Path(tempfile.mkdtemp(prefix="flyball-demo-"))
    try:
        Demo(folder).play(keep)
    finally:
        if not keep:
            remove(folder)


class Demo:
    def __init__(self, folder: Path) -> None:
        self.folder, self.repo = folder, folder / "project"
        self.env = {
            **os.environ,
            "FLYBALL_STATE_DIR": str(folder / "state"),
            "COLUMNS": os.environ.get("COLUMNS", str(shutil.get_terminal_size((100, 24)).columns)),
        }

    def play(self, keep: bool) -> None:
        self.set_up()
        self.repair()
        self.guard()
        if keep:
            self.say("The project and its runs are kept. To look around:")
            click.echo(f"cd {shlex.quote(str(self.repo))}")
            click.echo(f"export FLYBALL_STATE_DIR={shlex.quote(self.env['FLYBALL_STATE_DIR'])}")
            for words in ("ls", "show @last", "log @last", "machines show build"):
                click.echo(f"{_program()} {words}")
        self.say("Next, in your own project: flyball init (docs/quickstart.md)")

    def repair(self) -> None:
        self.say("A small project with a bug. The agent is not told where it is:")
        self.shell("python3 -m unittest -q 2>&1 | grep -E '^(FAIL|Ran|FAILED)'")
        self.say(
            "The built-in agent, mechanic, needs no model and no network. It finds the bug and fixes it:"
        )
        self.flyball(0, "run", "Make the failing tests pass", "--agent", "mechanic", "--trust")
        self.say("The change, its certificate, and the merge into your branch:")
        self.flyball(0, "diff", "@last")
        self.flyball(0, "verify", "@last")
        self.flyball(0, "land", "@last")
        self.shell("python3 -m unittest -q 2>&1 | tail -1")

    def guard(self) -> None:
        self.say("Another agent (a script) should edit the README. It also edits the CI, so the guard asks:")
        agent = f"script:{self.folder / 'agent.yaml'}"
        self.flyball(
            3, "run", "Say in the README how to run the tests", "--agent", agent, "--trust", "--no-wait"
        )
        self.say("You reject the change. The files are restored and the agent tries again with your reason:")
        self.flyball(0, "reject", "@last", "Leave the CI alone.")
        self.flyball(0, "resume", "@last")
        self.flyball(0, "why", "@last")

    def set_up(self) -> None:
        for name, text in PROJECT.items():
            path = self.repo / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        (self.folder / "agent.yaml").write_text(SCRIPT, "utf-8")
        author = ["-c", "user.name=Demo", "-c", "user.email=demo@localhost"]
        for words in (
            ["init", "-q", "-b", "main"],
            ["add", "."],
            [*author, "commit", "-qm", "A room to book, with a bug"],
        ):
            subprocess.run(["git", *words], cwd=self.repo, env=self.env, check=True)

    def say(self, text: str) -> None:
        for line in ("", *fitted(f"# {text}").split("\n")):
            click.echo(click.style(line, bold=True))

    def shell(self, line: str) -> None:
        click.echo(click.style(f"$ {line}", fg="cyan"))
        subprocess.run(["/bin/sh", "-c", line], cwd=self.repo, env=self.env, check=False)

    def flyball(self, expected: int, *words: str) -> None:
        text = " ".join(shlex.quote(word) if " " in word else word for word in words)
        click.echo(click.style(f"$ flyball {text.replace(str(self.folder) + '/', '../')}", fg="cyan"))
        sys.stdout.flush()
        process = subprocess.run(
            [sys.executable, "-m", "flyball", *words], cwd=self.repo, env=self.env, check=False
        )
        if process.returncode != expected:
            raise FlyballError(
                f"The demo failed: `flyball {words[0]}` exited with {process.returncode} instead of {expected}."
            )


def _program() -> str:
    """How this very program is called from the user's shell."""
    own = Path(sys.argv[0])
    on_path = shutil.which("flyball")
    if own.name != "flyball" or (on_path and Path(on_path).resolve() == own.resolve()):
        return "flyball"
    return shlex.quote(str(own.resolve()))
