"""What is pruned when, and that packed logs survive a crash between packing and removing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from flyball.domain.settings import DAY, Retention
from flyball.journal.records import Records
from flyball.state_dir import StateDir
from flyball.system.disk_usage import RunUsage
from flyball.system.packed_logs import LOG_MOST, act_files, pack
from flyball.system.retention import due
from flyball.workspace.landing import RunBranch

NOW = 1_000 * DAY
SIZES = {"checkouts": 0, "checkpoints": 10**6, "homes": 10**6, "logs": 10**6, "evidence": 10, "journal": 10}
MERGED = RunBranch("r", "c", True, "")
OPEN = RunBranch("r", "c", False, "")
ALL = ("homes", "checkpoints", "logs", "branch")


def run(name: str = "r", days: int = 8, **more: Any) -> RunUsage:
    known: dict[str, Any] = {
        "repo": "/repo",
        "task": "",
        "status": "ended",
        "end": "success",
        "parent": "",
        "root": name,
        "since": NOW - days * DAY,
        "sizes": SIZES,
        "members": (name,),
        "acts": (Path("a"),),
        "branch": MERGED,
    }
    return RunUsage(run=name, **{**known, **more})


@pytest.mark.parametrize(
    ("case", "parts"),
    [
        ({}, ALL),
        ({"days": 6}, None),
        *[({"status": status, "end": ""}, None) for status in ("running", "waiting", "paused", "blocked")],
        ({"branch": OPEN}, ("homes", "logs")),  # it can still be landed
        ({"branch": OPEN, "end": "failure"}, ("homes", "checkpoints", "logs")),
        ({"branch": None}, ("homes", "checkpoints", "logs")),
        ({"branch": RunBranch("r", "c", True, "/elsewhere")}, ("homes", "checkpoints", "logs")),
        ({"sizes": {**SIZES, "checkouts": 1}}, ("homes", "checkouts", "checkpoints", "logs", "branch")),
        ({"sizes": {**SIZES, "checkouts": 1}, "kept_checkout": True}, ("homes", "logs", "branch")),
        ({"without_repo": True, "branch": None}, ("homes", "logs")),  # nobody knows what is merged
        (
            {"sizes": {**SIZES, "homes": 0, "checkpoints": 0}, "acts": (), "branch": None},
            None,
        ),  # pruned before
    ],
)
def test_what_goes_of_a_run_after_a_week(case: dict[str, Any], parts: tuple[str, ...] | None) -> None:
    assert [one.parts for one in due([run(**case)], Retention(), NOW)] == ([parts] if parts else [])


def test_beyond_the_size_the_oldest_ended_runs_are_pruned_before_their_time() -> None:
    runs = [run("new", 1), run("old", 3), run("middle", 2), run("waits", 5, status="waiting")]
    assert [one.usage.run for one in due(runs, Retention(size_mb=7), NOW)] == ["old"]
    assert [one.usage.run for one in due(runs, Retention(size_mb=4), NOW)] == ["old", "middle"]
    assert due(runs, Retention(size_mb=None), NOW) == []
    child = run("child", 3, parent="lane", root="lane", top_ended=False)
    assert due([child], Retention(size_mb=0), NOW) == [], "a later step may still start from it"


@pytest.mark.parametrize(
    ("case", "parts"),
    [
        ({}, ("run",)),
        ({"branch": OPEN}, ("homes", "logs")),
        ({"branch": OPEN, "end": "failure"}, ("run",)),
        ({"kept_checkout": True}, ("homes", "logs", "branch")),
        ({"parent": "lane"}, ALL),
        ({"without_repo": True}, ("homes", "logs", "branch")),
    ],
)
def test_which_runs_leave_the_journal(case: dict[str, Any], parts: tuple[str, ...]) -> None:
    keep = Retention(runs_us=30 * DAY)
    assert [one.parts for one in due([run(days=30, **case)], keep, NOW)] == [parts]
    assert [one.parts for one in due([run(days=29)], keep, NOW)] == [ALL]


def test_packed_logs_can_be_read_and_packing_can_be_cut_off(tmp_path: Path) -> None:
    records = Records(tmp_path)
    dirs, names = StateDir(tmp_path), ("run-1", "run-2", "run-10")
    for name in names:
        (dirs.act(name) / "0").mkdir(parents=True)
        (dirs.act(name) / "0" / "out").write_text(f"out of {name}")
        (dirs.act(name) / "link").symlink_to("/etc/passwd")
    dirs.act("run-2").joinpath("err").write_bytes(b"a" * LOG_MOST + b"z" * LOG_MOST)
    shutil.copytree(dirs.act("run-1"), tmp_path / "aside", symlinks=True)
    pack(dirs.run("run"), [dirs.act(name) for name in names[:2]])
    (tmp_path / "aside").rename(dirs.act("run-1"))  # as after a crash before the folder was removed
    pack(dirs.run("run"), [dirs.act("run-1"), dirs.act("run-10")])
    assert list(dirs.acts.iterdir()) == []
    assert [act_files(records, name)["0/out"] for name in names] == [
        f"out of {name}".encode() for name in names
    ]
    long = act_files(records, "run-2")["err"]
    assert long.startswith(b"aaa") and long.endswith(b"zzz") and b"1048576 bytes removed" in long
    assert len(long) < LOG_MOST + 100 and "link" not in act_files(records, "run-1")
    assert act_files(records, "run-3") == {} and act_files(records, "other-1") == {}
    records.close()
