"""HTML that is built, never pasted: every text becomes part of a page through `tag`, which escapes it.

What agents wrote is hostile. Control characters and those that change the reading order are spelled out, as in diffs.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

from flyball.reading.terminal import spelled_out

EMPTY = ("base", "input", "link", "meta")


class Html(str):
    """Text that is markup already. Only this module makes it."""

    __slots__ = ()


Child = str | Iterable["Html"] | None


def escaped(text: str) -> Html:
    return text if isinstance(text, Html) else Html(html.escape(spelled_out(text)))


def tag(name: str, /, *children: Child, **attributes: str | bool | None) -> Html:
    """An element. `class_` is the attribute `class`, `data_x` is `data-x`; False and None leave an attribute out."""
    written_attributes = (
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escaped(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    head = f"<{name}{''.join(written_attributes)}>"
    return Html(head if name in EMPTY else f"{head}{joined(*children)}</{name}>")


def joined(*children: Child) -> Html:
    return Html("".join(escaped(c) if isinstance(c, str) else "".join(c) for c in children if c is not None))


def link(to: str, *children: Child, class_: str | None = None) -> Html:
    return tag("a", *children, href=to, class_=class_)


def table(headers: Iterable[str], rows: Iterable[Iterable[str]]) -> Html:
    """A cell of blocks is a bar."""
    head = tag("tr", [tag("th", header) for header in headers])
    body = [
        tag("tr", [tag("td", cell, class_="bar" if "█" in cell else None) for cell in row]) for row in rows
    ]
    return tag("div", tag("table", tag("thead", head), tag("tbody", body)), class_="wide")


def pairs(rows: Iterable[tuple[str, str]]) -> Html:
    """Names and values. A row without a name continues the one above."""
    return tag("dl", [joined(tag("dt", name), tag("dd", value)) for name, value in rows])


def document(title: str, base: str, stamp: str, *body: Child) -> Html:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · Flyball"),
        tag("base", href=base),
        tag("link", rel="icon", href="asset/icon.svg"),
        tag("link", rel="stylesheet", href="asset/style.css"),
        tag("script", src="asset/page.js", defer=True),
    )
    page = tag("html", head, tag("body", *body), lang="en", data_stamp=stamp or None)
    return Html(f"<!doctype html>{page}")
