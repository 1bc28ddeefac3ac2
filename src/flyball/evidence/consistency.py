"""Check that journal, certificates and files are consistent. Only reads, also while runs are running.

A finding is grave if something is not as it was written: no crash causes that. The others are loose ends that a killed
driver may leave: an act that nobody supervises, a checkout that nobody needs, a head not signed in time.

What cannot be found: whoever has the signing key can sign another history. Whoever replaces the whole state
directory by
an older copy, journal and signed heads alike, gets a state that was once true. Messages and leases are not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from flyball.domain import events as e
from flyball.errors import FlyballError, JournalError
from flyball.evidence import certificate
from flyball.journal import Checkpoint, Entry
from flyball.journal.records import KEY_FILE, Records, row_of
from flyball.journal.types import REGISTRY
from flyball.state.fold import fold, freeze, thaw
from flyball.state.run import Run
from flyball.state_dir import RunDir, changed_files, sha256_of

FIRST = ("RunBegan", "Told")  # what a run's first transaction may hold


class Finding(Struct, frozen=True):
    """`kind` says what it is about: journal, head, row, snapshot, certificate, pinned, act or leftover."""

    kind: str
    run: str
    seq: int
    message: str
    grave: bool = True


class CheckReport(Struct, frozen=True):
    findings: list[Finding]
    runs: int = 0
    events: int = 0
    heads: int = 0


class RunHistory(Struct):
    """A run as its events add up; `act_at` is the event at which its act in flight started."""

    run: Run
    seq: int = 0
    act_at: int = 0
    gone_on: bool = False


def check(records: Records, only: str | None = None) -> CheckReport:
    """Check everything, or what concerns one run."""
    if not records.dirs.journal.exists():
        return CheckReport(_without_journal(records))
    heads, findings = _heads(records, only)  # before the journal: a head may be behind it, never ahead
    runs: list[RunHistory] = []
    events = 0
    with records.journal.still():
        findings += [Finding("journal", f.run, f.seq, f.message) for f in records.journal.faults(heads, only)]
        broken = {finding.run for finding in findings}
        run_ids = _run_ids(records, only)
        for run_id in run_ids:
            history = _history(records, run_id, findings) if run_id not in broken else None
            if history:
                runs.append(history)
                events += history.seq
    findings += _unsigned(records, runs, only)
    for history in runs:
        findings += [
            *_certificate(records, history),
            *_pinned(records, history),
            *_undriven(records, history),
        ]
    findings += _leftovers(records, runs, {*run_ids, *broken}, only)
    return CheckReport(findings, len(runs), events, len(heads))


def grave(records: Records, run_id: str) -> list[Finding]:
    """Everything of one run that is not as it was written."""
    return [finding for finding in check(records, run_id).findings if finding.grave]


def _run_ids(records: Records, only: str | None) -> list[str]:
    if only is not None:
        return [only]
    lines = list(records.journal.registered())
    pruned = {line.run for line in lines if line.kind == "pruned"}
    return [line.run for line in lines if line.kind == "began" and line.run not in pruned]


# ---- signed heads ----------------------------------------------------------------------------------------


def _without_journal(records: Records) -> list[Finding]:
    files = sorted(records.dirs.heads.glob("*.json"))
    if not files:
        return []
    place = records.dirs.journal
    return [
        Finding(
            "journal", "", 0, f"{place} is gone: {len(files)} signed heads name runs in it. Restore a backup."
        )
    ]


def _heads(records: Records, only: str | None) -> tuple[list[Checkpoint], list[Finding]]:
    if not records.has_key:
        message = (
            f"The signing key {records.state_dir / KEY_FILE} is missing, so no signed head can be checked."
        )
        any_run = next(records.journal.registered(), None) is not None
        return [], [Finding("head", "", 0, message)] if any_run else []
    heads, faults = records.heads.load()
    names = (only, REGISTRY)
    return (
        [head for head in heads if only is None or head.run in names],
        [Finding("head", f.run, f.seq, f.message) for f in faults if only is None or f.run in names],
    )


def _unsigned(records: Records, runs: list[RunHistory], only: str | None) -> Iterator[Finding]:
    """Heads that were removed, or that are behind although nobody writes to the journal."""
    if not records.has_key:
        return
    vouched = _vouched(records)
    for history in runs:
        yield from _unsigned_run(records, history, vouched.get(history.run.id, ""))
    if only is None and any(history.gone_on for history in runs) and records.heads.of(REGISTRY) is None:
        yield Finding(
            "head",
            "",
            0,
            "The registry has no signed head, although runs continued since then: it was removed.",
        )


def _vouched(records: Records) -> dict[str, str]:
    """The last events of ended runs, according to the registry up to its own signed head."""
    signed = records.heads.of(REGISTRY)
    lines = records.journal.registered() if signed else ()
    return {line.run: line.head for line in lines if signed and line.n <= signed.seq and line.kind == "ended"}


def _unsigned_run(records: Records, history: RunHistory, vouched: str) -> Iterator[Finding]:
    run_id, driven = history.run.id, records.driven(history.run.id)
    head, (seq, last) = records.heads.of(run_id), records.journal.head(run_id)
    if head is None and history.gone_on:
        text = f"Run {run_id} has no signed head, although it is at event {seq}: it was removed."
        yield Finding("head", run_id, seq, text)
    elif not driven and last != vouched and (head is None or head.seq < seq):
        after = f"event {head.seq + 1}" if head else "event 1"
        text = (
            f"Run {run_id}: from {after} on nothing is signed, and no process runs it. Either its process was "
            f"killed at that moment, or something else wrote event {seq}."
        )
        yield Finding("head", run_id, seq, text, grave=False)


# ---- the fold ---------------------------------------------------------------------------------------------


def _history(records: Records, run_id: str, findings: list[Finding]) -> RunHistory | None:
    """Fold the run from its first event on, and compare its row and its snapshot with the result."""
    history: RunHistory | None = None
    seq = 0
    try:
        snapshot = records.journal.latest_snapshot(run_id)
        for entry in records.journal.read(run_id):
            seq = entry.seq
            history = _one_more(history, entry, findings)
            if (
                snapshot
                and snapshot.seq == seq
                and snapshot.rules == e.RULES
                and _thawed(snapshot.body) != _thawed(freeze(history.run))
            ):
                text = f"Run {run_id}: its snapshot at event {seq} does not match its events."
                findings.append(Finding("snapshot", run_id, seq, text))
        row = records.journal.row(run_id)
    except (JournalError, msgspec.MsgspecError, FlyballError, LookupError, ValueError, TypeError) as problem:
        text = f"Run {run_id}: event {seq} cannot follow from those before it ({_brief(problem)})."
        findings.append(Finding("journal", run_id, seq, text))
        return None
    if history and row:
        findings += _row_differs(
            history, msgspec.structs.asdict(row), msgspec.structs.asdict(row_of(history.run))
        )
    return history


def _thawed(body: bytes) -> Run | None:
    try:
        return thaw(body)
    except msgspec.MsgspecError:
        return None


def _one_more(history: RunHistory | None, entry: Entry, findings: list[Finding]) -> RunHistory:
    event = e.decode(entry.body)
    if (entry.kind, entry.at) != (e.kind(event), event.at):
        text = (
            f"Run {entry.run}: event {entry.seq} is called {entry.kind}, and says that it is {e.kind(event)}."
        )
        findings.append(Finding("journal", entry.run, entry.seq, text))
    run = fold(history.run if history else None, [event])
    if run.id != entry.run:
        text = f"Run {entry.run}: event {entry.seq} says that it is of run {run.id}."
        findings.append(Finding("journal", entry.run, entry.seq, text))
    return RunHistory(
        run,
        entry.seq,
        entry.seq if isinstance(event, e.ActStarted) else history.act_at if history else 0,
        (history is not None and history.gone_on) or entry.kind not in FIRST,
    )


def _row_differs(history: RunHistory, row: dict[str, object], sum_: dict[str, object]) -> Iterator[Finding]:
    differ = [name for name in row if row[name] != sum_[name]]
    if differ:
        one = differ[0]
        more = f" (and {len(differ) - 1} more differ)" if len(differ) > 1 else ""
        text = (
            f"Run {history.run.id}: its row has '{_brief(row[one])}' for '{one}', but its {history.seq} events add up to "
            f"'{_brief(sum_[one])}'{more}."
        )
        yield Finding("row", history.run.id, history.seq, text)


def _brief(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 200 else text[:199] + "…"


# ---- files ------------------------------------------------------------------------------------------------


def _certificate(records: Records, history: RunHistory) -> Iterator[Finding]:
    """The file whose hash the journal names. A certificate that is just being rewritten is not checked."""
    run = history.run
    busy = run.act is not None and run.act.do == "commit"
    if not run.checkout.certificate or not run.owner or busy:
        return
    file = certificate.in_force(records.dirs.run(run.id), run.checkout.certificate)
    digest = sha256_of(file)
    if digest == run.checkout.certificate or records.journal.head(run.id)[0] != history.seq:
        return
    what = (
        f"is not the certificate that event {history.seq} and those before it name" if digest else "is gone"
    )
    text = f"Run {run.id}: {file} {what} (sha256 {run.checkout.certificate[:16]}…)."
    yield Finding("certificate", run.id, history.seq, text)


def _pinned(records: Records, history: RunHistory) -> Iterator[Finding]:
    """The copies of the repository's files that a run uses; its first event has their hashes."""
    if history.run.began.parent:
        return
    folder = records.dirs.run(history.run.id).pinned
    expected = history.run.began.pinned
    for name in changed_files(folder, expected):
        what = (
            "was added later"
            if name not in expected
            else "was changed"
            if (folder / name).exists()
            else "is gone"
        )
        text = (
            f"Run {history.run.id}: {folder / name} {what}: event 1 pinned {expected.get(name, 'none')[:16]}."
        )
        yield Finding("pinned", history.run.id, 1, text)


