"""The example plug-in runs as an agent; one that cannot be loaded is one sentence."""

from __future__ import annotations

import os
import shutil
import tomllib
from pathlib import Path

import pytest
from tests.e2e.helpers import Place

EXAMPLE = Path(__file__).parents[2] / "examples" / "flyball-note"


@pytest.fixture
def env(place: Place) -> dict[str, str]:
    """The example as pip would install it, in a folder of its own, with a second agent that cannot be imported."""
    site = place.folder / "site"
    info = site / "flyball_note-0.1.dist-info"
    info.mkdir(parents=True)
    shutil.copy(EXAMPLE / "flyball_note.py", site)
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    lines = list[str]()
    for group, points in project["entry-points"].items():
        lines += [
            f"[{group}]",
            *(f"{name} = {value}" for name, value in points.items()),
            "broken = nowhere:It",
        ]
    (info / "entry_points.txt").write_text("\n".join([*lines, "[flyball.agents]", "claude = nowhere:A", ""]))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: flyball-note\nVersion: 0.1\n")
    return {"PYTHONPATH": os.fspath(site)}


@pytest.mark.sampled(0)
def test_an_installed_package_adds_an_agent(place: Place, env: dict[str, str]) -> None:
    done = place.fb(
        "run",
        "Remember this",
        "--agent",
        "note:TODO.md",
        "--set",
        'proof.commands=["test -s TODO.md"]',
        "--set",
        "proof.bite=never",
        env=env,
    )
    assert done.code == 0, done.out + done.err
    assert "From plug-ins: broken, note." in place.fb("agents", "ls", env=env).out
    assert place.fb("show", "@last", "--json").json["turns"] == 3
    assert "TODO.md" in place.fb("diff", "@last", "--stat").out
    for agent, sentence in (
        ("note:../x", "must name a file at the top of the repository"),
        ("broken", "The plug-in 'broken' (nowhere:It) cannot be loaded: ModuleNotFoundError"),
        ("nota", "There is no agent 'nota'"),
    ):
        bad = place.fb("run", "x", "--agent", agent, env=env)
        assert bad.code == 2 and sentence in bad.err and bad.err.count("\n") == 1, bad.err
    claude = place.fb("run", "x", "--agent", "claude", env=env)
    assert "nowhere" not in claude.err, "a plug-in cannot take the place of a built-in agent"


def test_a_plug_in_with_an_argument_in_a_tracked_file_needs_trust(place: Place, env: dict[str, str]) -> None:
    (place.repo / ".flyball").mkdir()
    (place.repo / ".flyball/flyball.toml").write_text('[agents]\ndefault = "note:TODO.md"\n')
    place.git("add", ".")
    place.git("commit", "-qm", "A plug-in")
    done = place.fb("run", "x", env=env)
    assert done.code == 2 and "Not trusted yet" in done.err and "note:TODO.md" in done.err


def test_an_installed_package_notifies_and_brings_tasks(place: Place, env: dict[str, str]) -> None:
    log, todo = place.folder / "log", place.folder / "todo.txt"
    todo.write_text("One\n\nTwo\n")
    assert place.fb("task", "import", f"note:{todo}", env=env).out.startswith("2 tasks added.")
    assert place.fb("task", "import", f"note:{todo}", env=env).out.startswith("0 tasks added. 2 were")
    urls = f'notify.urls=["note:{log}"]'
    done = place.fb(
        "run", "Remember", "--agent", "note", "--set", "proof.commands=[]", "--set", urls, env=env
    )
    assert done.code == 0 and "completed" in log.read_text(), done.err
    for words, sentence in (
        (("task", "import", "note:/nowhere"), "The plug-in of 'note:/nowhere' failed: FileNotFoundError"),
        (("task", "import", "nothing:x"), "neither a file nor a plug-in"),
        (("task", "import", "broken:x"), "The plug-in 'broken' (nowhere:It) cannot be loaded"),
        (("run", "x", "--agent", "note", "--set", 'notify.urls=["broken:x"]'), "'broken' (nowhere:It)"),
    ):
        bad = place.fb(*words, env=env)
        assert bad.code == 2 and sentence in bad.err and bad.err.count("\n") == 1, bad.err
