"""Open issues of a GitHub repository with a label, as tasks (CTO-6). A poll that fails is said; it never means that
there is no work."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import quote

from flyball.domain.results import Trigger
from flyball.errors import UserError
from flyball.views.text import clean

API = "https://api.github.com"
PAGES_MOST = 20
BODY_MOST = 10_000_000
TEXT_MOST = 20_000
SLUG = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")
NEXT = re.compile(r'<([^>]+)>;\s*rel="next"')
SAYS = {
    401: "the token is not accepted. Set GITHUB_TOKEN to one that is valid",
    403: "access is refused, or the rate limit is used up. Check the token's rights, or wait",
    404: "there is no such repository, or the token may not see it",
    429: "the rate limit is used up. Wait, or poll less often",
}


def open_issues(slug: str, label: str, env: dict[str, str], timeout_s: float = 20) -> list[Trigger]:
    """Raises UserError if they cannot be read completely."""
    if not SLUG.fullmatch(slug):
        raise UserError(f"'{slug}' is not a GitHub repository. Write OWNER/NAME.")
    base = env.get("GITHUB_API_URL", API).rstrip("/")
    url: str | None = f"{base}/repos/{slug}/issues?state=open&per_page=100&labels={quote(label)}"
    found: list[Trigger] = []
    for _ in range(PAGES_MOST):
        if url is None:
            return found
        rows, url = _page(slug, url, base, env.get("GITHUB_TOKEN") or env.get("GH_TOKEN") or "", timeout_s)
        found += _triggers(slug, rows)
    raise UserError(
        f"{slug} has more than {PAGES_MOST * 100} open issues labelled '{label}'. Use a narrower label."
    )


def _page(slug: str, url: str, base: str, token: str, timeout_s: float) -> tuple[list[Any], str | None]:
    heads = {"Accept": "application/vnd.github+json", "User-Agent": "flyball"}
    heads |= {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=heads), timeout=timeout_s) as answer:
            rows, link = json.loads(answer.read(BODY_MOST)), answer.headers.get("Link", "")
    except urllib.error.HTTPError as problem:
        problem.close()
        says = SAYS.get(problem.code, "it has an internal error. Try again later")
        raise UserError(f"GitHub answered {problem.code} for the issues of {slug}: {says}.") from None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "reason", problem)
        raise UserError(
            f"The issues of {slug} cannot be read: {clean(str(reason))}. Try again later."
        ) from None
    if not isinstance(rows, list):
        raise UserError(f"GitHub's answer for the issues of {slug} is not a list. Check GITHUB_API_URL.")
    more = NEXT.search(link)
    after = more[1] if more and more[1].startswith(f"{base}/") else None  # the token goes nowhere else
    return cast("list[Any]", rows), after


def _triggers(slug: str, rows: list[Any]) -> Iterator[Trigger]:
    for row in rows:
        if "pull_request" in row:
            continue
        text = clean(f"{row['title']} (issue #{row['number']} of {slug})\n\n{row.get('body') or ''}").strip()
        yield Trigger(kind="task", text=text[:TEXT_MOST], ticket=f"GH{row['number']}")
