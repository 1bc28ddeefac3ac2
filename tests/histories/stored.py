"""A stored history: the events of a run and of those below it, as they were written, and how each of them stood.

One file a history, gzipped JSON lines: first what it is and where each run must end up, then every event with its
body byte for byte and its hash.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import Any

from flyball.domain import events as e
from flyball.journal import Entry
from flyball.journal.chain import event_digest
from flyball.state.fold import fold
from flyball.state.run import Baseline, Commit, Prove, Run, Step

FORMAT = "flyball-history/1"
FOLDER = Path(__file__).parent
COUNTS = {  # as it was called when the first histories were stored -> where it is now
    **{name: name for name in ("turn", "iteration", "questions", "acts", "state", "status", "end", "tree")},
    **{name: name for name in ("child", "entered_at", "at", "asked", "prepared")},
    **{name: f"path.{name}" for name in ("previous", "origin")},
    **{name: f"spending.{name}" for name in ("turns_base", "iteration_base", "wall_us")},
    **{name: f"tries.{name}" for name in ("retries", "contexts", "interruptions")},
    **{name: f"checkout.{name}" for name in ("base_tree", "certificate")},
    "below_turns": "spending.child_turns",
    "barren": "spending.idle_children",
    "cto_attempts": "path.interventions",
    "done_tree": "evidence.done_tree",
    "no_progress": "progress.idle",
    "error_count": "progress.errors",
    "progressed": "progress.advanced",
    "moved_tree": "progress.wanders",
}


def ending(run: Run) -> dict[str, Any]:
    """Where a run stands, in all that later versions must still make of its events."""
    stop, question, proof, commit = run.stop, run.question, run.evidence.proof, run.checkout.commit
    return {
        **{name: attrgetter(place)(run) for name, place in COUNTS.items()},
        "baselined": not run.owner or bool(run.settings.proof and not has(run, Baseline)),
        "code": stop.code if stop else "",
        "rule": stop.rule if stop else "",
        "question": [question.id, question.kind, list(question.verbs), question.shown] if question else None,
        "act": [run.act.key, run.act.do, run.act.why] if run.act else None,
        "held": [run.pending.outcome, until(run)] if run.pending else None,
        "todo": [run.restore.tree, run.restore.why] if run.restore else None,
        "proof": [proof.tree, proof.passed, proof.failing] if proof else None,
        "committed": commit.tree if commit else None,
        "entries": dict(run.path.entries),
        "failures": {state: n for state, n in run.path.failures.items() if n},
        "findings": [[f.id, f.status] for f in run.findings],
        "seen": len(run.progress.trees),
        "cost_uusd": run.spent.cost_uusd,
        "tokens": run.spent.tokens,
        "waived": list(run.evidence.waivers),
    }


def has(run: Run, kind: type[Step]) -> bool:
    return any(isinstance(step, kind) for step in run.agenda)


def until(run: Run) -> str:
    """What stands before the outcome that is to be followed."""
    assert run.pending is not None
    first = "gate" if has(run, Prove) else "commit" if has(run, Commit) else ""
    return first or run.pending.waits or "taken"


def folded(entries: Iterable[Entry]) -> Run:
    return fold(None, [e.decode(entry.body) for entry in entries])


def write(name: str, version: str, about: str, runs: dict[str, list[Entry]]) -> Path:
    """Store a history; its name is the file's."""
    ends = {run: {"head": entries[-1].hash, **ending(folded(entries))} for run, entries in runs.items()}
    lines = [{"format": FORMAT, "version": version, "about": about, "runs": ends}]
    lines += [
        {"run": x.run, "seq": x.seq, "at": x.at, "kind": x.kind, "body": x.body.decode(), "hash": x.hash}
        for entries in runs.values()
        for x in entries
    ]
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    file = FOLDER / version / f"{name}.jsonl.gz"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return file


def read(file: Path) -> tuple[dict[str, Any], dict[str, list[Entry]]]:
    """What it is, and the events of each run."""
    first, *rest = gzip.decompress(file.read_bytes()).decode().splitlines()
    runs: dict[str, list[Entry]] = {}
    for line in map(json.loads, rest):
        entry = Entry(line["run"], line["seq"], line["at"], line["kind"], line["body"].encode(), line["hash"])
        runs.setdefault(entry.run, []).append(entry)
    return json.loads(first), runs


def head(entries: Iterable[Entry]) -> str:
    """The hash that the chain comes to, computed from the bodies alone."""
    digest = b""
    for seq, entry in enumerate(entries, 1):
        digest = event_digest(digest, entry.run, seq, entry.at, entry.kind, entry.body)
    return digest.hex()
