"""A user's shell in a new repository, in which the examples of the documents and of --help are run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.e2e import warm

PROJECT = {
    "slug.py": 'def slug(title):\n    return title.lower().replace(" ", "-")\n',
    "test_slug.py": """import unittest

from slug import slug


class SlugTest(unittest.TestCase):
    def test_words_are_joined(self):
        self.assertEqual(slug("Hello World"), "hello-world")

    def test_punctuation_is_dropped(self):
        self.assertEqual(slug("Hello, World!"), "hello-world")
""",
}
PROGRAMS = {
    # What the documents call `my-agent`: it repairs slug.py, and accepts as a critic.
    "my-agent": """#!/bin/sh
case $FLYBALL_ROLE in
    coder) printf 'import re\\n\\ndef slug(title):\\n    return "-".join(re.findall("[a-z0-9]+", title.lower()))\\n' > slug.py;;
    critic) echo "OUTCOME: accepted";;
esac
""",
    # Whether or not jq is installed: what is piped into it must be JSON.
    "jq": '#!/bin/sh\nexec python3 -c "import json, sys; json.load(sys.stdin)"\n',
}


class Shell:
    """Own home, no network needed, `flyball` (without its start-up), `my-agent` and `jq` on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.home, self.cwd = folder / "home", folder / "project"
        self.home.mkdir(parents=True)
        programs = folder / "bin"
        programs.mkdir()
        for name, text in PROGRAMS.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        warm.program(programs / "flyball")
        tools = os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"]))
        self.env = {"HOME": str(self.home), "PATH": tools, "LANG": "C.UTF-8", "COLUMNS": "110"}
        self.write(PROJECT)
        author = "git config user.name Ann && git config user.email ann@localhost"
        self.run(f"git init -q -b main && {author} && git add . && git commit -qm 'A slug, with a bug'")

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.cwd / name).parent.mkdir(parents=True, exist_ok=True)
            (self.cwd / name).write_text(text, "utf-8")

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """The line, in the folder that the one before it ended in; both streams in stdout."""
        note = self.home / "cwd"
        script = f"{line}\ncode=$?; pwd > {note}; exit $code"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.cwd,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        self.cwd = Path(note.read_text().strip()) if note.exists() else self.cwd
        return done
