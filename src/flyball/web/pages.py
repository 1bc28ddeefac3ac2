"""Each page: the facts that it shows, which are also its JSON, and the call that makes HTML of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from flyball.domain.settings import DAY
from flyball.errors import UserError
from flyball.evidence.verify import facts_of, lines_of, verify_run
from flyball.journal import Row
from flyball.journal.records import asking, windows
from flyball.reading.terminal import spelled_out
from flyball.runtime import facts as known
from flyball.runtime.app import App
from flyball.runtime.listing import shown_row
from flyball.runtime.questions import change_of, how_answered, late_runs, open_questions
from flyball.views import run_stats
from flyball.views.evidence_text import tests_by_name
from flyball.views.stats_text import tables
from flyball.views.text import clean, cost, tokens
from flyball.web import render
from flyball.web.markup import Html, document

LISTED = 100  # runs in a list
RECENT = 10
STORY_MOST = 300
PERIODS = {"7d": 7 * DAY, "30d": 30 * DAY, "all": 0}  # of the statistics; the first one unless asked


class Asked(Struct):
    """A request for a page: the rest of its address, and its query."""

    app: App
    names: list[str]
    query: dict[str, str]
    base: str
    form: str
    here: str

    def run_id(self) -> str:
        if not self.names or not self.names[0]:
            raise UserError("Name a run.")
        return self.app.find(self.names[0])

    def only(self, *names: str) -> None:
        unknown = sorted(set(self.query) - {*names})
        if unknown:
            takes = f"It takes: {', '.join(names)}." if names else "It takes nothing."
            raise UserError(f"This page does not take '{unknown[0][:40]}'. {takes}")


class Page(Struct):
    title: str
    facts: Any
    body: Html
    place: str  # its entry in the navigation


def framed(ask: Asked, page: Page | None, stamp: str, problem: str = "") -> Html:
    """The page with the navigation around it, or the problem in its place."""
    count = len(ask.app.journal.rows(open_question=True, limit=LISTED)) if page else 0
    head = render.navigation(page.place if page else "-", count)
    body = page.body if page else render.problem(problem)
    return document(page.title if page else "Not possible", ask.base, stamp, head, body)


# ---- the pages ------------------------------------------------------------------------------------------


def overview(ask: Asked) -> Page:
    ask.only()
    app, now = ask.app, ask.app.clock.now()
    running = [row for status in ("running", "waiting") for row in app.journal.rows(status=status, parent="")]
    at_work = [row for row in running if not asking(app, app.read(row.run))][:LISTED]
    ended = [row for row in app.journal.rows(status="ended", limit=LISTED) if is_task(row)][:RECENT]
    spent = windows(app.journal, now)
    facts = {
        "running": [{**shown_row(app, row), **known.live(app, app.read(row.run), now)} for row in at_work],
        "waiting": open_questions(app),
        "late": late_runs(app),
        "spent": {
            "day": cost(spent.day_uusd, not spent.day_tokens),
            "day_tokens": tokens(spent.day_tokens, True),
            "week": cost(spent.week_uusd, not spent.week_tokens),
            **{key: value for key, value in msgspec.to_builtins(spent).items() if key != "at"},
        },
        "recent": [shown_row(app, row) for row in ended],
    }
    return Page("Overview", facts, render.overview(facts, now), "")


def is_task(row: Row) -> bool:
    """A run that a person thinks of as a task: one that was started, or a step of a plan."""
    return row.machine != "cto" and (not row.parent or row.machine == "task")


def runs(ask: Asked) -> Page:
    ask.only("status", "children")
    children = None if "children" in ask.query else ""
    rows = ask.app.journal.rows(status=ask.query.get("status"), parent=children, limit=LISTED)
    facts = [shown_row(ask.app, row) for row in rows]
    return Page("Runs", facts, render.runs(facts, ask.query.get("status", ""), ask.app.clock.now()), "runs")


def inbox(ask: Asked) -> Page:
    ask.only("answered")
    questions, late = open_questions(ask.app), late_runs(ask.app)
    name = ask.query.get("answered", "")
    notice = how_answered(ask.app, name) if name else ""
    cards = [card(ask, facts) for facts in questions]
    body = render.inbox(cards, late, notice)
    return Page("Inbox", [*questions, *late], body, "inbox")


def card(ask: Asked, facts: dict[str, Any]) -> Html:
    """A question with its change and its answers."""
    change = change_of(ask.app, ask.app.read(facts["run"]))
    hidden = {"form": ask.form, "question": facts["id"], "shown": facts["shown"]}
    hidden["seen"] = seen_of(facts["pending"])
    return render.question(facts, change, hidden, ask.app.clock.now())


def seen_of(pending: dict[str, Any] | None) -> str:
    """The answer that was there when the page was shown."""
    return sha256(json.dumps(pending, sort_keys=True).encode()).hexdigest()[:16] if pending else ""


def run(ask: Asked) -> Page:
    """A run; below it its change and its certificate."""
    ask.only()
    run_id = ask.run_id()
    part = ask.names[1] if len(ask.names) > 1 else ""
    if part not in PARTS:
        raise UserError(f"A run has the pages: {', '.join(name for name in PARTS if name)}.")
    return PARTS[part](ask, run_id)


def _run_itself(ask: Asked, run_id: str) -> Page:
    app, now = ask.app, ask.app.clock.now()
    one = app.read(run_id)
    facts = known.facts(app, one)
    row = app.journal.row(run_id)
    assert row is not None
    lines = known.story(app, one, STORY_MOST)
    facts |= {"row": shown_row(app, row), "live": known.live(app, one, now)}
    facts |= {"story": [msgspec.structs.asdict(line) for line in lines]}
    proof = one.evidence.proof
    facts["tests"] = tests_by_name(proof.failing_tests, proof.evidence) if proof else []
    asker = asking(app, one)
    questions = [q for q in open_questions(app) if asker and q["run"] == asker.id]
    cards = [card(ask, question) for question in questions]
    rows = known.rows(one, facts)
    body = render.run(facts, rows, lines, cards)
    return Page(f"Run {run_id}", facts, body, "runs")


def _change(ask: Asked, run_id: str) -> Page:
    text = spelled_out(known.diff_of(ask.app, ask.app.read(run_id), stat=False).text)
    body = render.change(run_id, text.splitlines())
    return Page(f"Change of {run_id}", {"run": run_id, "diff": text}, body, "runs")


def _certificate(ask: Asked, run_id: str) -> Page:
    finding = verify_run(ask.app, run_id)
    lines = [clean(line) for line in lines_of(finding)]
    body = render.certificate(run_id, finding.word, lines)
    return Page(f"Certificate of {run_id}", facts_of(finding), body, "runs")


def stats(ask: Asked) -> Page:
    """CTO-15: over all repositories."""
    ask.only("since")
    since, now = ask.query.get("since", next(iter(PERIODS))), ask.app.clock.now()
    if since not in PERIODS:
        raise UserError(f"since takes: {', '.join(PERIODS)}.")
    begin = now - PERIODS[since] if PERIODS[since] else 0
    total = run_stats.stats(known.measures(ask.app, None, begin, now))
    body = render.stats(tables(total) if total.jobs else [], [*PERIODS], since)
    return Page("Statistics", run_stats.facts(total), body, "stats")


PARTS: dict[str, Callable[[Asked, str], Page]] = {
    "": _run_itself,
    "diff": _change,
    "certificate": _certificate,
}
PAGES: dict[str, Callable[[Asked], Page]] = {
    "": overview,
    "runs": runs,
    "run": run,
    "inbox": inbox,
    "stats": stats,
}
