"""The documents say what is true: every command, every test named, every example."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.test_tidy import ORDER

from flyball.cli import COMMANDS
from flyball.domain.faults import faults
from flyball.domain.machine import parse
from flyball.domain.results import CODES
from flyball.state.tally import ENTRIES

ROOT = Path(__file__).parents[2]
DOCS = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
IDS = {
    "SYS": 16,
    "CTO": 15,
    "TASK": 9,
    "ALO": 13,
    "LOOP": 7,
    "PAIR": 6,
    "GUARD": 6,
    "EVID": 7,
    "HUMAN": 5,
    "AGENT": 9,
    "PROOF": 4,
}
CONFORMANCE = (ROOT / "docs" / "conformance.md").read_text("utf-8")


def test_every_requirement_has_a_row() -> None:
    expected = [f"{family}-{n}" for family, most in IDS.items() for n in range(1, most + 1)]
    rows = re.findall(r"^\| ([A-Z]+-\d+) \| [^|]+ \| [^|]+ \|$", CONFORMANCE, re.M)
    assert sorted(rows) == sorted(expected)


def test_every_test_that_is_named_exists() -> None:
    suite = (ROOT / "src/flyball/testing/journal_suite.py").read_text("utf-8")
    missing: list[str] = []
    for file, names in sorted(named_tests().items()):
        path = ROOT / "tests" / file
        text = path.read_text("utf-8") if path.exists() else ""
        there = set(re.findall(r"def (\w+)\(", text + (suite if "JournalSuite" in text else "")))
        missing += [f"{file}::{name}" for name in sorted(names - there)]
    assert not missing


def named_tests() -> dict[str, set[str]]:
    named: dict[str, set[str]] = {}
    for file, name in re.findall(r"`([\w/]+\.py)::(\w+)`", CONFORMANCE):
        named.setdefault(file, set()).add(name)
    assert len(named) > 50
    return named


def test_the_readme_names_the_platforms() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert "Linux in full" in text and "macOS" in text and "WSL" in text


def test_every_link_leads_somewhere() -> None:
    links = [(path, to) for path in DOCS for to in re.findall(r"\]\(([^)#]+)\)", path.read_text("utf-8"))]
    lost = [
        f"{path.name}: {to}"
        for path, to in links
        if not (to.startswith("http") or (path.parent / to).exists())
    ]
    assert links and not lost


def test_every_command_that_is_shown_exists() -> None:
    shown = [
        (path.name, verb)
        for path in DOCS
        for line in re.findall(r"^\$ (flyball [^\n]*)$", path.read_text("utf-8"), re.M)
        for verb in re.findall(r"flyball ([a-z][a-z-]*)", line)
    ]
    assert shown and not [row for row in shown if row[1] not in COMMANDS]


def test_every_command_is_documented() -> None:
    text = (ROOT / "docs" / "commands.md").read_text("utf-8")
    missing = [name for name in COMMANDS if f"`flyball {name}" not in text]
    assert missing == []


def test_the_machine_shown_in_the_docs_has_no_fault() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "machines.md").read_text("utf-8"), re.S)
    tables = [tomllib.loads(block) for block in blocks]
    assert [faults(parse(table)) for table in tables if "states" in table] == [[]]


def test_the_readmes_diagram_is_the_machines_own() -> None:
    from flyball.domain.machine import edges
    from flyball.machines import shipped

    shown = re.search(r"```mermaid\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)
    assert shown
    drawn = {(a, b) for a, b in re.findall(r"(\w+) --> (\w+):", shown.group(1))}
    assert drawn == set(edges(shipped("build")))


def test_version_and_help_work_without_a_repository(tmp_path: Path) -> None:
    for words in (["--version"], ["--help"]):
        done = subprocess.run(
            [sys.executable, "-m", "flyball", *words], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0 and "flyball" in done.stdout.lower()


def test_the_generated_parts_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "tools/docs.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_stop_code_is_emitted() -> None:
    """The codes that rules name; the others are made of an agent's verdict or of a table's `counts`."""
    rules = [
        path
        for part in ("core", "reading", "acts", "runtime")
        for path in (ROOT / "src/flyball" / part).rglob("*.py")
    ]
    text = "\n".join(path.read_text("utf-8") for path in rules if path.name != "results.py")
    made = {"wait.auth", "wait.billing", *ENTRIES}
    assert {code for code in CODES if f'"{code}"' not in text} <= made


def test_the_architecture_lists_the_packages_in_import_order() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    there = [name for name in ORDER if list((ROOT / "src/flyball").glob(f"{name}*"))]
    assert re.findall(r"^\| `(\w+)` \|", text, re.M) == there


def test_the_patches_of_the_first_change_apply(tmp_path: Path) -> None:
    """Each patch of docs/first-change.md fits the files as they are."""
    patches = re.findall(r"```diff\n(.*?)```", (ROOT / "docs/first-change.md").read_text("utf-8"), re.S)
    assert len(patches) == 6
    for patch in patches:
        for name in re.findall(r"^--- a/(.*)$", patch, re.M):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes((ROOT / name).read_bytes())
        words = ["git", "apply", "--recount", "--unidiff-zero", "-"]
        done = subprocess.run(words, cwd=tmp_path, input=patch, capture_output=True, text=True)
        assert done.returncode == 0, f"{done.stderr}\n{patch}"
