"""The numbers of tasks: T1, T2, T3 in a repository, each given once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flyball.runtime.backlog import take_number


def test_two_who_add_at_the_same_time_get_different_numbers(tmp_path: Path) -> None:
    file = tmp_path / "tasks"
    with ThreadPoolExecutor(8) as pool:
        numbers = [*pool.map(lambda _: take_number(file, lambda: ()), range(200))]
    assert sorted(numbers) == [*range(1, 201)]


@pytest.mark.parametrize(
    ("text", "known", "number"),
    [
        (None, (), 1),
        (None, ("T3", "T12", "gh-40", "T", "Tx", "T9x"), 13),
        ("", ("T3",), 4),
        ("not a number", ("T3",), 4),
        ("41", ("T3",), 42),
    ],
)
def test_the_next_number_follows_the_last_one(
    tmp_path: Path, text: str | None, known: tuple[str, ...], number: int
) -> None:
    """Without the file, or with one that says nothing, it follows the names in use."""
    file = tmp_path / "tasks"
    if text is not None:
        file.write_text(text)
    assert take_number(file, lambda: known) == number
    assert take_number(file, lambda: ()) == number + 1
