"""The web page over real HTTP: who is let in, what is answered, and what hostile text may do (nothing)."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.e2e.helpers import FIXED, Place

from flyball.domain.messages import Answer, decode
from flyball.journal.sqlite import SqliteJournal
from flyball.reading.terminal import HIDDEN
from flyball.system.http_server import BODY_MOST, CONNECTIONS_MOST
from flyball.web.server import WebPage

EVIL = "<script>alert(1)</script>\"' onload=x &amp; \u202egnp.exe\u2066 \x1b[31m\x07 </textarea>"
CI = {"write": {".github/workflows/ci.yml": f"on: push\n# {EVIL}\n"}}


@dataclass
class Got:
    code: int
    heads: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Client:
    """A browser as far as HTTP goes: it keeps the cookie, and names itself as a browser would."""

    page: WebPage
    links: list[str]
    cookie: str = ""
    base: str = ""
    more: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: bytes | None = None, **heads: str | None) -> Got:
        connection = http.client.HTTPConnection("127.0.0.1", self.page.server.port, timeout=20)
        given = {"Host": self.page.address, "Cookie": self.cookie, **heads}
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in given.items():
            if value is not None:
                connection.putheader(name.replace("_", "-"), value)
        if body is not None and "Content_Length" not in heads:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        if body is not None:
            connection.send(body)
        reply = connection.getresponse()
        got = Got(reply.status, dict(reply.getheaders()), reply.read().decode())
        connection.close()
        return got

    def get(self, path: str = "", **heads: str | None) -> Got:
        return self.ask("GET", self.base + path, **heads)

    def sign_in(self) -> Got:
        got = self.ask("GET", self.links[-1].partition(self.page.address)[2])
        self.cookie = got.heads["Set-Cookie"].partition(";")[0]
        self.base = self.links[-1].partition(self.page.address)[2].partition("in?")[0]
        return got

    def form(self, number: int = 0, path: str = "inbox") -> dict[str, str]:
        """The hidden fields of a form of the page, as it was shown."""
        forms = re.findall(r"<form.*?</form>", self.get(path).text, re.S)
        return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', forms[number]))

    def answer(self, given: dict[str, str], **heads: str | None) -> Got:
        own = {"Origin": f"http://{self.page.address}", "Content_Type": "application/x-www-form-urlencoded"}
        return self.ask("POST", f"{self.base}answer", urlencode(given).encode(), **{**own, **heads})


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.clear()


@pytest.fixture
def client(place: Place) -> Iterator[Client]:
    links: list[str] = []
    page = WebPage(place.env, 0, str(place.repo), links.append)
    page.start()
    made = Client(page, links)
    made.sign_in()
    yield made
    page.close()


def mail(place: Place) -> list[Answer]:
    """The answers that were left and that nothing has read."""
    journal = SqliteJournal(place.state / "journal.db")
    runs = [row.run for row in journal.rows()]
    left = [decode(message.body) for message in journal.mail_all(runs)]
    journal.close()
    return [message for message in left if isinstance(message, Answer)]


# ---- who is let in --------------------------------------------------------------------------------------


def test_a_link_signs_in_one_browser_and_the_next_one_is_printed(client: Client) -> None:
    first = client.links[0].partition(client.page.address)[2]
    assert len(client.links) == 2 and client.get().code == 200
    again = client.ask("GET", first)
    assert (again.code, again.text.count("\n")) == (403, 1) and "used before" in again.text
    assert "Set-Cookie" not in again.heads and len(client.links) == 2
    other = Client(client.page, client.links)
    cookie = other.sign_in().heads["Set-Cookie"]
    assert other.get().code == 200 and client.get().code == 200
    assert cookie.endswith(f"; Path={client.base}; HttpOnly; SameSite=Strict")


@pytest.mark.parametrize(
    ("path", "heads", "code"),
    [
        ("", {"Host": "evil.example"}, 421),
        ("", {"Host": "127.0.0.1"}, 421),
        ("", {"Host": "127.0.0.1.evil.example:{port}"}, 421),
        ("", {"Host": None}, 421),
        ("", {"host": "127.0.0.1:{port}"}, 400),  # a second one
        ("", {"Host": "localhost:{port}"}, 200),
        ("", {"Cookie": None}, 403),
        ("inbox.json", {"Cookie": None}, 403),
        ("asset/style.css", {"Cookie": None}, 403),
        ("", {"Cookie": "flyball=wrong"}, 403),
        ("", {"Cookie": "flyball=" + "; flyball=" * 3000}, 403),
        ("", {"Sec_Fetch_Site": "cross-site"}, 403),
        ("", {"Sec_Fetch_Site": "same-site"}, 403),
        ("", {"Sec_Fetch_Site": "none"}, 200),
        ("in?token=wrong", {}, 403),
        ("in", {}, 403),
        ("asset/../server.py", {}, 404),
        ("asset/%2e%2e/server.py", {}, 404),
        ("run/..%2f..%2fetc%2fpasswd", {}, 404),
        ("run/x/../../inbox", {}, 404),
        ("run/%00", {}, 404),
        ("run/%0d%0aSet-Cookie:%20a=b", {}, 404),
        ("run", {}, 400),
        ("nothing", {}, 404),
        ("?x=" + "a" * 60_000, {}, 400),
        ("?" + "&".join(f"a{n}=1" for n in range(50)), {}, 400),
        ("runs?status=" + "%3Cscript%3E", {}, 200),
    ],
)
def test_who_is_let_in_and_what_is_there(client: Client, path: str, heads: dict[str, Any], code: int) -> None:
    port = str(client.page.server.port)
    given = {name: value and value.replace("{port}", port) for name, value in heads.items()}
    got = client.get(path, **given)
    assert got.code == code, got.text
    assert got.code < 400 or got.heads["Content-Type"].startswith("text/plain") or "notice bad" in got.text
    assert "Set-Cookie" not in got.heads
    require_safe(got)


def test_nothing_is_served_outside_of_the_secret_folder(client: Client) -> None:
    for path in ("/", "/inbox", "/favicon.ico", "http://evil.example/", "*", f"/x{client.base}inbox"):
        got = client.ask("GET", path)
        assert got.code in (400, 403), path
        require_safe(got)


def require_safe(got: Got) -> None:
    policy = got.heads["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert got.heads["X-Content-Type-Options"] == "nosniff" and got.heads["X-Frame-Options"] == "DENY"
    assert got.heads["Cache-Control"] == "no-store" and got.heads["Referrer-Policy"] == "same-origin"


# ---- answers --------------------------------------------------------------------------------------------


def test_an_answer_is_left_once_for_exactly_what_was_shown(place: Place, client: Client) -> None:
    place.loop({"ask": "Which table?"}, {"write": {"a.txt": "x"}})
    shown = client.form()
    got = client.answer({**shown, "verb": "answer", "text": "The second\r\none"})
    assert got.code == 303, got.text
    (left,) = mail(place)
    assert (left.verb, left.text, left.how) == ("answer", "The second\none", "page")
    after = client.ask("GET", got.heads["Location"])
    assert 'Answer saved: "The second one".' in text_of(after.text) and "flyball resume" in after.text
    place.fb("resume", "@last")
    taken = [entry for entry in place.fb("log", "@last", "--json").lines if entry["is"] == "Answered"]
    assert [(one["text"], one["how"]) for one in taken] == [("The second\none", "page")]
    assert "Answered" in client.ask("GET", got.heads["Location"]).text
    assert "is not open" in client.answer({**shown, "verb": "answer", "text": "Again"}).text


@pytest.mark.parametrize(
    ("change", "heads", "code", "says"),
    [
        ({}, {"Origin": None}, 403, "not sent from a page"),
        ({}, {"Origin": "null"}, 403, "not sent from a page"),
        ({}, {"Origin": "http://evil.example"}, 403, "not sent from a page"),
        ({}, {"Origin": "http://127.0.0.1:1"}, 403, "not sent from a page"),
        ({}, {"Host": "evil.example"}, 421, "only served as"),
        ({}, {"Cookie": None}, 403, "not signed in"),
        ({}, {"Sec_Fetch_Site": "cross-site"}, 403, "another site"),
        ({}, {"Content_Type": "text/plain"}, 415, "Send a form"),
        ({}, {"Content_Length": str(BODY_MOST + 1)}, 413, "at most"),
        ({}, {"Content_Length": "-1"}, 413, "at most"),
        ({}, {"Transfer_Encoding": "chunked"}, 413, "at most"),
        ({"form": ""}, {}, 403, "another start"),
        ({"form": "x"}, {}, 403, "another start"),
        ({"shown": "0" * 16}, {}, 400, "has changed since you saw it"),
        ({"shown": ""}, {}, 400, "Reload the page"),
        ({"seen": "0" * 16}, {}, 400, "after this page was shown"),
        ({"question": ""}, {}, 404, "no run"),
        ({"question": "nothing.1"}, {}, 404, "no run"),
        ({"question": "{run}"}, {}, 400, "Reload the page"),
        ({"question": "{run}.9"}, {}, 404, "is not open"),
        ({"question": "\r\nSet-Cookie: a=b"}, {}, 404, "no run"),
        ({"verb": "approve", "text": ""}, {}, 400, "It takes: answer, redirect, cancel"),
        ({"verb": EVIL}, {}, 400, "It takes: answer, redirect, cancel"),
        ({"verb": ""}, {}, 400, "It takes: answer, redirect, cancel"),
        ({"text": " "}, {}, 400, "The text is missing"),
        ({"verb": "cancel"}, {}, 400, "takes no text"),
        ({f"a{n}": "1" for n in range(50)}, {}, 400, "too many fields"),
    ],
)
def test_what_is_no_answer_is_refused_in_a_sentence_and_leaves_nothing(
    waiting: tuple[Place, Client], change: dict[str, str], heads: dict[str, Any], code: int, says: str
) -> None:
    place, client = waiting
    shown = client.form()
    run = shown["question"].rpartition(".")[0]
    given = {**shown, "verb": "answer", "text": "x", **change}
    got = client.answer({name: value.replace("{run}", run) for name, value in given.items()}, **heads)
    assert got.code == code and says in text_of(got.text), got.text
    assert mail(place) == []
    require_safe(got)
    if got.heads["Content-Type"].startswith("text/html"):
        Checker().feed(got.text)


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Client]]:
    """A run that waits for an answer, and the page."""
    place, links = Place(tmp_path_factory.mktemp("page")), list[str]()
    place.loop({"ask": f"Which table? {EVIL}"})
    page = WebPage(place.env, 0, str(place.repo), links.append)
    page.start()
    client = Client(page, links)
    client.sign_in()
    yield place, client
    page.close()


def test_other_methods_are_refused(waiting: tuple[Place, Client]) -> None:
    _, client = waiting
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "HEAD", "TRACE", "<script>"):
        got = client.ask(method, f"{client.base}inbox")
        assert got.code == 501 and "<" not in got.text, method
        require_safe(got)
    assert client.ask("POST", f"{client.base}inbox", b"").code == 404


def test_of_two_answers_at_the_same_moment_one_is_taken(place: Place, client: Client) -> None:
    place.loop({"ask": "Which table?"})
    shown, codes = client.form(), list[int]()
    start = threading.Barrier(8)

    def send(number: int) -> None:
        start.wait()
        codes.append(client.answer({**shown, "verb": "answer", "text": f"number {number}"}).code)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [303] + [400] * 7 and len(mail(place)) == 1
    again = client.answer({**client.form(), "verb": "answer", "text": "Better"})
    assert again.code == 303, "who sees the earlier answer may replace it"
    assert mail(place)[-1].text == "Better"


def test_an_answer_to_a_change_that_has_changed_is_refused(place: Place, client: Client) -> None:
    place.loop(CI, {"write": {".github/workflows/other.yml": "x"}})
    shown = client.form()
    assert "ci.yml" in client.get("inbox").text
    assert place.fb("reject", "@last", "no").code == 0
    place.fb("resume", "@last")
    got = client.answer({**shown, "verb": "approve"})
    assert got.code == 404 and "is not open" in got.text and mail(place) == []


# ---- hostile text ---------------------------------------------------------------------------------------

TAGS = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "base",
        "link",
        "script",
        "body",
        "header",
        "nav",
        "strong",
        "a",
        "b",
        "p",
        "i",
    ),
    *(
        "main",
        "section",
        "article",
        "h1",
        "h2",
        "ul",
        "li",
        "ol",
        "dl",
        "dt",
        "dd",
        "span",
        "div",
        "time",
        "details",
    ),
    *(
        "summary",
        "code",
        "pre",
        "form",
        "input",
        "textarea",
        "button",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    ),
}
ATTRIBUTES = {
    *(
        "lang",
        "data-stamp",
        "charset",
        "name",
        "content",
        "href",
        "rel",
        "src",
        "defer",
        "id",
        "hidden",
        "class",
        "type",
    ),
    *(
        "aria-current",
        "aria-label",
        "role",
        "value",
        "method",
        "action",
        "rows",
        "maxlength",
        "placeholder",
        "open",
    ),
}


class Checker(HTMLParser):
    """Only elements and attributes that this project writes, leading only to this server; no hidden characters."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS and {name for name, _ in attrs} <= ATTRIBUTES, (tag, attrs)
        given = dict(attrs)
        assert tag != "script" or given == {"src": "asset/page.js", "defer": None}
        for name in ("href", "src", "action"):
            value = given.get(name) or ""
            assert re.fullmatch(r"(/[\w-]+/|[a-z.]*[\w/.?=#%-]*)", value) and "//" not in value, value

    def handle_data(self, data: str) -> None:
        assert not HIDDEN.search(data.replace("\n", "")), data


