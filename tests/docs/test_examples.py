"""Every example in the documents and in --help runs: offline, in a small repository, with the exit code it shows.

In a document a `console` block is a session. `$ command` is run by the shell; `# exit N` after it is the exit code
(0 if not given). The lines below it must appear in its output, in order; `…` stands for anything. A block of another
language whose first line is `# path` is a file, written first. A block that cannot run has `<!-- Not run: reason -->` above it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.docs.shell import Shell

ROOT = Path(__file__).parents[2]
DOCS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "ARCHITECTURE.md",
    *sorted(ROOT.glob("docs/*.md")),
]
FENCE = re.compile(r"^(?:<!-- Not run: (\S[^\n]{10,}) -->\n)?```(\w+)\n(.*?)^```$", re.M | re.S)


@dataclass
class Command:
    line: str
    exit: int = 0
    output: list[str] = field(default_factory=list[str])


def commands(block: str) -> Iterator[Command]:
    current: Command | None = None
    for line in block.splitlines():
        if line.startswith("$ "):
            if current:
                yield current
            code = re.search(r"#\s+exit (\d+)", line)
            current = Command(line[2:], int(code[1]) if code else 0)
        elif current and line.strip():
            current.output.append(line)
    if current:
        yield current


def play(shell: Shell, command: Command) -> None:
    done = shell.run(command.line)
    said = f"$ {command.line}\n{done.stdout}"
    assert done.returncode == command.exit, f"exit code {done.returncode}, not {command.exit}:\n{said}"
    rest = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for line in command.output:
        pattern = ".*".join(re.escape(" ".join(part.split())) for part in line.split("…"))
        at = next((n for n, given in enumerate(rest) if re.fullmatch(rf"\s*{pattern}\s*", given)), None)
        assert at is not None, f"this line is not in the output: {line!r}\n{said}"
        rest = rest[at + 1 :]


def sessions(path: Path) -> list[tuple[str, str, str]]:
    """Why it is not run ("": it is), the language and the text of each block."""
    return FENCE.findall(path.read_text("utf-8"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "path", [p for p in DOCS if "```console" in p.read_text("utf-8")], ids=lambda p: p.name
)
def test_the_sessions_of_a_document_run(path: Path, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    for not_run, language, block in sessions(path):
        head = block.partition("\n")[0]
        if language == "console" and not not_run:
            for command in commands(block):
                play(shell, command)
        elif re.fullmatch(r"# [\w./-]+", head):
            shell.write({head[2:]: block})


def test_every_command_that_is_shown_is_in_a_session() -> None:
    """`$ flyball …` outside of a console block would not be run."""
    for path in DOCS:
        text = FENCE.sub(lambda m: "" if m[2] == "console" else m[0], path.read_text("utf-8"))
        assert re.findall(r"^\$ .*$", text, re.M) == [], path.name


@pytest.mark.sampled(0)
def test_the_demo_plays_on_a_terminal_and_can_be_recorded() -> None:
    """On a terminal `run` stays while a question is open; the demo must go on all the same."""
    code = "from tools import record; print(record.svg(record.record([record.sys.argv[1], 'demo'])))"
    flyball = str(Path(sys.executable).parent / "flyball")
    done = subprocess.run(
        [sys.executable, "-c", code, flyball], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    text = re.sub(r"<[^>]+>", "", done.stdout)
    assert all(word in text for word in ("guard asks", "proof passed", "Merged run"))
