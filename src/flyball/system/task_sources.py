"""The open issues of a GitHub repository, as tasks. A poll that fails is reported; it never counts as an empty list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flyball.domain.results import Trigger
from flyball.errors import ForgeError
from flyball.forge import forge_for
from flyball.views.text import clean

TEXT_MOST = 20_000


def open_issues(slug: str, label: str, env: Mapping[str, str]) -> list[Trigger]:
    """The open issues of a repository with a label, as tasks. Raises UserError if they cannot be read completely."""
    rows = forge_for(slug, env).issues(label)
    try:
        return list(_triggers(slug, rows))
    except (KeyError, TypeError, AttributeError):
        raise ForgeError(
            f"GitHub's answer for the issues of {slug} cannot be read. Check GITHUB_API_URL."
        ) from None


def _triggers(slug: str, rows: list[Any]) -> Iterator[Trigger]:
    for row in rows:
        if "pull_request" in row:
            continue
        text = clean(f"{row['title']} (issue #{row['number']} of {slug})\n\n{row.get('body') or ''}").strip()
        yield Trigger(kind="task", text=text[:TEXT_MOST], ticket=f"GH{row['number']}")