def text_of(page: str) -> str:
    """What a person reads."""
    parts: list[str] = []
    parser = HTMLParser()
    parser.handle_data = parts.append  # type: ignore[method-assign]
    parser.feed(page)
    return "".join(parts)


def test_what_agents_write_is_only_text(place: Place, client: Client) -> None:
    """In a task, a question, a file's name and content, a test's name, a tool call and a message."""
    name = "a<img src=x onerror=alert(1)>&\"'.py"
    acts = [{"tool": EVIL, "input": EVIL, "result": EVIL}]
    place.loop(
        {"write": {name: EVIL, "calc.py": FIXED}, "say": EVIL, "actions": acts}, {"ask": EVIL}, task=EVIL
    )
    run = place.last()["run"]
    place.loop({**CI, "say": EVIL}, task=EVIL)
    paths = [
        "",
        "inbox",
        "runs",
        f"run/{run}",
        f"run/{run}/diff",
        f"run/{run}/certificate",
        "runs?status=<x>",
    ]
    for path in paths:
        got = client.get(path.replace("<", "%3C"))
        assert got.code == 200, path
        Checker().feed(got.text)
        assert "alert(1)" not in got.text or "&lt;script&gt;alert(1)" in got.text or "&lt;img" in got.text
    shown = text_of(client.get("inbox").text)
    assert "<script>alert(1)</script>" in shown and "\\x202egnp.exe" in shown
    assert name.partition("&")[0] in text_of(client.get(f"run/{run}/diff").text)


