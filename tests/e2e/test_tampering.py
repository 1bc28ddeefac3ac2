"""Whatever is done to a journal behind its back, by somebody without the key, is found, and the run and event named.

What is not found, and cannot be: what the holder of the signing key writes; the whole state directory put back to
an older copy of itself, heads and journal together; letters and leases, which are no history.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest
from msgspec.structs import replace
from tests.e2e.forger import DEEDS, Loot, Named
from tests.e2e.helpers import ACCEPTS, FIXED, STILL_BROKEN, Yard
from tests.support import Script, begun, finish, judged, ok

from flyball.core.decide import Finished, Interrupted
from flyball.domain import events as e
from flyball.domain.settings import Settings
from flyball.errors import JournalError
from flyball.evidence.consistency import CheckReport, check
from flyball.journal.database import Driver
from flyball.journal.records import Heads
from flyball.journal.types import REGISTRY
from flyball.runtime.app import App
from flyball.runtime.start import RunRequest, launch
from flyball.state.run import Run

CHUNKS = 4
LONG = 24  # turns: enough for a snapshot


class Made(NamedTuple):
    """A state directory with runs in it, and its journal as it was half-way."""

    yard: Yard
    older: Path


class Quick:
    """Acts that come to something at once, without a process."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def start(self, run: Run, act: e.Act, post: Callable[[Finished | Interrupted], None]) -> None:
        reply = self.script(run, act)
        assert not isinstance(reply, str)
        post(reply if isinstance(reply, Finished) else judged(act, reply))

    def stop(self, key: str, now: bool) -> None: ...

    def tidy(self, run: Run) -> None: ...


def drive(app: App, event: e.RunBegan, quick: Quick | None = None) -> None:
    driver = Driver(app.state_dir)
    supervisor = app.supervisor(driver)
    if quick:
        supervisor.performer = quick
    supervisor.begin(event)
    supervisor.drive(lambda: supervisor.driven[event.run].run.status != "running")
    app.heads.flush()
    supervisor.close()
    driver.close()


def real(app: App, yard: Yard, coder: list[dict[str, object]]) -> None:
    """A build run with real processes."""
    agent = yard.script(coder=coder, critic=ACCEPTS)
    sets = ('proof.commands=["grep -q a.+.b calc.py"]', "guard.sandbox=none")
    drive(app, launch(app, RunRequest(task="Mend it", repo=yard.repo, agents=(agent,), sets=sets))[0])


def quick(app: App, name: str, machine: str, **plays: object) -> None:
    settings = Settings(proof=("prove",), agents={"default": "script:x"})
    event = replace(begun(machine, settings), run=name, root=name, at=app.clock.now())
    done = {"commit": lambda run, act: e.CommitEnded(outcome="committed", tree=act.tree, commit="c")}
    drive(app, event, Quick(Script(**{**done, **plays})))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    yard = Yard(tmp_path_factory.mktemp("made"))
    yard.make({".flyball/flyball.toml": "[limits]\nfix = 3\n"})
    app = App(yard.env)
    real(app, yard, [{"write": {"calc.py": STILL_BROKEN}}, {"write": {"calc.py": FIXED}}])
    quick(app, "longloop", "loop", agent__worker=[*(ok(f"t{n}") for n in range(LONG)), finish("t99")])
    app.close()
    older = tmp_path_factory.mktemp("older") / "journal.db"
    shutil.copy(yard.state / "journal.db", older)
    app = App(yard.env)
    quick(app, "thetask", "task")
    real(app, yard, [{"write": {"calc.py": FIXED, ".github/workflows/a.yml": "on: push\n"}}])
    app.close()
    assert not (yard.state / "journal.db-wal").exists()
    return Made(yard, older)


