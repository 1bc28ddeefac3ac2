"""Record histories with the version that is installed: `python tests/histories/record.py [NAME …]`.

Each life is driven by the real command line in a folder of its own, with scripts for agents. What is stored is never
recorded again: a history belongs to the version that wrote it. Without names: all that this version has not stored.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path

from lives import LIVES, Life
from stored import FOLDER, ending, folded, read, write

from flyball import __version__
from flyball.agents import process
from flyball.core.decide import trigger
from flyball.domain import events as e
from flyball.journal import Draft, Entry
from flyball.journal.chain import extend
from flyball.lab.selftest.place import Place
from flyball.lab.selftest.scenarios import Plot
from flyball.runtime.app import App
from flyball.state.run import Run

sys.path.append(str(FOLDER.parent))  # for `support`
YARD = Path("/tmp/flyball-history")  # the same each time: it stands in the events
PATIENCE_S = 120


def record(life: Life) -> Path:
    shutil.rmtree(YARD, ignore_errors=True)
    place = Place(YARD)
    try:
        words = [*place.words(life.plot), *_second(life, place)]
        _killed(place, words) if life.kill else _done(place, words)
        for said in life.then:
            _done(place, list(said))
        return write(life.name, __version__, life.about, _clean(_runs(place)))
    finally:
        _kill_keepers(place)
        shutil.rmtree(YARD, ignore_errors=True)


def _second(life: Life, place: Place) -> list[str]:
    if not life.second:
        return []
    other = place.words(Plot("other", life.plot.machine, life.second))
    return ["--agent", f"reviewer={other[other.index('--agent') + 1]}"]


def _done(place: Place, words: list[str]) -> None:
    started = place.start(words)
    if started.wait(PATIENCE_S) == 2:
        raise SystemExit((place.folder / "said").read_text())


def _killed(place: Place, words: list[str]) -> None:
    """As when the power goes while the second turn works."""
    started = place.start(words)
    for _ in range(600):
        time.sleep(0.1)
        run = _read(place)
        if run is not None and run.turn and run.act is not None and run.act.do.startswith("agent:"):
            break
    time.sleep(0.5)
    started.kill()
    started.wait()
    _kill_keepers(place)


def _read(place: Place) -> Run | None:
    app = App(place.env)
    try:
        rows = app.journal.rows(parent="")
        return folded(list(app.journal.read(rows[0].run))) if rows else None
    finally:
        app.close()


def _kill_keepers(place: Place) -> None:
    acts = place.state / "acts"
    for claim in (*acts.glob("*/claim"), *acts.glob("*/*/claim")):
        if process.look(claim.parent) == "alive":
            os.kill(int(claim.read_text().partition(".")[0]), signal.SIGKILL)


def _runs(place: Place) -> dict[str, list[Entry]]:
    app = App(place.env)
    try:
        names = [row.run for row in reversed(app.journal.rows())]
        return {name: list(app.journal.read(name)) for name in names}
    finally:
        app.close()


def _clean(runs: dict[str, list[Entry]]) -> dict[str, list[Entry]]:
    """Nothing of this machine may be in it but the yard."""
    for entry in (entry for entries in runs.values() for entry in entries):
        places = set(re.findall(rb'"(/[a-z][^"]*)"', entry.body)) - {b"/"}
        strange = sorted(
            place for place in places if not place.startswith((b"/tmp/flyball-history", b"/usr/", b"/bin/"))
        )
        if strange:
            raise SystemExit(f"{entry.kind} names {strange[0].decode()}")
    return runs


# ---- the standing machine, by the rules alone


def standing() -> dict[str, list[Entry]]:
    """A plan approved, a task done, another halted, a plan dropped: no process is needed to tell that."""
    from support import Script, begun, start

    played = start(Script(run=[lambda run, act: Script().child(act), _halted]), begun("cto"))
    for outcome, answer in (("trigger", ""), ("trigger", "replan"), ("unresolved", "drop")):
        played.go_on()
        played.note(trigger(played.run, outcome, played.now))
        played.go_on()
        if answer:
            played.answer(answer)
        if played.run.state == "WAITING_FOR_HUMAN":
            played.answer("drop")
    assert played.run.state == "IDLE", played.path
    drafts = tuple(Draft(event.at, e.kind(event), e.encode(event)) for event in played.events)
    return {played.run.id: extend(played.run.id, 0, b"", drafts)}


def _halted(run: Run, act: e.Act) -> e.ChildEnded:
    return e.ChildEnded(
        run=act.child, end="failure", stop=e.Stop(code="failed.agent"), tree=act.tree, turns=2
    )


def main(names: list[str]) -> None:
    chosen = [life for life in LIVES if life.name in names] if names else LIVES
    for life in chosen:
        if (FOLDER / __version__ / f"{life.name}.jsonl.gz").exists():
            continue
        file = record(life)
        _, runs = read(file)
        ends = [ending(folded(entries)) for entries in runs.values()]
        told = ", ".join(f"{end['state']}/{end['status']}/{end['code']}" for end in ends)
        print(f"{life.name}: {sum(map(len, runs.values()))} events, {file.stat().st_size} bytes: {told}")
    if not (FOLDER / __version__ / "cto-standing.jsonl.gz").exists():
        print(write("cto-standing", __version__, "triggers, plans, tasks, people", standing()))


if __name__ == "__main__":
    main(sys.argv[1:])
