"""A driver with a hundred runs that wait: what it holds in memory, and what it uses of a core."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from bench.figure import Beside, Figure

RSS_GOAL, CPU_GOAL = 60.0, 1.0
ROOT = Path(__file__).parents[1]
NOTHING = "import time; print('ready', flush=True); time.sleep(600)"


def figures(folder: Path, quick: bool) -> list[Figure]:
    driver = [sys.executable, "-m", "bench.idle_driver"]
    rss, cpu = _watched(driver, folder, 2 if quick else 6)
    least, _ = _watched([sys.executable, "-c", NOTHING], folder, 0)
    return [
        Figure(
            name="driver with 100 idle runs: memory",
            value=rss,
            unit="MB",
            goal=RSS_GOAL,
            beside=(Beside("python that sleeps", least),),
        ),
        Figure(name="driver with 100 idle runs: share of a core", value=cpu, unit="%", goal=CPU_GOAL),
    ]


def _watched(argv: list[str], folder: Path, watch_s: float) -> tuple[float, float]:
    """Resident memory in MB, and CPU in percent of a core, once it says that it is ready."""
    env = {**os.environ, "FLYBALL_STATE_DIR": str(folder / "state"), "HOME": str(folder)}
    child = subprocess.Popen(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout and child.stdout.readline().strip() == "ready", "the driver did not start"
        time.sleep(0.3)
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