def copied(made: Made, folder: Path) -> Path:
    """All of the state that a deed may touch; the runs' folders are shared."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("journal.db", "signing.key"):
        shutil.copy(made.yard.state / name, folder / name)
    shutil.copytree(made.yard.state / "heads", folder / "heads")
    (folder / "runs").symlink_to(made.yard.state / "runs")
    return folder


def looked_at(made: Made, state: Path) -> CheckReport:
    app = App({**made.yard.env, "FLYBALL_STATE_DIR": str(state)})
    try:
        return check(app)
    finally:
        app.close()


def test_an_untouched_journal_is_clean(made: Made, tmp_path: Path) -> None:
    checked = looked_at(made, copied(made, tmp_path / "state"))
    assert checked.findings == [] and checked.runs >= 6 and checked.events > 150


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "chunk" in metafunc.fixturenames:
        metafunc.parametrize("chunk", range(CHUNKS))


def test_every_tampering_is_found_and_named(
    made: Made, tmp_path: Path, chunk: int, request: pytest.FixtureRequest
) -> None:
    most = int(request.config.getoption("--tamperings"))
    for number in range(chunk, most, CHUNKS):
        loot = Loot(copied(made, tmp_path / "state"), made.older, random.Random(number))
        deed = DEEDS[number % len(DEEDS)] if number < 2 * len(DEEDS) else loot.chance.choice(DEEDS)
        named = deed(loot)
        loot.close()
        findings = looked_at(made, tmp_path / "state").findings
        assert any(names(f.run, f.seq, f.message, named) for f in findings), (number, deed, named, findings)


def names(run: str, seq: int, message: str, wanted: Named) -> bool:
    """The finding is of such a run, says so, and gives the event's number."""
    if wanted.runs and run not in wanted.runs:
        return False
    told = run in message and (seq == 0 or re.search(rf"\b{seq}\b", message))
    return bool(told) and wanted.seq in (None, seq)


def test_a_flipped_bit_of_the_file_is_found_or_changes_nothing(made: Made, tmp_path: Path) -> None:
    before = contents(made.yard.state / "journal.db")
    for number in range(20):
        chance, state = random.Random(number), copied(made, tmp_path / "state")
        data = bytearray((state / "journal.db").read_bytes())
        data[chance.randrange(100, len(data))] ^= 1 << chance.randrange(8)
        (state / "journal.db").write_bytes(data)
        try:
            found = bool(looked_at(made, state).findings)
        except JournalError:
            found = True
        assert found or contents(state / "journal.db") == before, number


def contents(path: Path) -> list[list[object]]:
    db = apsw.Connection(str(path))
    tables = ("registry", "run", "event", "snapshot")
    found = [db.execute(f"SELECT * FROM {table}").fetchall() for table in tables]
    db.close()
    return found


def test_whoever_has_the_key_can_write_another_history(made: Made, tmp_path: Path) -> None:
    """What cannot be found is said here, so that nobody believes otherwise."""
    state = copied(made, tmp_path / "state")
    loot = Loot(state, made.older, random.Random(1))
    run, n, last = loot.ask("SELECT run, n, seq FROM run WHERE run = 'longloop'")[0]
    loot.forge(n, last + 1)
    loot.rechain(run, n)
    registry = loot.ask("SELECT n, hash FROM registry ORDER BY n DESC LIMIT 1")[0]
    head = loot.ask("SELECT hash FROM event WHERE id = ?", n * (1 << 32) + last + 1)[0][0]
    at = loot.ask("SELECT at FROM event ORDER BY id DESC LIMIT 1")[0][0]
    loot.ask(
        "UPDATE run SET updated_at = (SELECT at FROM event WHERE id = ?) WHERE n = ?",
        n * (1 << 32) + last + 1,
        n,
    )
    loot.close()
    assert looked_at(made, state).findings
    heads = Heads(state / "heads", App({**made.yard.env, "FLYBALL_STATE_DIR": str(state)}).signer)
    (state / "heads" / "@registry.json").unlink()
    heads.note(run, last + 1, head.hex(), at, at_once=True)
    heads.note(REGISTRY, registry[0], registry[1].hex(), at, at_once=True)
    assert looked_at(made, state).findings == []


# ---- through the command line ------------------------------------------------------------------------------


