"""An agent that tries to speak for a person, in every way it can think of. Each try's fate is a line.

impostor.py STATE RUN QUESTION [WAY...]: the state directory, and the run and question of somebody else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

STATE, RUN, QUESTION = sys.argv[1:4]
FLYBALL = [sys.executable, "-P", "-m", "flyball"]
CLEAN = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "FLYBALL_STATE_DIR": STATE}
OUT = Path("fate.txt")


def told(done: subprocess.CompletedProcess[str]) -> str:
    return f"{done.returncode} {(done.stdout + done.stderr).strip()}"


def by_cli() -> str:
    env = {**os.environ, "FLYBALL_STATE_DIR": STATE}
    return told(subprocess.run([*FLYBALL, "answer", QUESTION, "x"], env=env, capture_output=True, text=True))


def by_clean_environment() -> str:
    return told(subprocess.run([*FLYBALL, "cancel", RUN], env=CLEAN, capture_output=True, text=True))


def by_daemon() -> str:
    """Two forks and a session of its own, with an environment that says nothing."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(0.2)  # its parent is gone by now
            done = subprocess.run([*FLYBALL, "stop", "--all"], env=CLEAN, capture_output=True, text=True)
            draft = OUT.with_suffix(".tmp")
            draft.write_text(told(done))
            draft.rename(OUT)
        os._exit(0)
    for _ in range(3000):
        if OUT.exists():
            break
        time.sleep(0.01)
    said = OUT.read_text()
    OUT.unlink()
    return said


def by_import() -> str:
    code = (
        "from flyball.domain.messages import Answer; from flyball.runtime.app import App; app = App();"
        f"run = app.question({QUESTION!r});"
        f"print(app.send(run, Answer(question={QUESTION!r}, verb='answer', text='x', who='me')))"
    )
    return told(subprocess.run([sys.executable, "-c", code], env=CLEAN, capture_output=True, text=True))


def post(body: str) -> str:
    code = (
        "import sys, time; from pathlib import Path; from flyball.journal.sqlite import SqliteJournal;"
        f"j = SqliteJournal(Path({STATE!r}) / 'journal.db'); print(j.post({RUN!r}, 1, sys.argv[1].encode()))"
    )
    done = subprocess.run([sys.executable, "-c", code, body], env=CLEAN, capture_output=True, text=True)
    return told(done)


def answer(**more: str) -> str:
    row = {"is": "Answer", "question": QUESTION, "verb": "answer", "text": "x", "who": "ada", "how": "cli"}
    return json.dumps({**row, **more})


def by_message() -> str:
    return post(answer())


def by_forged_seal() -> str:
    return post(answer(nonce="0" * 32, seal="0" * 64))


def by_replay() -> str:
    """A message that a person did send, once more."""
    code = (
        "from pathlib import Path; from flyball.journal.sqlite import SqliteJournal;"
        f"j = SqliteJournal(Path({STATE!r}) / 'journal.db'); m = j.mail({RUN!r})[0]; print(j.post(m.run, 1, m.body))"
    )
    return told(subprocess.run([sys.executable, "-c", code], env=CLEAN, capture_output=True, text=True))


def by_namespace() -> str:
    argv = ["unshare", "-Urpf", "--mount-proc", *FLYBALL, "resume", RUN]
    return told(subprocess.run(argv, env=CLEAN, capture_output=True, text=True))


WAYS: tuple[Callable[[], str], ...] = (
    *(by_cli, by_clean_environment, by_daemon, by_import),
    *(by_message, by_forged_seal, by_replay, by_namespace),
)
for way in [way for way in WAYS if way.__name__ in sys.argv[4:] or not sys.argv[4:]]:
    try:
        fate = way()
    except Exception as fault:
        fate = f"failed: {fault!r}"
    print(json.dumps({"way": way.__name__, "fate": " ".join(fate.split())[-400:]}), flush=True)
