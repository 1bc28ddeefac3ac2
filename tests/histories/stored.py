"""A stored history: the events of a run and of those below it, as they were written, and how each of them stood.

One file a history, gzipped JSON lines: first what it is and where each run must end up, then every event with its
body byte for byte and its hash.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flyball.core import events as e
from flyball.core.run import Run, fold
from flyball.journal import Entry
from flyball.journal.chain import event_digest

FORMAT = "flyball-history/1"
FOLDER = Path(__file__).parent
COUNTS = (
    *("turn", "below_turns", "barren", "turns_base", "iteration", "iteration_base", "retries", "contexts"),
    *("no_progress", "error_count", "interruptions", "cto_attempts", "questions", "acts", "wall_us"),
    *("state", "status", "end", "previous", "origin", "asked", "tree", "base_tree", "done_tree", "child"),
    *("progressed", "moved_tree", "prepared", "baselined", "entered_at", "at", "certificate"),
)


def ending(run: Run) -> dict[str, Any]:
    """Where a run stands, in all that later versions must still make of its events."""
    stop, question, proof = run.stop, run.question, run.proof
    return {
        **{name: getattr(run, name) for name in COUNTS},
        "code": stop.code if stop else "",
        "rule": stop.rule if stop else "",
        "question": [question.id, question.kind, list(question.verbs), question.shown] if question else None,
        "act": [run.act.key, run.act.do, run.act.why] if run.act else None,
        "held": [run.held.outcome, run.held.until] if run.held else None,
        "todo": [run.todo.tree, run.todo.why] if run.todo else None,
        "proof": [proof.tree, proof.passed, proof.failing] if proof else None,
        "committed": run.committed.tree if run.committed else None,
        "entries": dict(run.entries),
        "failures": {state: n for state, n in run.failures.items() if n},
        "findings": [[f.id, f.status] for f in run.findings],
        "seen": len(run.seen),
        "cost_uusd": run.spent.cost_uusd,
        "tokens": run.spent.tokens,
        "waived": list(run.waived),
    }


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
