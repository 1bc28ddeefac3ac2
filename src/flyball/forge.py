"""GitHub's API, or one that speaks it: issues, pull requests, and the state of CI.

A call gives the whole answer or raises ForgeError with one sentence. What could not be read never counts as "nothing".
"""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

from msgspec import Struct

from flyball.errors import ForgeError, UserError

API = "https://api.github.com"
PAGES_MOST = 20
BODY_MOST = 10_000_000
TIMEOUT_S = 20
SLUG = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")
IN_URL = re.compile(
    r"(?:[a-z+]+://[^/]+/|[^/]+@[^/:]+:)(?P<slug>[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}?)(?:\.git)?/?"
)
NEXT = re.compile(r'<([^>]+)>;\s*rel="next"')
SAYS = {
    401: "the token is not accepted. Set GITHUB_TOKEN to a valid one, or log in with `gh auth login`",
    403: "access is refused, or the rate limit is used up. Check the token's rights, or wait",
    404: "there is no such repository or branch, or the token may not see it",
    429: "the rate limit is used up. Wait, or ask less often",
}
RED = ("failure", "timed_out", "cancelled", "action_required", "startup_failure", "error")


class PullRequest(Struct, frozen=True):
    number: int
    url: str
    state: str  # open | closed | merged
    head: str  # the branch
    sha: str = ""


class CiState(Struct, frozen=True):
    """What CI says of a commit. Without any check it is "none"."""

    state: str  # none | pending | red | green
    failing: tuple[str, ...] = ()  # the names of the checks


class Forge(Struct, frozen=True):
    """One repository on GitHub, as a token may use it."""

    slug: str
    base: str = API
    token: str = ""
    timeout_s: float = TIMEOUT_S

    def issues(self, label: str) -> list[Any]:
        """The open issues with a label; pull requests among them, as GitHub has it."""
        return self._all(f"issues?state=open&per_page=100&labels={quote(label)}", "the issues")

    def state_of(self, number: int) -> str:
        """Of an issue or a pull request: open, closed, or merged."""
        row, _ = self._ask(f"issues/{number}", f"#{number}")
        return self._read(_state, row, f"#{number}")

    def pull_request(self, branch: str) -> PullRequest | None:
        """The newest one from this branch, open or not."""
        owner = self.slug.partition("/")[0]
        path = f"pulls?state=all&per_page=100&head={quote(f'{owner}:{branch}')}"
        rows = [_pull(row) for row in self._all(path, "the pull requests")]
        mine = [one for one in rows if one.head == branch]
        return max(mine, key=lambda one: one.number, default=None)

    def pull_requests(self) -> list[PullRequest]:
        """Those that are open."""
        return [_pull(row) for row in self._all("pulls?state=open&per_page=100", "the pull requests")]

    def open_pull_request(self, branch: str, target: str, title: str, body: str) -> PullRequest:
        data = {"head": branch, "base": target, "title": title, "body": body}
        row, _ = self._ask("pulls", "a new pull request", data)
        return self._read(_pull, row, "a new pull request")

    def ci(self, commit: str) -> CiState:
        """Check runs and commit statuses together."""
        runs, _ = self._ask(f"commits/{quote(commit)}/check-runs?per_page=100", "the checks")
        status, _ = self._ask(f"commits/{quote(commit)}/status?per_page=100", "the checks")
        return self._read(_ci, {"runs": runs, "status": status}, "the checks")

    # ---- asking ----

    def _all(self, path: str, what: str) -> list[Any]:
        rows_: list[Any] = []
        url: str | None = path
        for _ in range(PAGES_MOST):
            if url is None:
                return rows_
            rows, url = self._ask(url, what)
            if not isinstance(rows, list):
                raise ForgeError(
                    f"GitHub's answer for {what} of {self.slug} is not a list. Check GITHUB_API_URL."
                )
            rows_ += cast("list[Any]", rows)
        raise ForgeError(f"{self.slug} has more than {PAGES_MOST * 100} entries for {what}. Narrow it down.")

    def _ask(self, path: str, what: str, data: dict[str, Any] | None = None) -> tuple[Any, str | None]:
        url = path if path.startswith(f"{self.base}/") else f"{self.base}/repos/{self.slug}/{path}"
        heads = {"Accept": "application/vnd.github+json", "User-Agent": "flyball"}
        heads |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        body = json.dumps(data).encode() if data is not None else None
        request = urllib.request.Request(url, data=body, headers=heads)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as answer:
                read, link = json.loads(answer.read(BODY_MOST)), answer.headers.get("Link", "")
        except urllib.error.HTTPError as problem:
            with problem:
                raise self._refusal(problem, what) from None
        except (OSError, ValueError, http.client.HTTPException) as problem:
            reason = _one_line(str(getattr(problem, "reason", problem))) or type(problem).__name__
            raise ForgeError(
                f"GitHub does not answer for {what} of {self.slug}: {reason}. Try again later."
            ) from None
        more = NEXT.search(link)
        return read, more[1] if more and more[1].startswith(
            f"{self.base}/"
        ) else None  # the token goes nowhere else

    def _refusal(self, problem: urllib.error.HTTPError, what: str) -> ForgeError:
        says = SAYS.get(problem.code, "it has a problem of its own. Try again later")
        if problem.code == 401 and not self.token:
            says = "it needs a token. Set GITHUB_TOKEN, or log in with `gh auth login`"
        if problem.code == 422:
            says = f"it does not accept this: {_details(problem)}"
        text = f"GitHub answered {problem.code} for {what} of {self.slug}: {says}."
        return ForgeError(text, problem.code)

    def _read(self, how: Any, data: Any, what: str) -> Any:
        try:
            return how(data)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ForgeError(
                f"GitHub's answer for {what} of {self.slug} cannot be read. Check GITHUB_API_URL."
            ) from None


