"""`flyball up` from the outside: a backlog worked through by five nested machines, in real processes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import resource
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from tests.e2e.helpers import FIXED, QUICK_PROOF, Yard

from flyball.journal import Row
from flyball.journal.records import load
from flyball.journal.sqlite import SqliteJournal
from flyball.system.webhook import SECRET

DONE = {"finish": {"indicators": ["task complete", "all tests passing"]}}
MEND = {"write": {"calc.py": FIXED}, **DONE}
PASS = [{"say": "PASS"}]
YES = {
    "validator": [{"say": "OUTCOME: approved"}],
    "critic": [{"say": "OUTCOME: accepted"}],
    "reviewer": PASS,
}


def plan(*titles: str, paths: tuple[str, ...] = ("calc.py",)) -> dict[str, Any]:
    steps = [{"title": title, "paths": list(paths)} for title in titles]
    return {"outcome": "planned", "data": {"steps": steps}}


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    yield made
    made.clear()


def up(yard: Yard, *sets: str, **roles: Any) -> subprocess.Popen[str]:
    agent = yard.script(**{**YES, **roles})
    words = ["--set", QUICK_PROOF, "--set", "proof.bite=never", *(w for s in sets for w in ("--set", s))]
    return yard.start("up", "--agent", agent, *words)


def rows(yard: Yard, **asked: Any) -> list[Row]:
    """Oldest first."""
    if not (yard.state / "journal.db").exists():
        return []
    journal = SqliteJournal(yard.state / "journal.db")
    try:
        return journal.rows(**asked)[::-1]
    finally:
        journal.close()


def outcomes(yard: Yard) -> dict[str, str]:
    journal = SqliteJournal(yard.state / "journal.db")
    try:
        lanes = [load(journal, row.run)[0] for row in journal.rows(machine="cto")]
    finally:
        journal.close()
    return {name: became.partition(" ")[0] for lane in lanes for name, became in lane.plan.outcomes.items()}


def wait(process: subprocess.Popen[str], until: Callable[[], Any], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if until():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    raise AssertionError("it did not come to that")


def stop(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out + err


def add(yard: Yard, *words: str) -> str:
    done = yard.flyball("task", "add", *words, "--json")
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["task"])


def test_tasks_go_from_the_backlog_to_the_users_branch(yard: Yard) -> None:
    """A plan of two steps; the second starts from the result of the first, and what it ends with lands."""
    more = "def double(a):\n    return add(a, a)\n"
    yard.make({"plan.md": "1. Mend add.\n2. Add double.\n"})
    first = add(yard, "Make add() add, and double() too", "--plan", "plan.md")
    second = add(yard, "Wait for the other", "--after", first)
    process = up(
        yard,
        "run.commit=merge",
        planner=[plan("Mend add", "Add double"), plan("Look")],
        worker=[MEND],
        cto=[{"say": "It fits calc.py.\nOUTCOME: approved"}],
        repeat="last",
    )
    wait(process, lambda: rows(yard, machine="cto") and outcomes(yard).get(second) == "done")
    assert "Traceback" not in stop(process)
    assert outcomes(yard) == {first: "done", second: "done"}
    tasks = rows(yard, machine="task")
    assert [row.end for row in tasks] == ["success"] * 3 and [row.state for row in tasks] == ["completed"] * 3
    assert yard.git("show", "main:calc.py") == FIXED.strip(), more
    assert {row.machine for row in rows(yard)} == {"cto", "task", "build", "loop", "review"}
    logs = [yard.flyball("log", row.run).stdout.count("reviewed for plan.md") for row in tasks]
    assert logs == [1, 0, 0], "once for the plan, before its first step"


def test_a_risky_plan_waits_for_a_person_and_other_work_goes_on(yard: Yard) -> None:
    risky = add(yard, "Change the dependencies of the project", "--priority", "80")
    slow = {"planner": [plan("Do it")], "worker": [{"sleep_s": 2, **MEND}]}
    process = up(yard, **slow)
    wait(process, lambda: any(row.question for row in rows(yard, machine="cto")))
    plain = add(yard, "Make add() add")
    wait(process, lambda: rows(yard, machine="loop"))
    stop(process)
    assert rows(yard, machine="cto")[-1].status == "paused", "the turn of the second lane ended first"
    process = up(yard, **slow)
    wait(process, lambda: outcomes(yard).get(plain) == "done")
    (asking,) = (row for row in rows(yard, machine="cto") if row.question)
    inbox = yard.flyball("inbox").stdout
    assert "Change the dependencies" in inbox and "T2" in inbox and "1. Do it (calc.py)" in inbox
    (taken,) = json.loads(yard.flyball("task", "ls", "--json").stdout)["active"]
    assert {**taken, "runs": []} == json.loads(yard.flyball("task", "show", risky, "--json").stdout)
    assert [taken[key] for key in ("task", "run", "state", "question")] == [
        risky,
        asking.run,
        "WAITING_FOR_HUMAN",
        asking.question,
    ]
    assert [risky, asking.run] in [
        line.split()[:2] for line in yard.flyball("task", "ls").stdout.splitlines()
    ]
    assert f"`flyball answer {asking.question} drop`" in yard.flyball("task", "cancel", risky).stderr
    assert yard.flyball("answer", asking.question, "drop").returncode == 0
    wait(process, lambda: outcomes(yard).get(risky) == "dropped")
    assert f"{risky} has ended (dropped)" in yard.flyball("task", "edit", risky, "--priority", "1").stderr
    (mended,) = rows(yard, machine="task")
    told = yard.flyball("land", mended.run)
    assert (told.returncode, (yard.repo / "calc.py").read_text()) == (0, FIXED), told.stderr
    stop(process)


@pytest.mark.sampled(0)
def test_an_expensive_plan_waits_for_a_person_and_on_hold_nothing_is_started(yard: Yard) -> None:
    """CTO-4: above the threshold of a task; an answer lets exactly this plan go on."""
    costly = add(yard, "Make add() add")
    assert yard.flyball("hold").returncode == 0
    process = up(yard, "up.approve_usd=0.01", planner=[plan("Mend")], worker=[MEND])
    wait(
        process,
        lambda: any(row.state == "IDLE" and row.status == "running" for row in rows(yard, machine="cto")),
    )
    time.sleep(1)
    assert rows(yard, machine="cto")[-1].state == "IDLE" and "On hold" in yard.flyball("task", "ls").stdout
    yard.flyball("release")
    wait(process, lambda: any(row.question for row in rows(yard, machine="cto")))
    (asking,) = (row for row in rows(yard, machine="cto") if row.question)
    assert "The estimate of $2.00" in yard.flyball("inbox").stdout and not rows(yard, machine="task")
    assert yard.flyball("answer", asking.question, "proceed").returncode == 0
    wait(process, lambda: outcomes(yard).get(costly) == "done")
    stop(process)


@pytest.mark.sampled(0)
def test_urgent_work_comes_between_and_the_interrupted_run_goes_on(yard: Yard) -> None:
    slow = {"sleep_s": 3, "say": "still at it"}
    first = add(yard, "Make add() add")
    process = up(yard, planner=[plan("Mend"), plan("Close the leak")], worker=[slow, MEND])
    wait(process, lambda: rows(yard, machine="loop"))
    done = yard.flyball("trigger", "security", "--text", "A token leaked", "--json")
    urgent = json.loads(done.stdout)["task"]
    wait(process, lambda: outcomes(yard).keys() >= {first, urgent})
    stop(process)
    assert list(outcomes(yard)) == [urgent, first], "the urgent one was done first"
    assert len(rows(yard, machine="task")) == 2, "the interrupted task is the same one"


def test_killed_in_the_middle_it_goes_on_and_nothing_is_done_twice(yard: Yard) -> None:
    first = add(yard, "Make add() add")
    process = up(yard, planner=[plan("Mend")], worker=[{"sleep_s": 2, **MEND}])
    wait(process, lambda: rows(yard, machine="loop"))
    process.kill()
    process.communicate()
    lines = json.loads(yard.flyball("doctor", "--json").stdout)
    assert [line["cure"] for line in lines if line["topic"] == "runs"] == [f"flyball up --repo {yard.repo}"]
    again = up(yard, planner=[plan("Mend")], worker=[{"sleep_s": 1, **MEND}])
    wait(again, lambda: outcomes(yard).get(first) == "done")
    second = yard.flyball("up", "--agent", "mechanic")
    assert second.returncode == 2 and "already running" in second.stderr
    stop(again)
    (task,), (lane,) = rows(yard, machine="task"), rows(yard, machine="cto")
    shown = json.loads(yard.flyball("task", "show", first, "--json").stdout)
    assert (shown["state"], [run["run"] for run in shown["runs"]]) == ("done", [task.run])
    assert f"{first} has ended (done)" in yard.flyball("task", "cancel", first).stderr
    assert "Nothing to resume" in yard.flyball("resume").stdout, "a lane is continued by `up`"
    assert "Continue with `flyball up`" in yard.flyball("resume", lane.run).stderr


@pytest.mark.sampled(0)
def test_a_disk_that_fills_is_one_sentence_and_nothing_is_lost_or_done_twice(yard: Yard) -> None:
    first = add(yard, "Make add() add")
    process = up(yard, planner=[plan("Mend")], worker=[MEND])
    wait(process, lambda: rows(yard, machine="task"))
    most = 60_000 + max(file.stat().st_size for file in yard.state.glob("journal.db*"))
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, most))
    _, err = process.communicate(timeout=60)
    assert (
        process.returncode == 2 and err.startswith("flyball: The disk that holds ") and err.count("\n") == 1
    )
    assert "Then continue with `flyball up`." in err
    again = up(yard, planner=[plan("Mend")], worker=[MEND])
    wait(again, lambda: outcomes(yard).get(first) == "done")
    stop(again)
    assert [len(rows(yard, machine=name)) for name in ("cto", "task")] == [1, 1]


@pytest.mark.sampled(0)
def test_a_plan_that_cannot_be_read_is_asked_for_again(yard: Yard) -> None:
    first = add(yard, "Make add() add")
    odd = [{"outcome": "planned", "data": {"steps": steps}} for steps in ("x", [{"name": "Mend"}])]
    process = up(yard, planner=[*odd, plan("Mend")], worker=[MEND])
    wait(process, lambda: outcomes(yard).get(first) == "done")
    assert stop(process).count("failed: a plan is {steps: ") == 2 * 2, "also by the planner of the run below"


@pytest.mark.sampled(0)
def test_a_target_branch_that_was_deleted_is_asked_for_and_the_change_lands_on_it(yard: Yard) -> None:
    first, before = add(yard, "Make add() add"), yard.git("rev-parse", "HEAD")
    process = up(yard, "run.commit=merge", planner=[plan("Mend")], worker=[{"sleep_s": 1, **MEND}])
    wait(process, lambda: rows(yard, machine="loop"))
    yard.git("checkout", "-q", "-b", "other")
    yard.git("branch", "-D", "main")
    wait(process, lambda: any(row.question for row in rows(yard, machine="task")))
    (asking,) = (row for row in rows(yard, machine="task") if row.question)
    assert "has no branch 'main'" in yard.flyball("inbox").stdout and not outcomes(yard)
    yard.git("branch", "main", before.strip())
    assert yard.flyball("answer", asking.question, "retry").returncode == 0
    wait(process, lambda: outcomes(yard).get(first) == "done")
    stop(process)
    assert yard.git("show", "main:calc.py") == FIXED.strip()


def test_the_backlog_takes_lists_and_refuses_what_cannot_be(yard: Yard) -> None:
    (yard.folder / "todo.md").write_text("# Plan\n\n- [ ] Mend add\n- [x] Done already\n* [ ] Add double\n")
    (yard.folder / "todo.json").write_text('["One", {"text": "Two", "priority": 90, "later": true}]')
    assert yard.flyball("task", "import", str(yard.folder / "todo.md")).stdout.startswith("2 tasks added.")
    assert yard.flyball("task", "import", str(yard.folder / "todo.md")).stdout.startswith(
        "0 tasks added. 2 were"
    )
    yard.flyball("task", "import", str(yard.folder / "todo.json"))
    waiting = json.loads(yard.flyball("task", "ls", "--json").stdout)["waiting"]
    assert [one["text"] for one in waiting] == ["Two", "Mend add", "Add double", "One"]
    two, mend, double, _ = (one["task"] for one in waiting)
    yard.flyball("task", "edit", double, "--after", mend, "--priority", "60")
    yard.flyball("task", "edit", two, "--priority", "50")
    assert json.loads(yard.flyball("task", "show", two, "--json").stdout)["priority"] == 50
    yard.flyball("task", "cancel", two)
    after = json.loads(yard.flyball("task", "ls", "--json").stdout)["waiting"]
    assert [(one["text"], one["after"]) for one in after][:1] == [("Add double", [mend])]
    (yard.folder / "bad.json").write_text('[\n"One",\n}')
    (yard.folder / "odd.json").write_text('["One", {"text": "Two", "priority": 200}]')
    (yard.folder / "none.md").write_text("Nothing to tick here.\n")
    (yard.folder / "near.md").write_text("- [ ] One\n- [] Two\n")
    (yard.folder / "latin.md").write_bytes(b"- [ ] One\n- [ ] caf\xe9\n")
    for words, says in (
        (("edit", mend, "--after", double), "forever"),
        (("edit", mend, "--after", mend), "itself"),
        (("add", "x", "--after", "T999"), "no task or run T999"),
        (("add", " "), "empty"),
        (("add", "x", "--plan", "PLAN.txt"), "no plan file"),
        (("cancel", two), f"No task '{two}' is waiting"),
        (("import", str(yard.folder / "bad.json")), "line 3"),
        (("import", str(yard.folder / "odd.json")), "odd.json: item 2, priority: expected int <= 100."),
        (("import", str(yard.folder / "none.md")), "no check-list items"),
        (("import", str(yard.folder / "near.md")), "near.md, line 2: this is not a check-list item"),
        (("import", str(yard.folder / "latin.md")), "latin.md, line 2: this is not UTF-8"),
        (("import", str(yard.folder / "gone.md")), "gone.md cannot be read"),
        (("add", "x", "--after", "gate:a b"), "gate:NAME"),
        (("ls", "--state", "nonsense"), "not a state of a task"),
    ):
        done = yard.flyball("task", *words)
        assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1, (
            words,
            done.stderr,
        )
    left = [one["task"] for one in json.loads(yard.flyball("task", "ls", "--json").stdout)["waiting"]]
    assert (sorted(left), add(yard, "Another")) == (["T1", "T2", "T3"], "T5"), "T4 was cancelled"


@pytest.mark.sampled(0)
def test_settings_are_read_anew_and_a_lane_with_nothing_to_do_makes_way_for_one_that_has_them(
    yard: Yard,
) -> None:
    process = up(yard, "up.schedule=[]", planner=[plan("One")], worker=[MEND])
    first = add(yard, "One")
    wait(process, lambda: rows(yard, machine="cto") and outcomes(yard).get(first) == "done")
    wait(process, lambda: rows(yard, machine="cto")[0].state == "IDLE")
    stop(process)
    never = yard.flyball("up", "--set", 'up.schedule=["0 0 31 2 * X"]')
    assert never.returncode == 2 and "matches some date" in never.stderr and never.stderr.count("\n") == 1
    process = up(yard, "budget.usd=7", "up.parallel=3", planner=[plan("Two")], worker=[MEND])
    wait(process, lambda: [row.status for row in rows(yard, machine="cto")] == ["ended", "running"])
    old, new = rows(yard, machine="cto")
    cause = json.loads(yard.flyball("show", old.run, "--json").stdout)["stop_reason"]
    assert cause["rule"] == "its settings have changed"
    yard.flyball("cancel", new.run)
    wait(process, lambda: [row.status for row in rows(yard, machine="cto")] == ["ended", "ended", "running"])
    second = add(yard, "Two", "--after", first)
    wait(process, lambda: outcomes(yard).get(second) == "done")
    assert "Traceback" not in stop(process)


def test_a_task_that_waits_for_a_cancelled_one_is_named_and_can_be_changed(yard: Yard) -> None:
    process = up(yard, planner=[{"ask": "Which one?"}])
    first = add(yard, "One")
    second = add(yard, "Two", "--after", first)
    wait(process, lambda: rows(yard, machine="cto", open_question=True))
    yard.flyball("cancel", rows(yard, machine="cto")[0].run)
    wait(process, lambda: [row.status for row in rows(yard, machine="cto")] == ["ended", "running"])
    stop(process)
    assert json.loads(yard.flyball("task", "show", first, "--json").stdout)["state"] == "cancelled"
    process = up(yard)
    wait(process, lambda: rows(yard, machine="cto", status="running"))
    assert f"{second} waits for {first}, which ended as cancelled" in stop(process)
    assert yard.flyball("task", "edit", second, "--after", "none").returncode == 0
    assert json.loads(yard.flyball("task", "show", second, "--json").stdout)["after"] == []


@pytest.mark.sampled(0)
def test_the_tick_of_a_check_list_is_part_of_the_commit(yard: Yard) -> None:
    """CTO-6: of the item that was done, in the commit that does it; other items stay as they are, and none is imported
    twice."""
    text = "# Todo\n\n- [ ] Make add() add\n- [ ] Deploy to production\n"
    yard.make({"TODO.md": text})

    def added() -> str:
        return yard.flyball("task", "import", "TODO.md").stdout.partition(" added")[0]

    assert added() == "2 tasks"
    process = up(yard, planner=[plan("One")], worker=[MEND])
    wait(process, lambda: any(row.question for row in rows(yard, machine="cto")))
    assert added() == "0 tasks", "one is done and has not landed, the other waits for a person"
    stop(process)
    (done,) = rows(yard, machine="task")
    assert yard.flyball("land", done.run).returncode == 0
    assert yard.git("show", "main:TODO.md") == text.replace("[ ] Make", "[x] Make").strip()
    last = [yard.git("log", "-1", "--format=%h", "main", "--", name) for name in ("TODO.md", "calc.py")]
    assert last[0] == last[1], "one commit has both"
    (yard.repo / "TODO.md").write_text(text)
    assert added() == "1 task", "somebody wants it again"


def test_in_the_background_it_runs_or_says_why_not(yard: Yard) -> None:
    agent = yard.script(planner=[{"say": "x"}])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yard.env[SECRET] = "a secret of some length"
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        words = ("up", "--detach", "--agent", agent, "--set", f"up.webhook={address}")
        failed = yard.flyball(*words)
        assert failed.returncode == 2 and f"up.webhook: {address} cannot be used" in failed.stderr
    assert yard.flyball(*words).returncode == 0
    with pytest.raises(HTTPError, match="401"):  # it listens
        urllib.request.urlopen(f"http://{address}/tasks", timeout=10)
    again = yard.flyball(*words)
    assert again.returncode == 2 and "is already running" in again.stderr
    assert yard.flyball("down").returncode == 0


@pytest.mark.sampled(0)
def test_the_pages_say_what_goes_on_and_an_edit_is_kept_but_not_believed(yard: Yard) -> None:
    out = yard.repo / ".flyball" / "out"
    risky = add(yard, "Change the dependencies of the project")
    process = up(yard, planner=[plan("Do it")], worker=[MEND])
    wait(process, lambda: any(row.question for row in rows(yard, machine="cto")))
    (asking,) = (row for row in rows(yard, machine="cto") if row.question)
    wait(process, lambda: "WAITING_FOR_HUMAN" in (out / "LAST_KNOWN_STATE.md").read_text())
    later = add(yard, "Make add() add", "--later")
    ledger = out / "STATUS_LEDGER.md"
    state, page = (out / name for name in ("LAST_KNOWN_STATE.md", "PLAN.md"))
    assert "Change the dependencies" in ledger.read_text() and "T2" in ledger.read_text()
    assert asking.question in ledger.read_text(), "it says how to answer"
    assert "WAITING_FOR_HUMAN" in state.read_text() and "- [ ] Do it (calc.py)" in page.read_text()
    assert yard.flyball("check").returncode == 0
    ledger.write_text(ledger.read_text().replace("T2", "T3") + "All is well.\n")
    found = yard.flyball("check")
    assert found.returncode == 1 and "STATUS_LEDGER.md was edited by hand" in found.stdout
    assert yard.flyball("answer", asking.question, "proceed").returncode == 0
    wait(process, lambda: outcomes(yard).get(risky) == "done")
    assert yard.git("status", "--porcelain") == "", "what is written for people is no change"
    assert later in ledger.read_text() and "All is well" not in ledger.read_text()
    copy = out / "STATUS_LEDGER.edited.md"
    assert "All is well" in copy.read_text()
    stop(process)
    assert "STATUS_LEDGER.md was edited by hand" in yard.flyball("check").stdout, (
        "also after it was written anew"
    )
    copy.unlink()
    assert yard.flyball("check").returncode == 0


@pytest.mark.sampled(0)
def test_what_cannot_be_settled_by_rule_waits_for_a_person(yard: Yard) -> None:
    """CTO-13: the branch that results go to was deleted while nothing ran."""
    process = up(yard)
    wait(process, lambda: any(row.state == "IDLE" for row in rows(yard, machine="cto")))
    process.kill()
    process.communicate()
    yard.git("checkout", "-qb", "other")
    yard.git("branch", "-qD", "main")
    again = up(yard, planner=[plan("Mend")], worker=[MEND])
    wait(again, lambda: any(row.question for row in rows(yard, machine="cto")))
    (asking,) = (row for row in rows(yard, machine="cto") if row.question)
    assert "The branch 'main' that results go to was deleted" in yard.flyball("inbox").stdout
    assert "wait.mismatch" in yard.flyball("why", asking.run, "--json").stdout
    yard.git("branch", "main")
    first = add(yard, "Make add() add")
    assert yard.flyball("answer", asking.question, "drop").returncode == 0
    wait(again, lambda: outcomes(yard).get(first) == "done")
    stop(again)


@pytest.mark.sampled(0)
def test_a_change_that_is_riskier_than_its_plan_is_asked_about(yard: Yard) -> None:
    """CTO-3: the tier is computed again from the files of each turn; a person's yes is for that change."""
    first = add(yard, "Make add() add")
    more = {"write": {"calc.py": FIXED, "requirements.txt": "six\n"}, **DONE}
    process = up(yard, planner=[plan("Mend")], worker=[more])
    wait(process, lambda: any(row.question for row in rows(yard, machine="loop")))
    (asking,) = (row for row in rows(yard, machine="loop") if row.question)
    said = yard.flyball("inbox").stdout
    assert "The plan is T3, and this change is T2." in said and "requirements.txt" in said
    assert yard.flyball("approve", asking.question).returncode == 0
    wait(process, lambda: outcomes(yard).get(first) == "done")
    stop(process)


def test_plans_follow_the_governance_files_and_are_held_against_the_guard(yard: Yard) -> None:
    """CTO-2: the planner is told of the files, their hashes are kept, and what the guard would undo is said at once."""
    yard.make({"RULES.md": "Change one module at a time.\n"})
    add(yard, "Make add() add")
    process = up(yard, "up.governance=RULES.md", planner=[plan("Mend", paths=("calc.py", ".git/config"))])
    wait(process, lambda: any(row.question for row in rows(yard, machine="cto")))
    (lane,) = rows(yard, machine="cto")
    assert "The plan changes .git/config, which the guard denies" in yard.flyball("inbox").stdout
    stop(process)
    assert "The plan must follow them: RULES.md" in yard.flyball("show", lane.run, "--prompt", "1").stdout
    with contextlib.closing(SqliteJournal(yard.state / "journal.db")) as journal:
        assessment = load(journal, lane.run)[0].plan.assessment
    digest = hashlib.sha256((yard.repo / "RULES.md").read_bytes()).hexdigest()
    assert assessment is not None and assessment.governance == {"RULES.md": digest}
