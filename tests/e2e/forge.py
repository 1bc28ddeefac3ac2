"""A server on loopback that speaks as much of GitHub's API as Flyball needs, and can fail."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class Forge:
    def __init__(self) -> None:
        self.issues: list[dict[str, Any]] = []
        self.pulls: list[dict[str, Any]] = []
        self.checks: dict[str, str] = {}  # name of a check -> its conclusion; "" is pending
        self.checks_of: dict[str, dict[str, str]] = {}  # the same of single commits
        self.tip: Callable[[str], str] = lambda _: ""  # the commit of a branch of the remote
        self.fails: int | str = 0  # every call: a status, or "nothing", or "garbage"
        self.refuses: dict[str, int | str] = {}  # the same by "METHOD what"
        self.asked: list[tuple[str, str]] = []
        forge = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                forge.answer(self)

            def do_POST(self) -> None:
                forge.answer(self)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, call: BaseHTTPRequestHandler) -> None:
        self.asked.append((call.path, call.headers.get("Authorization", "")))
        what = urlsplit(call.path).path.split("/")[4]
        fails = self.fails or self.refuses.get(f"{call.command} {what}", 0)
        body = call.rfile.read(int(call.headers.get("Content-Length") or 0))
        if fails == "nothing":
            call.close_connection = True
            return
        code, rows = 200, list[dict[str, Any]]()
        if isinstance(fails, int) and fails:
            code, told = fails, dict[str, Any](message="It is not to be.")
        elif call.command == "POST":
            code, told = self.opened(json.loads(body))
        else:
            rows = self.rows(what, call.path)
            told = self.state(call.path) if what == "commits" else self.one(call.path)
        page = int(call.path.partition("&page=")[2] or 1)
        call.send_response(code)
        if page * 2 < len(rows):
            call.send_header(
                "Link", f'<{self.url}{call.path.split("&page=")[0]}&page={page + 1}>; rel="next"'
            )
        call.end_headers()
        answer = told or rows[(page - 1) * 2 : page * 2]
        call.wfile.write(b"not json" if fails == "garbage" else json.dumps(answer).encode())

    def one(self, path: str) -> dict[str, Any]:
        """A single issue or pull request, if one is asked for."""
        *_, what, number = urlsplit(path).path.split("/")
        if what != "issues":
            return {}
        asked = [row for row in [*self.issues, *self.pulls] if str(row["number"]) == number]
        return {"state": "open", **asked[0]}

    def rows(self, what: str, path: str) -> list[dict[str, Any]]:
        if what != "pulls":
            return self.issues
        asked = parse_qs(urlsplit(path).query)
        head, state = asked.get("head", [""])[0].rpartition(":")[2], asked["state"][0]
        for row in self.pulls:
            row["head"]["sha"] = self.tip(row["head"]["ref"])
        return [
            row
            for row in self.pulls
            if (not head or row["head"]["ref"] == head) and state in ("all", row["state"])
        ]

    def opened(self, row: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if any(one["head"]["ref"] == row["head"] for one in self.pulls):
            return 422, {
                "message": "Validation Failed",
                "errors": [{"message": "A pull request already exists"}],
            }
        number = len(self.pulls) + 1
        url = f"https://example.org/pull/{number}"
        pull = {**row, "number": number, "html_url": url, "state": "open", "head": {"ref": row["head"]}}
        self.pulls.append(pull)
        return 201, pull

    def state(self, path: str) -> dict[str, Any]:
        if "/check-runs" not in path:
            return {"statuses": []}
        checks = self.checks_of.get(urlsplit(path).path.split("/")[5], self.checks)
        rows = [{"name": name, "conclusion": said or None} for name, said in checks.items()]
        return {"check_runs": rows}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
