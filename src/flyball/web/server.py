"""The server behind `flyball serve`: which page is requested, by whom, and what is sent back. Pages are made one
at a time.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, quote, unquote

import msgspec

from flyball.errors import FlyballError, NotFound, UserError
from flyball.journal.database import others_at_work
from flyball.runtime.app import App
from flyball.runtime.questions import leave_answer, unread_answer
from flyball.system.http_server import HttpServer, Refused, Reply, Request
from flyball.views.text import clean
from flyball.web.access import Access
from flyball.web.markup import document, tag
from flyball.web.pages import PAGES, Asked, framed, seen_of

HOST = "127.0.0.1"
FIELDS_MOST = 20
KEPT_MOST = 64  # pages that are kept until something changes
BUSY_S, IDLE_S = 5, 60  # a page this recent is still valid if nothing was written
HTML, JSON, TEXT = "text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8"
KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
CONTENT = (
    *("default-src 'none'", "style-src 'self'", "script-src 'self'", "img-src 'self'", "connect-src 'self'"),
    *("form-action 'self'", "base-uri 'self'", "frame-ancestors 'none'"),
)
SAFE = (
    (
        "Content-Security-Policy",
        "; ".join(CONTENT),
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)


class WebPage:
    """Serves the pages of one user, until it is closed."""

    def __init__(self, env: dict[str, str], port: int, here: str, on_link: Callable[[str], None]) -> None:
        """`here`: the repository in which it was started, "" for none. Raises OSError if the port is taken."""
        self.env, self.here = env, here
        self.server = HttpServer(HOST, port, self.answer, self.error)
        self.access = Access(self.server.port, on_link)
        self._making, self._kept = threading.Lock(), dict[str, tuple[str, Reply]]()

    @property
    def address(self) -> str:
        return f"{HOST}:{self.server.port}"

    def start(self) -> None:
        self.server.start("page")

    def close(self) -> None:
        self.server.close()

    # ---- a request ----

    def answer(self, request: Request) -> Reply:
        self.access.require_host(request)
        below, own, rest = request.path.partition(self.access.base)
        if below or not own:
            raise Refused(403, "Open the link that `flyball serve` printed.")
        query = _fields(request.query)
        if rest == "in" and request.method == "GET":
            return self._sign_in(query.get("token", ""))
        self.access.require_browser(request)
        folder, _, name = rest.partition("/")
        if request.method == "POST":
            return self._answer_question(request) if rest == "answer" else self._no_page()
        return _asset(name) if folder == "asset" else self._page(request, rest, query)

    def error(self, request: Request | None, code: int, message: str) -> Reply:
        del request
        return Reply(code, f"{clean(message)}\n".encode(), TEXT, SAFE)

    def _no_page(self) -> Reply:
        raise Refused(404, "There is no such page.")

    def _sign_in(self, token: str) -> Reply:
        """A page that continues by itself: a redirect would count as coming from the site of the link."""
        cookie, home = self.access.sign_in(token), self.access.base
        onward = tag("meta", http_equiv="refresh", content=f"0; url={home}")
        body = document("Signed in", home, "", onward, tag("p", tag("a", "Signed in. Continue", href=home)))
        return Reply(200, body.encode(), HTML, (*SAFE, ("Set-Cookie", cookie)))

    # ---- pages ----

    def _page(self, request: Request, rest: str, query: dict[str, str]) -> Reply:
        as_json = rest.endswith(".json") or query.pop("format", "") == "json"
        names = [unquote(part) for part in rest.removesuffix(".json").split("/")]
        make = PAGES.get(names[0])
        if make is None or len(names) > 3:
            return self._no_page()
        with self._making:
            app = App(self.env)
            try:
                stamp = self._stamp(app, request)
                if request.head("If-None-Match") == stamp:
                    return Reply(304, b"", HTML, SAFE)
                cached = self._kept.get(f"{request.path}?{request.query}")
                if cached and cached[0] == stamp:
                    return cached[1]
                ask = Asked(app, names[1:], query, self.access.base, self.access.form, self.here)
                reply = self._made(make, ask, as_json, stamp)
            finally:
                app.close()
            self._keep(f"{request.path}?{request.query}", stamp, reply)
        return reply

    def _made(self, make: Callable[[Asked], Any], ask: Asked, as_json: bool, stamp: str) -> Reply:
        try:
            page = make(ask)
        except FlyballError as problem:
            return self._problem(ask, problem, as_json)
        if as_json:
            return Reply(200, msgspec.json.encode(page.facts), JSON, (*SAFE, ("ETag", stamp)))
        return Reply(200, framed(ask, page, stamp).encode(), HTML, (*SAFE, ("ETag", stamp)))

    def _problem(self, ask: Asked, problem: FlyballError, as_json: bool) -> Reply:
        code = 404 if isinstance(problem, NotFound) else 400 if isinstance(problem, UserError) else 503
        if as_json:
            return Reply(code, json.dumps({"error": str(problem)}).encode(), JSON, SAFE)
        return Reply(code, framed(ask, None, "", str(problem)).encode(), HTML, SAFE)

    def _stamp(self, app: App, request: Request) -> str:
        """Changes with everything that a page shows: what was written, which drivers live, and from time to time
        the clock.
        """
        files_of = (app.dirs.journal, app.dirs.journal.with_name(f"{app.dirs.journal.name}-wal"))
        stamps = [(stat.st_mtime_ns, stat.st_size) for stat in (f.stat() for f in files_of if f.exists())]
        alive = others_at_work(app.state_dir)
        moment = int(time.time()) // (BUSY_S if alive else IDLE_S)
        words = repr((request.path, request.query, stamps, alive, moment, self.access.base))
        return f'"{sha256(words.encode()).hexdigest()[:24]}"'

    def _keep(self, address: str, stamp: str, reply: Reply) -> None:
        if reply.code == 200:
            self._kept.pop(address, None)
            self._kept[address] = (stamp, reply)
        while len(self._kept) > KEPT_MOST:
            del self._kept[next(iter(self._kept))]

    # ---- answers ----

    def _answer_question(self, request: Request) -> Reply:
        if request.head("Content-Type").partition(";")[0] != "application/x-www-form-urlencoded":
            raise Refused(415, "Send a form.")
        fields = _fields(request.body.decode("utf-8", "replace"))
        self.access.require_own_form(request, fields.get("form", ""))
        name = fields.get("question", "")
        with self._making:
            app = App(self.env)
            try:
                self._leave(app, name, fields)
            except FlyballError as problem:
                ask = Asked(app, [], {}, self.access.base, self.access.form, self.here)
                return self._problem(ask, problem, False)
            finally:
                app.close()
        onward = f"{self.access.base}inbox?answered={quote(name, safe='')}"
        return Reply(303, b"", HTML, (*SAFE, ("Location", onward)))

    def _leave(self, app: App, name: str, fields: dict[str, str]) -> None:
        """Answer exactly the question that was shown, with the earlier answer that was shown."""
        run = app.question(name)
        assert run.question is not None
        if run.question.id != name or not fields.get("shown"):
            raise UserError("The question is missing. Reload the page, then answer.")
        unread = unread_answer(app, run)
        if fields.get("seen") != seen_of(msgspec.to_builtins(unread)):
            verb = f"answered with {unread.verb}" if unread else "changed"
            raise UserError(
                f"Question {name} was {verb} after this page was shown. Look at it again, then answer."
            )
        text = clean(fields.get("text", "")).strip()
        leave_answer(app, run, fields.get("verb", ""), text, "page", fields["shown"])


def _fields(words: str) -> dict[str, str]:
    """The last value of each field."""
    try:
        fields = parse_qs(words, keep_blank_values=True, max_num_fields=FIELDS_MOST)
    except ValueError:
        raise Refused(400, "There are too many fields.") from None
    return {name: values[-1] for name, values in fields.items()}


def _asset(name: str) -> Reply:
    if name not in ("style.css", "page.js", "icon.svg"):
        raise Refused(404, "There is no such file.")
    data = (files("flyball.web") / "assets" / name).read_bytes()
    return Reply(200, data, KINDS[name.rpartition(".")[2]], SAFE)