# ---- loose ends -------------------------------------------------------------------------------------------


def _undriven(records: Records, history: RunHistory) -> Iterator[Finding]:
    run = history.run
    act = run.act
    if act is None or act.child or run.status != "running" or records.driven(run.id):
        return
    if records.journal.head(run.id)[0] != history.seq:
        return  # it has continued meanwhile
    root = run.began.root or run.id
    text = (
        f"Run {run.id}: {act.do} started at event {history.act_at} ({act.key}) and no process runs it; "
        f"continue it with `flyball resume {root}`."
    )
    yield Finding("act", run.id, history.act_at, text, grave=False)


def _leftovers(
    records: Records, runs: Iterable[RunHistory], run_ids: set[str], only: str | None
) -> Iterator[Finding]:
    histories = {history.run.id: history for history in runs}
    for folder in records.dirs.runs():
        name = folder.path.name
        if only not in (None, name):
            continue
        history = histories.get(name)
        if history and (history.run.status != "ended" or records.driven(name)):
            continue
        if history:
            yield from _left(folder, history)
        elif name not in run_ids and not records.journal.head(name)[0]:
            text = f"{folder.path} belongs to a run that is not in the journal ({name}); you can remove it."
            yield Finding("leftover", name, 0, text, grave=False)


def _left(folder: RunDir, history: RunHistory) -> Iterator[Finding]:
    for place in (folder.checkout, folder.proof):
        if place.exists():
            text = (
                f"Run {history.run.id} ended at event {history.seq}, but {place} is still there: look whether "
                "something in it is wanted, then remove it."
            )
            yield Finding("leftover", history.run.id, history.seq, text, grave=False)
