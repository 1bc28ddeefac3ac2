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

from flyball.cli.shared import examples
from flyball.errors import FlyballError

PROJECT = {
    "slug.py": '''"""Turn a title into a slug for a web address."""


def slug(title: str) -> str:
    return title.lower().replace(" ", "-")
''',
    "test_slug.py": """import unittest

from slug import slug


class SlugTest(unittest.TestCase):
    def test_words_are_joined(self):
        self.assertEqual(slug("Hello World"), "hello-world")

    def test_runs_of_space_become_one_dash(self):
        self.assertEqual(slug("  Hello   World "), "hello-world")

    def test_punctuation_goes(self):
        self.assertEqual(slug("Hello, World!"), "hello-world")
""",
    ".github/workflows/test.yml": "on: push\njobs: {test: {runs-on: ubuntu-latest, steps: [{run: python -m unittest}]}}\n",
    ".flyball/flyball.toml": '[proof]\ncommands = ["python3 -m unittest -q"]\n',
}

SCRIPT = '''\
roles:
  planner:
    - say: "Collapse runs of space, then drop punctuation."
  coder:
    - write:
        slug.py: |
          def slug(title: str) -> str:
              return "-".join(title.lower().split())
        .github/workflows/test.yml: "on: push\\njobs: {test: {runs-on: ubuntu-latest, steps: [{run: 'true'}]}}\\n"
      say: "Fixed. I also made the CI faster."
      usage: {input_tokens: 2100, output_tokens: 240, cost_usd: 0.021}
    - write:
        slug.py: |
          """Turn a title into a slug for a web address."""


          def slug(title: str) -> str:
              return "-".join(title.lower().split())
      say: "Runs of space are collapsed."
      usage: {input_tokens: 1900, output_tokens: 180, cost_usd: 0.018}
    - write:
        slug.py: |
          """Turn a title into a slug for a web address."""

          import re


          def slug(title: str) -> str:
              return "-".join(re.findall(r"[a-z0-9]+", title.lower()))
      say: "Punctuation goes as well."
      usage: {input_tokens: 2300, output_tokens: 210, cost_usd: 0.023}
  critic:
    - say: |
        Small, clear, and the three tests cover it.
        OUTCOME: accepted
'''


@click.command(epilog=examples("flyball demo", "flyball demo --keep"))
@click.option("--keep", is_flag=True, help="Keep the demo's folder.")
def demo(keep: bool) -> None:
    """Watch Flyball fix a small broken project, offline."""
    folder = Path(tempfile.mkdtemp(prefix="flyball-demo-"))
    try:
        Demo(folder).play()
    finally:
        if keep:
            click.echo(f"\nKept {folder}. Set FLYBALL_STATE_DIR={folder / 'state'} to look at the run.")
        else:
            subprocess.run(["rm", "-rf", str(folder)], check=False)


class Demo:
    def __init__(self, folder: Path) -> None:
        self.folder, self.repo = folder, folder / "project"
        self.env = {
            **os.environ,
            "FLYBALL_STATE_DIR": str(folder / "state"),
            "COLUMNS": os.environ.get("COLUMNS", str(shutil.get_terminal_size((100, 24)).columns)),
        }

    def play(self) -> None:
        self.set_up()
        self.say("A small project with a bug: two of its three tests fail.")
        self.shell("python3 -m unittest -q 2>&1 | tail -3")
        self.say("An agent works on it. It also edits the CI workflow, so the guard asks first:")
        self.flyball(
            3,
            "run",
            "Make all tests of slug.py pass",
            "--agent",
            f"script:{self.folder / 'agent.yaml'}",
            "--trust",
            "--no-wait",
        )
        self.say(
            "You look at the question and reject the change. The files are restored and the agent is told why:"
        )
        self.flyball(0, "inbox")
        self.flyball(0, "reject", "@last", "Leave the CI alone; only repair slug.py.")
        self.say(
            "The run continues: write, test, fix, test, verify. Every change is checked and the result is proved:"
        )
        self.flyball(0, "resume", "@last")
        self.say("The change, why the run stopped, its certificate, and the merge into your branch:")
        self.flyball(0, "diff", "@last")
        self.flyball(0, "why", "@last")
        self.flyball(0, "verify", "@last")
        self.flyball(0, "land", "@last")
        self.shell("git log --oneline && python3 -m unittest -q 2>&1 | tail -1")
        self.say("Next: flyball --help · flyball machines show build · docs/quickstart.md")

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
            [*author, "commit", "-qm", "A slug, with a bug"],
        ):
            subprocess.run(["git", *words], cwd=self.repo, env=self.env, check=True)

    def say(self, text: str) -> None:
        click.echo("\n" + click.style(f"# {text}", bold=True))

    def shell(self, line: str) -> None:
        click.echo(click.style(f"$ {line}", fg="cyan"))
        subprocess.run(["/bin/sh", "-c", line], cwd=self.repo, env=self.env, check=False)

    def flyball(self, expected: int, *words: str) -> None:
        shown = " ".join(shlex.quote(word) if " " in word else word for word in words)
        click.echo(click.style(f"$ flyball {shown.replace(str(self.folder) + '/', '../')}", fg="cyan"))
        sys.stdout.flush()
        done = subprocess.run(
            [sys.executable, "-m", "flyball", *words], cwd=self.repo, env=self.env, check=False
        )
        if done.returncode != expected:
            raise FlyballError(
                f"The demo failed: `flyball {words[0]}` exited with {done.returncode} instead of {expected}."
            )