# ---- the twins, and being slow --------------------------------------------------------------------------


def test_every_page_has_the_json_of_the_command_line(place: Place, client: Client) -> None:
    place.loop({"write": {"calc.py": FIXED}, "finish": {"indicators": ["task complete", "all done"]}})
    place.loop({"ask": "Which table?"})
    run = place.last()["run"]
    assert client.get("inbox.json").json == place.fb("inbox", "--json").json
    shown, said = client.get(f"run/{run}?format=json").json, place.fb("show", run, "--json").json
    assert {key: value for key, value in shown.items() if key in said and key != "record"} == {
        key: value for key, value in said.items() if key != "record"
    }
    listed, rows = client.get("runs.json").json, place.fb("ls", "--json").json
    assert [{key: row[key] for key in rows[0] if key != "task"} for row in listed] == [
        {key: value for key, value in row.items() if key != "task"} for row in rows
    ]
    counted, stats = client.get("stats.json").json, place.fb("stats", "--all", "--json").json
    assert counted["tasks"] == stats["tasks"] and counted["transitions"] == stats["transitions"]
    assert client.get("stats?since=tuesday").code == 400
    facts = client.get("?format=json").json
    assert [one["id"] for one in facts["waiting"]] == [f"{run}.1"] and len(facts["recent"]) == 1
    assert client.get("nothing.json").code == 404 and client.get("run/zzzz.json").json["error"]