def _details(problem: urllib.error.HTTPError) -> str:
    try:
        details = json.loads(problem.read(100_000))
        errors = [str(one.get("message") or one.get("field") or "") for one in details.get("errors", [])]
        return _one_line("; ".join([one for one in errors if one] or [str(details.get("message", ""))]))[:300]
    except (OSError, ValueError, AttributeError, http.client.HTTPException):
        return "no reason is given"


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split()).rstrip(".")


def _pull(row: Any) -> PullRequest:
    state = "merged" if row.get("merged_at") else str(row["state"])
    head = row["head"]
    return PullRequest(
        int(row["number"]), str(row["html_url"]), state, str(head["ref"]), str(head.get("sha", ""))
    )


def _state(row: Any) -> str:
    pull = cast("dict[str, Any]", row.get("pull_request") or {})
    return "merged" if pull.get("merged_at") else str(row["state"])


def _ci(answer: dict[str, Any]) -> CiState:
    checks = [
        (str(one["name"]), str(one.get("conclusion") or "pending")) for one in answer["runs"]["check_runs"]
    ]
    checks += [(str(one["context"]), str(one["state"])) for one in answer["status"]["statuses"]]
    red = tuple(name for name, state in checks if state in RED)
    waits = any(state == "pending" for _, state in checks)
    return CiState("red" if red else "pending" if waits else "green" if checks else "none", red)


# ---- which repository, and as whom -----------------------------------------------------------------------


def forge_for(slug: str, env: Mapping[str, str]) -> Forge:
    if not SLUG.fullmatch(slug):
        raise UserError(f"'{slug}' is not a GitHub repository. Write OWNER/NAME.")
    return Forge(slug, env.get("GITHUB_API_URL", API).rstrip("/"), token(env))


def slug_of(url: str) -> str:
    """OWNER/NAME of the address of a remote; "" if it has none, as a path on this machine."""
    match = IN_URL.fullmatch(url)
    return match["slug"] if match else ""


def token(env: Mapping[str, str]) -> str:
    """From the environment, else that of the `gh` command."""
    token_ = env.get("GITHUB_TOKEN") or env.get("GH_TOKEN") or ""
    program = None if token_ else shutil.which("gh", path=env.get("PATH"))
    if program is None:
        return token_
    try:
        process = subprocess.run(
            [program, "auth", "token"], env=dict(env), capture_output=True, timeout=TIMEOUT_S, text=True
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return process.stdout.strip() if process.returncode == 0 else ""
