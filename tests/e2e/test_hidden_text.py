"""What an agent hides from readers is shown, and asked about or refused: control characters, UTF-16, NULs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.e2e.helpers import FIXED, Place

HIDDEN = FIXED + "# \x1b]0;\ndef evil():\n    return 1\n# \x07\n"


def test_a_diff_on_a_terminal_shows_code_between_control_characters(place: Place) -> None:
    done = place.run(place.script(planner=[{"say": "plan"}], coder=[{"write": {"calc.py": HIDDEN}}]))
    assert done.code == 3, done.err
    shown = place.fb("diff", "@last", "--color").out
    assert "def evil():" in shown and "\\x1b]0;" in shown and "\x07" not in shown
    (question,) = place.fb("inbox", "--json").json
    assert question["asked"].count("calc.py") == 1


@pytest.mark.parametrize(
    ("run", "code", "rule"),
    [
        ("printf 'x = 1\\0\\n' > odd.py", 3, "odd-encoding"),
        ("printf 'password = Zx9kQ2pW7!\\n' | iconv -t UTF-16 > settings.txt", 4, "secret"),
        ("printf 'password = Zx9kQ2pW7!\\0\\n' > settings.txt", 4, "secret"),
    ],
)
def test_text_that_git_takes_for_binary_is_judged(place: Place, run: str, code: int, rule: str) -> None:
    step: dict[str, Any] = {"write": {"calc.py": FIXED}, "run": run}
    done = place.run(place.script(planner=[{"say": "plan"}], coder=[step]))
    assert done.code == code, done.err
    assert place.last()["stop_reason"]["rule"] == rule
