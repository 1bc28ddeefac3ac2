"""A driver, and `flyball up`, with a hundred runs that wait: what they hold in memory, and use of a core."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from bench.figure import Beside, Figure

RSS_GOAL, UP_RSS_GOAL, CPU_GOAL = 60.0, 80.0, 1.0
SETTLES_S = 1.0
ROOT = Path(__file__).parents[1]
NOTHING = "import time; print('ready', flush=True); time.sleep(600)"


def figures(folder: Path, quick: bool) -> list[Figure]:
    driver = [sys.executable, "-m", "bench.idle_driver"]
    watch_s = 2 if quick else 6
    rss, cpu = _watched(driver, folder / "driver", watch_s)
    up_rss, up_cpu = _watched([*driver, "lanes", str(_repository(folder))], folder / "up", 2 * watch_s)
    least, _ = _watched([sys.executable, "-c", NOTHING], folder, 0)
    sleeps = (Beside("python that sleeps", least),)
    return [
        Figure(name=f"{who} with 100 idle runs: {what}", value=value, unit=unit, goal=goal, beside=beside)
        for who, what, value, unit, goal, beside in (
            ("driver", "memory", rss, "MB", RSS_GOAL, sleeps),
            ("driver", "share of a core", cpu, "%", CPU_GOAL, ()),
            ("`up`", "memory", up_rss, "MB", UP_RSS_GOAL, sleeps),
            ("`up`", "share of a core", up_cpu, "%", CPU_GOAL, ()),
        )
    ]


def _repository(folder: Path) -> Path:
    repo = folder / "repo"
    subprocess.run(["git", "init", "-q", repo], check=True)
    name = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
    subprocess.run(["git", "-C", repo, *name, "commit", "-q", "--allow-empty", "-m", "Begin"], check=True)
    return repo.resolve()


def _watched(argv: list[str], folder: Path, watch_s: float) -> tuple[float, float]:
    """Resident memory in MB, and CPU in percent of a core, once it says that it is ready."""
    env = {**os.environ, "FLYBALL_STATE_DIR": str(folder / "state"), "HOME": str(folder)}
    folder.mkdir(exist_ok=True)
    child = subprocess.Popen(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout and child.stdout.readline().strip() == "ready", "the driver did not start"
        time.sleep(SETTLES_S)
        before = _ticks(child.pid)
        time.sleep(watch_s)
        used = (_ticks(child.pid) - before) / os.sysconf("SC_CLK_TCK")
        return _rss_mb(child.pid), 100 * used / watch_s if watch_s else 0.0
    finally:
        child.kill()
        child.wait()


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _rss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024
