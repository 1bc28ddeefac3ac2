"""`flyball export`: everything about a run and its child runs in one JSON file, without secrets."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import click
import msgspec

from flyball import __version__
from flyball.cli import RUN, examples, open_app, say, write_new
from flyball.domain import events as e
from flyball.errors import FlyballError, UserError
from flyball.evidence.certificate import check
from flyball.guard.secrets import find_secret, redact
from flyball.journal import Entry
from flyball.journal.records import asking
from flyball.runtime.app import App
from flyball.runtime.facts import diff_of, why
from flyball.state.run import Run
from flyball.system.packed_logs import act_files
from flyball.views.run_view import summary
from flyball.views.text import iso, plural

FORMAT = "flyball-export/1"
STREAMS = ("out", "err", "prompt")


@click.command(
    epilog=examples(
        "flyball export @last --out run.json",
        "flyball export 9apx47xk | jq '.runs[0].events[] | {seq, kind}'",
    )
)
@RUN
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write to this new file.")
@click.option(
    "--otlp",
    "collector",
    default="",
    metavar="URL",
    help="Send trace spans to this OpenTelemetry collector instead.",
)
def export(run_name: str, out: Path | None, collector: str) -> None:
    """Export a run as one JSON object, with secrets redacted.

    It has the events, summary, certificate and diff of the run and its child runs, and the hashes of their logs.
    """
    if collector:
        _send_spans(run_name, collector)
        return
    with open_app() as app:
        clean = Redactor()
        data = msgspec.json.format(msgspec.json.encode(bundle(app, app.find(run_name), clean)), indent=1)
    if out is None:
        click.echo(data)
        return
    write_new(out, data + b"\n")
    say(f"Wrote {out}: {plural(len(data), 'byte')}, {plural(clean.count, 'secret')} redacted.", err=True)


def _send_spans(run_name: str, collector: str) -> None:
    """The spans of the run and its child runs, as far as they have ended."""
    from flyball.runtime.otel import span_sender
    from flyball.views.spans import RunSpans

    send = span_sender(collector)
    with open_app() as app:
        members = _family(app, app.find(run_name))
        histories = [[e.decode(entry.body) for entry in app.journal.read(member)] for member in members]
    spans = [
        span for history in histories for events in [RunSpans()] for one in history for span in events.of(one)
    ]
    if not send(spans):
        raise UserError(
            f"{collector} did not take the spans. Check that an OTLP/HTTP collector listens there."
        )
    say(f"Sent {plural(len(spans), 'span')} of {plural(len(members), 'run')}.", err=True)


def bundle(app: App, run_id: str, clean: Redactor) -> dict[str, Any]:
    runs = [_exported(app, app.read(member), clean) for member in _family(app, run_id)]
    head = {"format": FORMAT, "version": __version__, "exported": iso(app.clock.now()), "run": run_id}
    return {**head, "redacted": clean.count, "runs": runs}


def _family(app: App, run_id: str) -> list[str]:
    children = [row.run for row in reversed(app.journal.rows(parent=run_id))]
    return [run_id, *(member for child in children for member in _family(app, child))]


def _exported(app: App, run: Run, clean: Redactor) -> dict[str, Any]:
    history = list(app.journal.read(run.id))
    head = app.heads.of(run.id)
    return {
        "run": run.id,
        "parent": run.began.parent or None,
        "summary": clean(summary(run, asking(app, run))),
        "why": clean(why(app, run)),
        "head": msgspec.to_builtins(head) if head else None,
        "certificate": _certificate(app, run, clean),
        "diff": _diff(app, run, clean),
        "events": [_event(entry, clean) for entry in history],
        "logs": [log for entry in history for log in _logs(app, entry)],
    }


def _event(entry: Entry, clean: Redactor) -> dict[str, Any]:
    """`hash` is of the event as it was written; redacted, its body cannot be hashed again."""
    body: dict[str, Any] = msgspec.json.decode(entry.body)
    redacted = clean(body)
    facts = {"seq": entry.seq, "at": entry.at, "kind": entry.kind, "hash": entry.hash, "event": redacted}
    return {**facts, "redacted": True} if redacted != body else facts


def _certificate(app: App, run: Run, clean: Redactor) -> dict[str, Any] | None:
    """The signed envelope; if it holds a secret, only its statement, redacted."""
    file = app.dirs.run(run.id).certificate
    if not run.checkout.certificate or not file.exists():
        return None
    data = file.read_bytes()
    statement = clean(check(data).statement)
    unchanged = statement == check(data).statement
    return {
        "sha256": hashlib.sha256(data).hexdigest(),
        "journal_sha256": run.checkout.certificate,
        "statement": statement,
        "envelope": base64.b64encode(data).decode() if unchanged else None,
    }


def _diff(app: App, run: Run, clean: Redactor) -> str | None:
    if not run.owner:
        return None
    try:
        diff = diff_of(app, run, stat=False)
    except FlyballError as problem:
        return f"(not available: {problem})"
    clean.count += diff.redacted
    return clean.text(diff.text)


def _logs(app: App, entry: Entry) -> Iterator[dict[str, Any]]:
    """The files that the processes of an act wrote, with size and hash."""
    if entry.kind != "ActStarted":
        return
    started = e.decode(entry.body)
    assert isinstance(started, e.ActStarted)
    for place, data in sorted(act_files(app, started.act.key).items()):
        if place.rpartition("/")[2] in STREAMS:
            digest = hashlib.sha256(data).hexdigest()
            yield {"act": started.act.key, "file": place, "bytes": len(data), "sha256": digest}


# ---- secrets ----------------------------------------------------------------------------------------------


def _own_names() -> frozenset[str]:
    """The names of our own fields: a `key` or `session` there is not a secret."""
    kinds = [kind for kind in vars(e).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    return frozenset(name for kind in kinds for name in kind.__struct_fields__)


class Redactor:
    """Removes secrets from texts, including those that only the name of a field shows, and counts them."""

    def __init__(self) -> None:
        self.count, self._own = 0, _own_names()

    def __call__(self, value: Any, name: str = "") -> Any:
        if isinstance(value, str):
            return self._named(name, value) or self.text(value)
        if isinstance(value, dict):
            table = cast("dict[str, Any]", value)
            return {self.text(key): self(part, key) for key, part in table.items()}
        if isinstance(value, list | tuple):
            return [self(part, name) for part in cast("list[Any]", value)]
        return value

    def text(self, value: str) -> str:
        clean = redact(value)
        self.count += clean != value
        return clean

    def _named(self, name: str, value: str) -> str:
        if not name or name in self._own:
            return ""
        rule = find_secret("", f'{name} = "{value}"')
        self.count += rule is not None
        return f"[redacted {rule}]" if rule else ""