def test_check_says_it_in_sentences_and_by_exit_code(made: Made, tmp_path: Path) -> None:
    state = copied(made, tmp_path / "state")
    env = {"FLYBALL_STATE_DIR": str(state)}
    clean = made.yard.flyball("check", env=env)
    assert (clean.returncode, clean.stderr) == (0, "") and "No problems found" in clean.stdout
    db = apsw.Connection(str(state / "journal.db"))
    ((n,),) = db.execute("SELECT n FROM run WHERE run = 'longloop'").fetchall()
    db.execute("UPDATE event SET at = at + 1 WHERE id = ?", (n * (1 << 32) + 5,))
    db.close()
    told = made.yard.flyball("check", "--json", env=env)
    facts = json.loads(told.stdout)
    assert told.returncode == 1 and not facts["clean"]
    assert [(f["run"], f["seq"], f["grave"]) for f in facts["findings"]] == [("longloop", 5, True)]
    assert made.yard.flyball("check", "thetask", env=env).returncode == 0
    for words in (("check", "longloop"), ("verify", "longloop")):
        said = made.yard.flyball(*words, env=env)
        assert said.returncode == 1 and "event 5 is not what was written" in said.stdout, said
    (state / "journal.db").write_bytes(b"no database" * 1000)
    broken = made.yard.flyball("check", env=env)
    assert broken.returncode == 2 and "journal.db" in broken.stderr and "Traceback" not in broken.stderr


def test_verify_and_check_tell_of_a_run_that_is_gone(made: Made, tmp_path: Path) -> None:
    state = copied(made, tmp_path / "state")
    loot = Loot(state, made.older, random.Random(1))
    ((n,),) = loot.ask("SELECT n FROM run WHERE run = 'longloop'")
    loot.drop_run("longloop", n)
    loot.close()
    for words in (("verify", "longloop"), ("check", "longloop")):
        said = made.yard.flyball(*words, env={"FLYBALL_STATE_DIR": str(state)})
        assert said.returncode == 1 and "longloop" in said.stdout, said


def test_a_changed_certificate_and_a_changed_pinned_file_are_found(made: Made, tmp_path: Path) -> None:
    state = tmp_path / "state"
    shutil.copytree(made.yard.state, state, ignore=shutil.ignore_patterns("*.bell"), symlinks=True)
    certificate = next(state.glob("runs/*/certificate.json"))
    run = certificate.parent.name
    certificate.write_bytes(certificate.read_bytes() + b" ")
    (certificate.parent / "pinned" / "flyball.toml").write_text("[limits]\nfix = 9\n")
    (certificate.parent / "pinned" / "policy.toml").write_text("")
    findings = looked_at(made, state).findings
    assert [(f.kind, f.run) for f in findings] == [("certificate", run), ("pinned", run), ("pinned", run)]
    assert {Path(w).name for f in findings for w in f.message.split() if "/" in w} == {
        *("certificate.json", "flyball.toml", "policy.toml")
    }


def test_what_a_killed_driver_left_is_a_loose_end(made: Made, tmp_path: Path) -> None:
    state = copied(made, tmp_path / "state")
    (state / "runs").unlink()
    (state / "runs" / "nobody1" / "pinned").mkdir(parents=True)
    (state / "runs" / "longloop" / "checkout").mkdir(parents=True)
    findings = looked_at(made, state).findings
    loose = [(f.kind, f.run) for f in findings if not f.grave]
    assert loose == [("leftover", "longloop"), ("leftover", "nobody1")]


def test_a_run_killed_right_after_its_end_is_vouched_for_by_the_registry(made: Made, tmp_path: Path) -> None:
    """Its last events are durable and not signed yet; the next signed head of the registry covers its end."""
    state = copied(made, tmp_path / "state")
    app = App({**made.yard.env, "FLYBALL_STATE_DIR": str(state)})
    entries, lines = list(app.journal.read("longloop")), list(app.journal.registered())
    behind = {"longloop": (entries[-4].seq, entries[-4].hash), REGISTRY: (lines[0].n, lines[0].hash)}
    app.close()
    found = list[list[tuple[str, str]]]()
    for name, head in behind.items():
        (state / "heads" / f"{name or '@registry'}.json").unlink()
        Heads(state / "heads", app.signer).note(name, *head, 1, at_once=True)
        found.append([(one.kind, one.run) for one in looked_at(made, state).findings])
    assert found == [[], [("head", "longloop")]]


def test_a_run_that_is_driven_meanwhile_is_no_finding(tmp_path: Path) -> None:
    yard = Yard(tmp_path)
    agent = yard.script(coder=[{"write": {"calc.py": FIXED}, "sleep_s": 0.3}], critic=ACCEPTS)
    driven = yard.start(*yard.words(agent, "--set", "guard.sandbox=none"))
    app, looks = App(yard.env), 0
    while driven.poll() is None:
        assert check(app).findings == []
        looks += 1
    driven.communicate()
    assert check(app).findings == [] and looks > 5
    app.close()
