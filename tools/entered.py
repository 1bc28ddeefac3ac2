"""Count what a reader must open to follow the smallest run: files and functions of src that it enters.

Plays `flyball run` in this process: a `build` run of a script agent that repairs a two-line project.

    .venv/bin/python tools/entered.py            the counts, by package
    .venv/bin/python tools/entered.py --files    every file with its functions
"""

from __future__ import annotations

import collections
import contextlib
import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

SRC = Path(__file__).resolve().parents[1] / "src" / "flyball"
FILES = {
    "calc.py": "def add(a, b):\n    return a - b\n",
    "check.py": "from calc import add\nassert add(1, 2) == 3\n",
}
SCRIPT = {
    "roles": {
        "coder": [{"write": {"calc.py": "def add(a, b):\n    return a + b\n"}}],
        "critic": [{"say": "OUTCOME: accepted"}],
    }
}

entered: dict[str, set[str]] = collections.defaultdict(set)


def watch(frame: FrameType, event: str, _arg: Any) -> None:
    code = frame.f_code
    ours = code.co_filename.startswith(str(SRC)) and not code.co_name.startswith("<")
    if event == "call" and ours and code.co_flags & inspect.CO_OPTIMIZED:  # a class body is not a function
        entered[code.co_filename].add(code.co_qualname)


def play(folder: Path) -> None:
    repo = folder / "repo"
    repo.mkdir()
    for name, text in FILES.items():
        (repo / name).write_text(text)
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "As it was")):
        named = ("-c", "user.name=Ann", "-c", "user.email=ann@localhost")
        subprocess.run(["git", *named, *words], cwd=repo, check=True)
    script = folder / "agent.json"
    script.write_text(json.dumps(SCRIPT))
    os.environ.update(FLYBALL_STATE_DIR=str(folder / "state"), HOME=str(folder))
    os.chdir(repo)
    proof = 'proof.commands=["python3 check.py"]'
    sys.argv = ["flyball", "run", "Repair add", "--agent", f"script:{script}", "--set", proof, "--json"]
    import flyball
    from flyball.cli import main

    for module in pkgutil.walk_packages(flyball.__path__, "flyball."):
        with contextlib.suppress(ModuleNotFoundError):  # the keeper's own modules are run as scripts
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)  # now, so that what runs at import is not counted
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        main()
    except SystemExit as left:
        if left.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def report(by_file: bool) -> None:
    packages: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    for file, names in sorted(entered.items()):
        path = Path(file).relative_to(SRC)
        package = path.parts[0] if len(path.parts) > 1 else "."
        packages[package][0] += 1
        packages[package][1] += len(names)
        if by_file:
            print(f"{path}  {len(names)}  {' '.join(sorted(names))}")
    for package, (files, functions) in sorted(packages.items()):
        print(f"{package:<12} {files:>4} files {functions:>5} functions")
    functions = sum(len(names) for names in entered.values())
    print(f"{'all':<12} {len(entered):>4} files {functions:>5} functions")


if __name__ == "__main__":
    by_file = "--files" in sys.argv
    with tempfile.TemporaryDirectory() as place:
        play(Path(place))
    report(by_file)
