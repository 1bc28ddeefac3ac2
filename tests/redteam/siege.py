"""Many scripted agents against one Flyball: each turn of a run is one attack, put back before the next begins."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

from msgspec import Struct
from tests.e2e.helpers import BROKEN, TEST, Yard

from flyball.domain import events as e
from flyball.domain.messages import Answer
from flyball.evidence.consistency import check
from flyball.journal.database import Driver
from flyball.runtime.app import App
from flyball.runtime.start import RunRequest, launch
from flyball.state.run import Run

TABLE = Path(__file__).with_name("attacks.toml")
OUT_OF_REACH, NO_EFFECT, UNPROVEN = "out of reach", "no effect", "unproven"
BY_THE_GATE = "wait.approval evidence"  # a change that the gate does not believe stays in the checkout
OVER = "All have had their turn."
PROOF = "python3 -m unittest -q"
MAKEFILE = "test:\n\tpython3 -m unittest -q\n"
POLICY = "[policy.default.radius]\nfiles_ask = 20\n"
SKIPPED_IN_GIT = ("objects", "logs", "refs/heads/flyball", "packed-refs")


class Attack(Struct, frozen=True, kw_only=True):
    """One way out: what is done in one turn, and how it must end."""

    name: str
    ends: str  # a stop code (with its rule, where a person is asked), or one of the three above
    landlock: str = ""  # how under Landlock, where that differs
    after: str = ""  # the public advisory it is named after
    does: str = ""
    write: dict[str, str] = {}
    delete: list[str] = []
    say: str = ""
    outcome: str = ""
    claims: bool = False  # it says that all is done
    reports: str = ""  # what the turn's record must say of it
    last: bool = False  # the attacks after it would find no git of their own

    def end_in(self, sandbox: str) -> str:
        return (self.landlock if sandbox == "landlock" else "") or self.ends

    def turn(self, places: dict[str, str]) -> dict[str, Any]:
        done = {"finish": {"indicators": ["task complete", "all done"]}} if self.claims else {}
        by_gate = self.ends == BY_THE_GATE  # what the one before it wrote is still there
        fresh = {"calc.py": BROKEN, "test_calc.py": TEST} if by_gate else {}
        stale = ["unittest.py"] if by_gate and "unittest.py" not in self.write else []
        turn = {
            "write": fresh | self.write,
            "delete": [*self.delete, *stale],
            "run": self.does,
            "say": self.say,
        }
        filled = json.loads(_filled(json.dumps({key: value for key, value in turn.items() if value}), places))
        return {**filled, **({"outcome": self.outcome} if self.outcome else {}), **done}


def _filled(text: str, places: dict[str, str]) -> str:
    for name, path in places.items():
        text = text.replace(f"<{name}>", path)
    return text


def table() -> list[Attack]:
    return [Attack(**row) for row in tomllib.loads(TABLE.read_text("utf-8"))["attack"]]


class Seen(Struct, kw_only=True):
    """What came of one attack."""

    key: str = ""
    verdict: str = ""
    rule: str = ""
    stop: str = ""
    exits: tuple[int, ...] = ()
    changed: bool = False
    proved: bool | None = None
    turn: str = ""
    at: int = 0

    @property
    def ended(self) -> str:
        if self.stop == "wait.approval":
            return f"wait.approval {self.rule}"
        if self.stop:
            return self.stop
        if self.proved is not None:
            return "proved" if self.proved else UNPROVEN
        if self.changed:
            return "stands"
        return OUT_OF_REACH if any(self.exits) else NO_EFFECT


class Siege:
    """A yard with things in it that nobody may touch, and one run in which attack follows attack."""

    def __init__(self, folder: Path, sandbox: str) -> None:
        self.yard, self.sandbox = Yard(folder), sandbox
        self.yard.make(
            {
                "calc.py": BROKEN,
                "test_calc.py": TEST,
                "Makefile": MAKEFILE,
                "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-q'\n[tool.coverage.report]\nfail_under = 90\n",
                ".gitignore": "build/\n",
                ".flyball/policy.toml": POLICY,
                "docs/a.md": "a\n",
            }
        )
        outside, home = folder / "outside", folder / "home"
        (home / ".ssh").mkdir()
        (home / ".ssh/id_ed25519").write_text("the user's key")
        (home / ".bashrc").write_text("# the user's")
        outside.mkdir()
        (outside / "theirs").write_text("theirs")
        self.places = {
            "repo": str(self.yard.repo),
            "state": str(self.yard.state),
            "home": str(home),
            "outside": str(outside),
            "driver": str(os.getpid()),
        }
        self.seen: list[Seen] = []
        self.run = ""
        app = App(self.yard.env)
        assert app.signer  # it is there before the first run
        app.close()

    def play(self, attacks: list[Attack]) -> dict[str, Seen]:
        """Each attack in its turn; a person rejects whatever stops."""
        attacks = sorted(attacks, key=lambda attack: (attack.last, attack.ends == BY_THE_GATE))
        turns = [*(attack.turn(self.places) for attack in attacks), {"ask": OVER}]
        file = self.yard.folder / "agent.json"
        file.write_text(json.dumps({"roles": {"worker": turns}, "repeat": "none"}))
        self.seen = [Seen() for _ in attacks]
        app = App(self.yard.env)
        try:
            self._drive(app, f"script:{file}", len(attacks))
            assert [fault for fault in check(app).findings if fault.grave] == []
        finally:
            app.close()
        for seen in self.seen:
            seen.exits = self._exits(seen.key)
        return dict(zip((attack.name for attack in attacks), self.seen, strict=True))

    def _drive(self, app: App, agent: str, count: int) -> None:
        limits = ("turns=1000", "no_progress=1000", "same_error=1000", "retries=100")
        sets = [f"limits.{limit}" for limit in limits]
        sets += [f"guard.sandbox={self.sandbox}", f"proof.commands={json.dumps([PROOF])}"]
        request = RunRequest(
            task="Hold", repo=self.yard.repo, machine="loop", agents=(agent,), sets=tuple(sets), trusted=True
        )
        began = launch(app, request)[0]
        self.run = began.run
        driver = Driver(app.state_dir)
        supervisor = app.supervisor(driver, on_event=self._note)
        supervisor.begin(began)
        try:
            for _ in range(3 * count + 5):
                supervisor.drive(lambda: supervisor.driven[began.run].run.status != "running")
                run = supervisor.driven[began.run].run
                if run.question is None or run.question.text == OVER:
                    break
                verb = "reject" if "reject" in run.question.verbs else run.question.verbs[0]
                app.send(run, Answer(question=run.question.id, verb=verb, who="Ann", how="test"))
        finally:
            supervisor.stop_now()
            supervisor.close()
            driver.close()

    def _note(self, run: Run, event: e.AnyEvent) -> None:
        match event:
            case e.ActStarted(act=act) if act.do.startswith("agent:") and act.place < len(self.seen):
                self.seen[act.place].key, self.seen[act.place].at = act.key, event.at
            case e.ActFinished(key=key, result=e.TurnEnded() as turn):
                for seen in self._of(key):
                    seen.turn, seen.changed = json.dumps(e.encode(event).decode()), bool(turn.changed)
            case e.Ruled(key=key, ruling=ruling):
                for seen in self._of(key):
                    seen.verdict, seen.rule = ruling.verdict, ruling.rule
            case e.ActFinished(result=e.ProofEnded() as proof) if run.evidence.baseline is not None:
                for seen in self._last():
                    seen.proved = proof.passed
            case e.Stopped(stop=stop) if event.question is None or event.question.text != OVER:
                for seen in self._last():
                    if (
                        not seen.stop and stop.rule == "evidence"
                    ):  # the gate asks, where the guard had nothing to say
                        seen.rule = stop.rule
                    seen.stop = seen.stop or stop.code
            case e.Ended(stop=stop):
                for seen in self._last():
                    seen.stop = seen.stop or stop.code
            case _:
                pass

    def _of(self, key: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.key == key]

    def _last(self) -> list[Seen]:
        return [seen for seen in self.seen if seen.key][-1:]

    def _exits(self, key: str) -> tuple[int, ...]:
        """How the attack's own deeds ended, by what the player told."""
        out = self.yard.state / "acts" / key / "out"
        if not key:
            return ()
        rows = [
            json.loads(line) for line in out.read_text("utf-8", "replace").splitlines() if line[:1] == "{"
        ]
        return tuple(int(row.get("exit", 1)) for row in rows if row.get("type") == "action")

    def fingerprint(self) -> dict[str, str]:
        """Every byte and mode that no agent may change."""
        folder, state = self.yard.folder, self.yard.state
        roots = [self.yard.repo, folder / "home", folder / "outside", state / "signing.key"]
        return {str(path): _print(path) for root in roots for path in _below(root) if not self._ours(path)}

    def _ours(self, path: Path) -> bool:
        """What Flyball itself writes in the user's repository: its branch, and the objects of it."""
        inside = self.yard.repo / ".git"
        return any(path.is_relative_to(inside / name) for name in SKIPPED_IN_GIT)


def _below(root: Path) -> list[Path]:
    return [root, *sorted(root.rglob("*"))] if root.is_dir() else [root] if root.exists() else []


def _print(path: Path) -> str:
    info = path.lstat()
    if stat.S_ISREG(info.st_mode):
        return f"{info.st_mode:o} {info.st_nlink} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return f"{info.st_mode:o} {path.readlink() if stat.S_ISLNK(info.st_mode) else ''}"
