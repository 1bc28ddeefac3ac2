"""kill -9 of `flyball up` again and again: every task is done once, no event is lost and no effect is doubled."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.helpers import Yard
from tests.e2e.test_up import DONE, add, outcomes, plan, rows, stop, wait

from flyball.evidence.consistency import check
from flyball.journal.sqlite import SqliteJournal
from flyball.lab.selftest.outside_witness import effects
from flyball.runtime.app import App
from flyball.runtime.backlog import mailbox

KILLED_WITHIN_S = 4.0
KILLS_A_TASK = 4


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    yield made
    made.clear()


def words(yard: Yard) -> list[str]:
    """Every turn and every proof leaves a line that Flyball knows nothing of; each run changes a file of its own."""
    witness = yard.folder / "witness"

    def turn(name: str, more: str = "true", **said: object) -> dict[str, object]:
        line = f"echo {name} $FLYBALL_RUN $FLYBALL_TURN $INVOCATION_ID >> {witness}"
        return {"run": f"{line}; sleep 0.1; {more}", **said}

    agent = yard.script(
        planner=[turn("plan", **plan("One", paths=("by",)))],
        validator=[turn("validate", say="OUTCOME: approved")],
        worker=[turn("work", "mkdir -p by; echo x >> by/$FLYBALL_RUN", **DONE)],
        critic=[turn("verify", say="OUTCOME: accepted")],
        reviewer=[turn("review", say="PASS")],
    )
    proof = f"run=${{HOME%/homes/*}}; echo proof ${{run##*/}} - $INVOCATION_ID >> {witness}; test -f calc.py"
    sets = (f"proof.commands={json.dumps([proof])}", "proof.bite=never", "proof.repeat=1", "run.commit=merge")
    given = [word for text in (*sets, "guard.sandbox=none") for word in ("--set", text)]
    return ["up", "--agent", agent, *given]


def heads(yard: Yard) -> dict[tuple[str, int], str]:
    """What is in the journal now must stay in it."""
    if not (yard.state / "journal.db").exists():
        return {}
    with contextlib.closing(SqliteJournal(yard.state / "journal.db")) as journal:
        known = {row.run: journal.head(row.run) for row in journal.rows()}
    return {(run, seq): head for run, (seq, head) in known.items()}


def drives(yard: Yard, pid: int) -> bool:
    """Whether this process has the lease of the backlog; only then can `flyball down` stop it."""
    with contextlib.closing(SqliteJournal(yard.state / "journal.db")) as journal:
        return journal.holder(mailbox(yard.repo)).startswith(f"{pid}-")


@pytest.mark.sampled(0)
def test_killed_again_and_again_it_does_every_task_once(yard: Yard, request: pytest.FixtureRequest) -> None:
    chance, seen = random.Random(5), dict[tuple[str, int], str]()
    kills = int(request.config.getoption("--kills"))
    tasks = [add(yard, f"Task {n}") for n in range(2 + kills // KILLS_A_TASK)]
    for number in range(kills):
        if number % 8 == 2:
            done = yard.flyball("trigger", "security", "--text", "A leak", "--json")
            tasks.append(json.loads(done.stdout)["task"])
        started = yard.start(*words(yard))
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.wait(chance.random() * KILLED_WITHIN_S)
            raise AssertionError(started.communicate())
        seen |= heads(yard)
        started.kill()
        started.communicate()
    last = yard.start(*words(yard))
    wait(last, lambda: drives(yard, last.pid) and outcomes(yard).keys() >= set(tasks), 240)
    stop(last)
    assert set(outcomes(yard).values()) == {"done"}
    made = rows(yard, machine="task")
    assert len(made) == len(tasks) and {row.end for row in made} == {"success"}
    names = yard.git("ls-tree", "-r", "--name-only", "main", "by").split()
    assert sorted(names) == sorted(f"by/{row.run}" for row in rows(yard, machine="loop") if row.turns)
    assert {yard.git("show", f"main:{name}") for name in names} == {"x"}
    with contextlib.closing(App(yard.env)) as app:
        assert [key for key in seen if app.journal.hash_at(*key) != seen[key]] == [], "events were lost"
        entries = [entry for row in app.journal.rows() for entry in app.journal.read(row.run)]
        found = effects(entries, yard.state / "acts", yard.folder / "witness")
        assert (found.doubled, found.unannounced) == (0, 0), found
        assert not [one for one in check(app).findings if one.grave]
