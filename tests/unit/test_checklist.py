"""Markdown check-lists: what is read as an item, and what a tick changes."""

from __future__ import annotations

import pytest

from flyball.reading.checklist import items, tick, unreadable

LINES = {
    "- [ ] One": [("One", False)],
    "  * [x] One ": [("One", True)],
    "+ [X] One": [("One", True)],
    "12. [ ] One": [("One", False)],
    "- [ ](https://example.org)": [],
    "- [link](https://example.org)": [],
    "Some [ ] words": [],
    "- [1] a reference": [],
}


@pytest.mark.parametrize("line", LINES)
def test_what_is_an_item(line: str) -> None:
    assert [*items(f"# List\n{line}\n")] == LINES[line]
    assert unreadable(line) == 0


@pytest.mark.parametrize(
    "line", ["- [] One", "-[ ] One", "- [ ]", "* [ x ] One", "- [x]One", "- [z] One", "- [~] One"]
)
def test_what_is_nearly_an_item_is_named_by_its_line(line: str) -> None:
    assert unreadable(f"- [ ] Good\n{line}\n") == 2


def test_a_tick_changes_one_letter() -> None:
    text = "# List\r\n\r\n- [x] One\r\n  - [ ]  One \r\n- [ ] One\r\n- [ ] Two"
    assert tick(text, "One") == text.replace("  - [ ]", "  - [x]", 1)
    assert tick(text, "Two") == text[:-7] + "[x] Two"
    assert tick(text, "Three") == text
