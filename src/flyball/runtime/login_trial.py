"""Try an agent's login: one turn as in a run, with its sandbox, its lent login and its network, in an empty repository."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from flyball.acts.checkout import prepare
from flyball.acts.run_files import RunFiles
from flyball.acts.turn import take_turn
from flyball.agents import process, sandbox
from flyball.config.load import load
from flyball.core.decide import Finished, Interrupted
from flyball.domain import events as e
from flyball.domain.settings import Settings
from flyball.errors import FlyballError
from flyball.machines import shipped
from flyball.runtime.trial import first_acts, own_place
from flyball.state.run import Run
from flyball.state_dir import paths

QUESTION = "Reply with the single word: ready. Use no tool and change nothing."
SETS = ("limits.idle_timeout=60s", "proof.commands=[]")
ACCEPTED = (
    "ok",
    "rate_limited",
    "plan_limit",
    "billing",
    "context",
    "turn_limit",
    "needs_approval",
    "refused",
)
LOCK = "login.lock"


class LoginTrial(Struct, frozen=True, kw_only=True):
    """`login`: works, refused or unknown. `kind` is the result of the turn, `why` what the agent said about it."""

    agent: str
    login: str
    kind: str
    why: str = ""
    took_s: float = 0.0


def try_login(agent: str, env: Mapping[str, str]) -> LoginTrial:
    start = time.monotonic()
    settings = load(None, env, SETS, agents=(agent,), machine="loop").settings(shipped("loop"))
    state_dir = paths(env).state_dir
    try:
        with own_place(state_dir) as place, tempfile.TemporaryDirectory(prefix="flyball-try-") as folder:
            (place / LOCK).symlink_to(
                state_dir / LOCK
            )  # no run may lend or bring back the same login meanwhile
            _empty_repository(Path(folder), env)
            turn = _turn(RunFiles(place, sandbox.probe(settings.sandbox), dict(env)), Path(folder), settings)
    except FlyballError as problem:
        return LoginTrial(agent=agent, login="unknown", kind="unknown", why=str(problem))
    verdict = "refused" if turn.verdict == "auth" else "works" if turn.verdict in ACCEPTED else "unknown"
    took_s = round(time.monotonic() - start, 1)
    return LoginTrial(agent=agent, login=verdict, kind=turn.verdict, why=turn.error, took_s=took_s)


def _turn(run_files: RunFiles, repo: Path, settings: Settings) -> e.TurnEnded:
    for _, news in first_acts(run_files, repo, "loop", settings, _perform):
        if isinstance(news.result, e.TurnEnded):
            return news.result
        if isinstance(news.result, e.Prepared) and news.result.error:
            raise FlyballError(news.result.error)
    raise FlyballError("The agent was not started.")


def _perform(run_files: RunFiles, run: Run, act: e.Act, stop: process.Stop) -> Finished | Interrupted:
    if act.do == "prepare":
        return prepare(run_files, run, act, stop)
    folder = run_files.act_folder(act.key)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "prompt").write_text(QUESTION, encoding="utf-8")  # in the place of the role's
    return take_turn(run_files, run, act, stop, lambda _line: None)


def _empty_repository(folder: Path, env: Mapping[str, str]) -> None:
    who = ("-c", "user.name=flyball", "-c", "user.email=flyball@localhost", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), (*who, "commit", "-q", "--allow-empty", "--no-verify", "-m", "Nothing")):
        subprocess.run(["git", *words], cwd=folder, env=dict(env), check=True, capture_output=True)
