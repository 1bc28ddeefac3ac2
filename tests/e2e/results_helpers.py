"""A small repository, a finished run in it, and the command line as a user calls it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e import warm
from tests.e2e.helpers import BROKEN, FIXED, make_repo as repo_with

from flyball.journal.database import Driver
from flyball.runtime.app import App
from flyball.runtime.start import RunRequest, launch

MENDED = FIXED
TEST = "from calc import add\nassert add(2, 3) == 5, add(2, 3)\n"
SCRIPT: dict[str, Any] = {
    "roles": {
        "planner": [{"say": "Mend add."}],
        "coder": [{"write": {"calc.py": MENDED}, "say": "Mended."}],
        "critic": [{"say": "It adds.\nOUTCOME: accepted"}],
    }
}


def environment(home: Path) -> dict[str, str]:
    """A home, a state and a configuration of their own."""
    home.mkdir(parents=True, exist_ok=True)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("FLYBALL_", "XDG_", "GIT_"))
    }
    return kept | {
        "HOME": str(home),
        "FLYBALL_STATE_DIR": str(home / "state"),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "NO_COLOR": "1",
    }


def make_repo(root: Path, files: dict[str, str] | None = None) -> Path:
    return repo_with(root, {"calc.py": BROKEN, "check.py": TEST} if files is None else files)


def flyball(
    env: dict[str, str], *args: str | Path, cwd: Path | None = None, stdin: str | bytes = b""
) -> subprocess.CompletedProcess[str]:
    fed = stdin.encode() if isinstance(stdin, str) else stdin
    done = warm.command(*map(str, args), cwd=cwd, env=env, stdin=fed)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def facts(done: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(done.stdout)


def run_to_end(
    env: dict[str, str],
    root: Path,
    script: dict[str, Any] | None = None,
    proof: str = "python3 check.py",
    sets: tuple[str, ...] = (),
) -> str:
    """A `build` run played from a script until it stops; its id."""
    file = root.parent / "script.json"
    file.write_text(json.dumps(SCRIPT if script is None else script))
    app = App(env)
    driver = Driver(app.state_dir)
    supervisor = app.supervisor(driver)
    given = (f"proof.commands={json.dumps([proof])}", "proof.bite=never", *sets) if proof else sets
    request = RunRequest(task="Mend the sum", repo=root, agents=(f"script:{file}",), sets=given)
    began, _ = launch(app, request)
    try:
        supervisor.begin(began)
        supervisor.drive(lambda: supervisor.driven[began.run].run.status != "running")
    finally:
        supervisor.close()
        driver.close()
        app.close()
    return began.run
