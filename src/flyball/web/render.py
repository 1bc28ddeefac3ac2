"""HTML of facts: this module decides how a page looks; every sentence comes from `views`. Addresses are relative
to the page's base.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from flyball.domain.settings import rough
from flyball.runtime.listing import STATUSES
from flyball.runtime.questions import NEEDS_TEXT, WITHOUT_TEXT
from flyball.views.run_view import Line
from flyball.views.stats_text import Table
from flyball.views.text import clock, first_line, plural
from flyball.web.markup import Html, joined, link, pairs, table, tag

NAVIGATION = (("", "Overview"), ("inbox", "Inbox"), ("runs", "Runs"), ("stats", "Stats"))
LINES_MOST = 4_000  # of a change on its own page
LINES_SHOWN = 60  # … with a question; the rest of it is one click away
FIRST = (
    "approve",
    "go-on",
    "raise",
    "proceed",
    "answer",
)  # the first of these answers is the highlighted button


def navigation(here: str, questions: int) -> Html:
    links = [
        tag(
            "a",
            title,
            tag("b", str(questions)) if place == "inbox" and questions else None,
            href=place or "./",
            aria_current="page" if place == here else None,
        )
        for place, title in NAVIGATION
    ]
    notice = tag("p", "flyball serve does not answer. This page may be old.", id="lost", hidden=True)
    show = tag("button", "Show it", type="button")
    news = tag("p", "Something has changed. ", show, id="news", hidden=True)
    return joined(tag("header", tag("nav", tag("strong", "flyball"), links)), notice, news)


def main(*children: Html | Iterable[Html] | None) -> Html:
    return tag("main", *children)


def section(title: str, *children: Html | Iterable[Html] | None) -> Html:
    return tag("section", tag("h2", title), *children)


def problem(text: str) -> Html:
    return main(tag("h1", "Not possible"), tag("p", prose(text), class_="notice bad"))


def prose(text: str) -> Html:
    """A sentence in which `commands` are shown as code."""
    parts = enumerate(text.split("`"))
    return joined(*(tag("code", part) if number % 2 else part for number, part in parts))


# ---- lists ----------------------------------------------------------------------------------------------


def overview(facts: dict[str, Any], now: int) -> Html:
    usage, waiting, late = facts["spent"], facts["waiting"], facts["late"]
    figures = [
        (str(len(facts["running"])), "running"),
        (str(len(waiting)), "waiting for you"),
        (usage["day"], f"last 24 hours, {usage['day_tokens']} tokens"),
        (usage["week"], "last 7 days"),
    ]
    return main(
        tag("ul", [tag("li", tag("b", value), f" {name}") for value, name in figures], class_="figures"),
        section("Waiting for you", tag("ul", [_ask(one, now) for one in waiting], class_="rows"))
        if waiting
        else None,
        _late(late),
        section("Running", rows(facts["running"], now, "Nothing is running.")),
        section("Last results", rows(facts["recent"], now, "Nothing has ended yet.")),
    )


def runs(facts: Sequence[dict[str, Any]], status: str, now: int) -> Html:
    links = _filters("runs", "status", {"": "all"} | {name: name for name in STATUSES}, status)
    return main(tag("h1", "Runs"), links, rows(facts, now, "No runs."))


def _filters(page: str, key: str, choices: dict[str, str], here: str) -> Html:
    links = [
        tag(
            "a",
            title,
            href=f"{page}?{key}={name}" if name else page,
            aria_current="true" if name == here else None,
        )
        for name, title in choices.items()
    ]
    return tag("p", links, class_="filters")


def stats(tables: Sequence[Table], periods: Sequence[str], since: str) -> Html:
    titles = {name: "all" if name == "all" else f"last {name.removesuffix('d')} days" for name in periods}
    parts = [section(one.title, table(map(str.capitalize, one.headers), one.rows)) for one in tables]
    none = tag("p", "No runs.", class_="dim")
    return main(tag("h1", "Statistics"), _filters("stats", "since", titles, since), parts or none)


def rows(facts: Sequence[dict[str, Any]], now: int, empty: str) -> Html:
    if not facts:
        return tag("p", empty, class_="dim")
    return tag("ul", [_row(one, now) for one in facts], class_="rows")


def _row(one: dict[str, Any], now: int) -> Html:
    used = f"{plural(one['turns'], 'turn')} · {one['cost']} · {rough(now - one['updated_at'])} ago"
    place = f"{one['run']} · {one.get('place') or one['machine']} · {one.get('counters') or used}"
    lines = [tag("span", place, class_="dim")]
    if one.get("now"):
        lines.append(tag("span", one["now"], class_="now"))
    return item(one["tone"], first_line(one["task"]), lines, f"run/{one['run']}", one["label"])


def item(tone: str, what: str, lines: Sequence[Html], to: str, label: str = "") -> Html:
    """A row that is a link: a dot, what it is about, details, and a word at the end."""
    body = link(to, tag("span", what, class_="what"), lines)
    return tag("li", tag("i", class_=f"dot {tone}"), body, tag("span", label, class_=f"label {tone}"))


def _ask(one: dict[str, Any], now: int) -> Html:
    about = f"{one['id']} · {one['kind']} · {rough(now - one['since_us'])} ago"
    lines = [tag("span", one["happened"], class_="now"), tag("span", about, class_="dim")]
    return item(
        "ask", first_line(one["task"]), lines, f"inbox#q-{one['id']}", "answered" if one["answered"] else ""
    )


def _late(late: Sequence[dict[str, Any]]) -> Html | None:
    items = [
        item(
            "wait",
            first_line(one["task"]),
            [tag("span", one["happened"], class_="now")],
            f"run/{one['run']}",
        )
        for one in late
    ]
    return section("Longer than expected", tag("ul", items, class_="rows")) if items else None


# ---- questions ------------------------------------------------------------------------------------------


def inbox(cards: Sequence[Html], late: Sequence[dict[str, Any]], notice: str) -> Html:
    return main(
        tag("h1", "Inbox"),
        tag("p", prose(notice), class_="notice good", role="status") if notice else None,
        cards or tag("p", "No open questions.", class_="dim"),
        _late(late),
    )


def question(facts: dict[str, Any], change: list[str], hidden: dict[str, str], now: int) -> Html:
    remaining = len(change) - LINES_SHOWN
    about = f"{facts['id']} · {facts['kind']} · {facts['machine']}, in '{facts['state']}'"
    parts = [
        tag("h2", link(f"run/{facts['run']}", first_line(facts["task"]))),
        tag("p", f"{about} · {rough(now - facts['since_us'])} ago", class_="dim"),
        tag("p", f"{facts['happened'][:1].upper()}{facts['happened'][1:]} ({facts['code']}). {facts['why']}"),
        tag("div", facts["asked"].strip(), class_="asked"),
        tag("p", f"Default: {facts['unanswered']}.", class_="dim") if facts["unanswered"] else None,
        diff(change[:LINES_SHOWN]) if change else None,
        tag("p", link(f"run/{facts['run']}/diff", f"Show the other {remaining} lines"))
        if remaining > 0
        else None,
        _pending(facts["pending"]),
        _form(facts, hidden),
    ]
    return tag("article", *parts, id=f"q-{facts['id']}", class_="question")


def _pending(pending: dict[str, Any] | None) -> Html | None:
    """An answer that the run has not read yet."""
    if not pending:
        return None
    text = f": {pending['text']}" if pending.get("text") else ""
    text_ = f"{pending['who']} answered with {pending['verb']}{text}. The run has not read it yet."
    return tag("p", text_, class_="notice")


def _form(facts: dict[str, Any], hidden: dict[str, str]) -> Html:
    choices: dict[str, str] = facts["choices"]
    strong = next((verb for verb in FIRST if verb in choices), "")
    fields = [tag("input", type="hidden", name=name, value=value) for name, value in hidden.items()]
    takes = [verb for verb in choices if verb not in WITHOUT_TEXT]
    label = f"Text for {', '.join(takes)}"
    needed = "" if set(takes) <= {*NEEDS_TEXT} else " (optional where it is a reason)"
    area = tag(
        "textarea", "", name="text", rows="2", maxlength="20000", aria_label=label, placeholder=label + needed
    )
    buttons = [
        tag(
            "li",
            tag("button", verb, name="verb", value=verb, class_=_weight(verb, strong)),
            tag("span", does.removeprefix("TEXT: "), class_="dim"),
        )
        for verb, does in choices.items()
    ]
    return tag("form", *fields, area if takes else None, tag("ul", buttons), method="post", action="answer")


def _weight(verb: str, strong: str) -> str | None:
    return "strong" if verb == strong else "danger" if verb in ("cancel", "abandon") else None


# ---- a run ----------------------------------------------------------------------------------------------


def run(
    facts: dict[str, Any], fields: list[tuple[str, str]], story: Sequence[Line], cards: list[Html]
) -> Html:
    row, happened, *more = facts["row"], *facts["why"]
    task, title = facts["task"].strip(), first_line(facts["task"])
    rest = task.removeprefix(title).strip()
    live = facts["live"]
    now = [
        tag("p", f"{live['place']} · {live['counters']}", class_="dim"),
        tag("p", live["now"], class_="now"),
    ]
    return main(
        _tabs(facts["run"], "", facts),
        tag("h1", title),
        tag("div", rest, class_="asked") if rest else None,
        tag(
            "p", tag("span", row["label"], class_=f"label {row['tone']}"), " ", prose(happened), class_="lead"
        ),
        now if row["status"] != "ended" else None,
        [tag("p", prose(sentence)) for sentence in more] if not cards else None,
        cards,
        _tests(facts["tests"]),
        section("What happened", timeline(story)),
        section("Details", pairs(fields)),
    )


def _tabs(run_id: str, here: str, facts: dict[str, Any] | None = None) -> Html:
    del facts
    parts = (("", run_id), ("/diff", "Change"), ("/certificate", "Certificate"))
    links = [
        tag("a", title, href=f"run/{run_id}{part}", aria_current="page" if part == here else None)
        for part, title in parts
    ]
    return tag("p", links, class_="filters")


def _tests(groups: Sequence[tuple[str, Sequence[str]]]) -> Html | None:
    if not groups:
        return None
    parts = [
        tag(
            "details",
            tag("summary", f"{title}: {len(names)}"),
            tag("ul", [tag("li", tag("code", name)) for name in names]),
            open=number == 0 and len(names) <= 10,
        )
        for number, (title, names) in enumerate(groups)
    ]
    return section("Tests", parts)


def timeline(story: Sequence[Line]) -> Html:
    lines = [
        tag(
            "li",
            tag("time", clock(line.at)),
            tag("span", line.where, class_="place"),
            tag("span", line.text, class_=line.tone or None),
        )
        for line in story
    ]
    return tag("ol", lines, class_="story") if lines else tag("p", "Nothing yet.", class_="dim")


def change(run_id: str, lines: list[str]) -> Html:
    remaining = len(lines) - LINES_MOST
    return main(
        _tabs(run_id, "/diff"),
        diff(lines[:LINES_MOST]) if lines else tag("p", "No files were changed.", class_="dim"),
        tag("p", f"{remaining} more lines. `flyball diff {run_id}` shows all of them.")
        if remaining > 0
        else None,
    )


def diff(lines: Sequence[str]) -> Html:
    return tag("pre", [tag("span", line or " ", class_=_kind(line)) for line in lines], class_="diff")


def _kind(line: str) -> str | None:
    starts = {"diff --git": "file", "+++": "dim", "---": "dim", "@@": "hunk", "+": "add", "-": "del"}
    return next((kind for start, kind in starts.items() if line.startswith(start)), None)


def certificate(run_id: str, word: str, lines: list[str]) -> Html:
    tone = {"good": "good", "bad": "bad"}.get(word, "wait")
    rows = [(line[2:11].strip(), line[11:]) for line in lines[1:]]
    return main(
        _tabs(run_id, "/certificate"),
        tag("p", tag("span", word, class_=f"label {tone}"), f" {lines[0].partition(': ')[2]}", class_="lead"),
        pairs(rows) if rows else None,
    )