def test_a_page_that_has_not_changed_is_not_made_again(place: Place, client: Client) -> None:
    place.loop({"ask": "Which table?"})
    stamp = client.get("inbox").heads["ETag"]
    assert client.get("inbox", If_None_Match=stamp).code == 304
    client.answer({**client.form(), "verb": "cancel"})
    assert client.get("inbox", If_None_Match=stamp).code == 200


def test_slow_and_broken_clients_hold_nobody_up(client: Client) -> None:
    """As many as there may be, silent or in the middle of a request: they are cut off, and the page goes on."""
    address = ("127.0.0.1", client.page.server.port)
    few = [socket.create_connection(address) for _ in range(CONNECTIONS_MOST // 2)]
    for number, one in enumerate(few):
        one.sendall(
            b"GET / HTTP/1.1\r\nHost: x\r\n"[: number % 24]
            if number % 2
            else b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n1"
        )
    assert client.get("inbox").code == 200
    more = [socket.create_connection(address) for _ in range(CONNECTIONS_MOST)]
    for one in more[CONNECTIONS_MOST // 2 :]:
        one.settimeout(10)
        assert one.recv(1) == b"", "beyond the limit a connection is closed at once"
    for one in (*few, *more):
        one.close()
    for _ in range(50):
        try:
            assert client.get("inbox").code == 200
            break
        except (OSError, http.client.HTTPException):
            threading.Event().wait(0.1)
    else:
        raise AssertionError("it did not recover")
