"""The peers live in an environment of their own (bench/.venv), made from bench/requirements.lock by `make bench`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PYTHON = HERE / ".venv/bin/python"


def there() -> bool:
    return (HERE / ".venv/.ready").exists()


def peer(name: str, *words: str) -> dict[str, Any]:
    """What `bench/peer/NAME.py` printed as JSON; nothing if the peers are not installed."""
    if not there():
        return {}
    done = subprocess.run(
        [PYTHON, "-I", HERE / "peer" / f"{name}.py", *words], capture_output=True, text=True, timeout=170
    )
    if done.returncode:
        raise RuntimeError(f"bench/peer/{name}.py failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
