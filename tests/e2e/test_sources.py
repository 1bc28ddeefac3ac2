"""Where tasks come from besides people: a webhook with a signature, and the issues of a forge."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.forge import Forge
from tests.e2e.helpers import Yard

from flyball.errors import UserError
from flyball.runtime.app import App
from flyball.system import tasks
from flyball.system.forge_watch import ForgeQuery, look
from flyball.system.task_sources import open_issues
from flyball.system.webhook import SECRET, Webhook

WORD = "correct horse battery staple"


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    yield made
    made.clear()


@pytest.fixture
def hook(yard: Yard) -> Iterator[Webhook]:
    made = Webhook("127.0.0.1:0", yard.repo, {**yard.env, SECRET: WORD})
    yield made
    made.close()


def send(url: str, body: bytes | None, **heads: str) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(url, data=body, headers=heads)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as problem:
        with problem:
            return problem.code, json.loads(problem.read())


def signed(body: bytes, secret: str = WORD) -> str:
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


def trigger(hook: Webhook, body: bytes, secret: str = WORD, event: str = "") -> tuple[int, dict[str, Any]]:
    heads = {"X-Hub-Signature-256": signed(body, secret)} | ({"X-GitHub-Event": event} if event else {})
    return send(f"http://{hook.address}/trigger", body, **heads)


def message(**more: Any) -> bytes:
    return json.dumps({"kind": "ci", "text": "The build fails", "at": int(time.time()), **more}).encode()


def waiting(yard: Yard) -> list[tuple[str, int]]:
    rows = json.loads(yard.flyball("task", "ls", "--json").stdout)["waiting"]
    return [(row["text"], row["priority"]) for row in rows]


def test_a_signed_message_becomes_a_task_once(yard: Yard, hook: Webhook) -> None:
    body = message()
    assert trigger(hook, body)[0] == 202
    assert trigger(hook, body) == (409, {"error": "This message was already received."})
    assert trigger(hook, message(text="Slow", kind="performance", priority=10))[0] == 202
    assert waiting(yard) == [("The build fails", 80), ("Slow", 10)]
    other = Webhook("127.0.0.1:0", yard.repo, {**yard.env, SECRET: WORD})  # also after a restart
    assert trigger(other, body)[0] == 409
    other.close()


def test_a_failed_workflow_of_github_is_work_and_nothing_else_is(yard: Yard, hook: Webhook) -> None:
    run = {
        "name": "tests",
        "head_branch": "main",
        "head_sha": "a" * 40,
        "html_url": "https://example.org/1",
        "updated_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    good, bad = ({"workflow_run": {**run, "conclusion": word}} for word in ("success", "failure"))
    old = {"workflow_run": {**run, "conclusion": "failure", "updated_at": "2020-01-01T00:00:00Z"}}
    codes = [
        trigger(hook, json.dumps(one).encode(), event="workflow_run")[0] for one in (good, bad, old, {}, [])
    ]
    assert codes == [202, 202, 409, 202, 400]
    assert trigger(hook, b'{"zen": "x"}', event="ping") == (202, {"ignored": True})
    assert [text for text, _ in waiting(yard)] == [
        f"CI failed: tests on main at {'a' * 12}: https://example.org/1"
    ]


@pytest.mark.parametrize(
    ("body", "secret", "code"),
    [
        (message(), "another secret of some length", 401),
        (message(at=int(time.time()) - 3600), WORD, 409),
        (message(kind="dance"), WORD, 400),
        (message(priority=101), WORD, 400),
        (message(text=""), WORD, 400),
        (message(more=1), WORD, 400),
        (b"\xff{", WORD, 400),
        (b"[" * 200_000, WORD, 400),
        (b"x" * 1_000_001, WORD, 413),
    ],
    ids=["secret", "stale", "kind", "priority", "empty", "unknown", "garbage", "deep", "large"],
)
def test_what_is_not_right_is_refused_and_leaves_nothing(
    yard: Yard, hook: Webhook, body: bytes, secret: str, code: int
) -> None:
    try:
        assert trigger(hook, body, secret)[0] == code
    except (ConnectionError, urllib.error.URLError):
        assert code == 413, "only what is too large may be cut off"
    assert waiting(yard) == []
    assert trigger(hook, message())[0] == 202, "and it still listens"


def test_the_webhook_needs_a_long_secret_and_a_free_port(yard: Yard, hook: Webhook) -> None:
    with pytest.raises(UserError, match="fewer than 16"):
        Webhook("127.0.0.1:0", yard.repo, {**yard.env, SECRET: "short"})
    with pytest.raises(UserError, match="cannot be used"):
        Webhook(hook.address, yard.repo, {**yard.env, SECRET: WORD})


def test_tasks_are_listed_over_http_for_who_has_the_secret(yard: Yard, hook: Webhook) -> None:
    yard.flyball("task", "add", "Mend add()")
    url = f"http://{hook.address}/tasks"
    code, facts = send(url, None, Authorization=f"Bearer {WORD}")
    assert code == 200 and [row["text"] for row in facts["waiting"]] == ["Mend add()"]
    assert send(f"{url}?state=completed", None, Authorization=f"Bearer {WORD}") == (
        200,
        {"waiting": [], "active": [], "tasks": []},
    )
    assert send(url, None, Authorization="Bearer x")[0] == send(f"{url}/T1", None)[0] == 401
    agent = yard.script(validator=[{"say": "OUTCOME: approved"}], repeat="none")
    yard.flyball("run", "Mend", "--machine", "task", "--agent", agent, "--set", "proof.commands=[]")
    (run,) = send(f"{url}", None, Authorization=f"Bearer {WORD}")[1]["tasks"]
    code, facts = send(f"{url}/{run['run']}", None, Authorization=f"Bearer {WORD}")
    assert code == 200 and facts["runs"][0]["stateHistory"][0]["toState"] == "assigned"
    assert send(f"{url}/T99", None, Authorization=f"Bearer {WORD}")[0] == 404
    for wrong in ("order=1", "state=nonsense"):
        assert send(f"{url}?{wrong}", None, Authorization=f"Bearer {WORD}")[0] == 400
    assert send(f"http://{hook.address}/", None)[0] == 404


# ---- issues --------------------------------------------------------------------------------------------------


@pytest.fixture
def forge() -> Iterator[Forge]:
    made = Forge()
    yield made
    made.close()


def issue(number: int, **more: Any) -> dict[str, Any]:
    return {"number": number, "title": f"Bug {number}", "body": "It fails.", **more}


def test_issues_become_tasks_once_over_all_pages(yard: Yard, forge: Forge) -> None:
    forge.issues = [issue(1), issue(2, pull_request={}), issue(3, body=None)]
    yard.env |= {"GITHUB_API_URL": forge.url, "GITHUB_TOKEN": "t0ken"}
    words = ("task", "import", "github:ann/calc", "--label", "good first issue")
    assert yard.flyball(*words).stdout.startswith("2 tasks added.")
    assert yard.flyball(*words).stdout.startswith("0 tasks added. 2 were")
    assert len(forge.asked) == 4 and {token for _, token in forge.asked} == {"Bearer t0ken"}
    assert "labels=good%20first%20issue" in forge.asked[0][0]
    rows = json.loads(yard.flyball("task", "ls", "--json").stdout)["waiting"]
    assert [(row["task"], row["text"].splitlines()[0]) for row in rows] == [
        ("GH1", "Bug 1 (issue #1 of ann/calc)"),
        ("GH3", "Bug 3 (issue #3 of ann/calc)"),
    ]


@pytest.mark.parametrize("fails", [401, 403, 404, 429, 500, "nothing", "garbage"])
def test_a_failed_poll_is_never_no_work(forge: Forge, fails: int | str) -> None:
    forge.fails = fails
    with pytest.raises(UserError, match=r"ann/calc.*\.$") as problem:
        open_issues("ann/calc", "flyball", {"GITHUB_API_URL": forge.url})
    assert isinstance(fails, str) or str(fails) in str(problem.value)
    assert "\n" not in str(problem.value)


def test_issues_count_although_pull_requests_cannot_be_read(forge: Forge) -> None:
    forge.issues, forge.refuses = [issue(7)], {"GET pulls": 403}
    state = look(ForgeQuery("ann/calc", "flyball", "ann/calc"), {"GITHUB_API_URL": forge.url})
    assert [one.ticket for one in state.tasks or ()] == ["GH7"] and "403" in state.problem


def test_a_forge_cannot_lead_the_token_elsewhere(forge: Forge) -> None:
    other = Forge()
    forge.issues = [issue(n) for n in range(1, 5)]
    plain = forge.answer

    def answer(call: BaseHTTPRequestHandler) -> None:
        forge.url, mine = other.url, forge.url  # its "next" page is another server's
        plain(call)
        forge.url = mine

    forge.answer = answer  # type: ignore[method-assign]
    open_issues("ann/calc", "flyball", {"GITHUB_API_URL": forge.url, "GITHUB_TOKEN": "t0ken"})
    assert other.asked == []
    other.close()


def test_up_takes_issues_and_says_once_that_a_poll_failed(yard: Yard, forge: Forge) -> None:
    forge.fails = 500
    yard.env |= {"GITHUB_API_URL": forge.url}
    sets = ("--set", "up.github=ann/calc", "--set", "up.poll=1s", "--set", "proof.commands=[]", "--trust")
    yard.flyball("hold")
    process = yard.start("up", "--agent", yard.script(planner=[{"say": "x"}]), *sets)
    app = App(yard.env)

    def until(what: Any) -> None:
        end = time.monotonic() + 60
        while not what():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.2)

    until(lambda: len(forge.asked) > 2)
    (lane,) = app.journal.rows(machine="cto")
    said = [
        line for line in yard.flyball("log", lane.run).stdout.splitlines() if "GitHub answered 500" in line
    ]
    assert len(said) == 1 and app.backlog(yard.repo).tickets == ()
    forge.issues, forge.fails = [issue(7)], 0
    until(lambda: [one.id for one in app.backlog(yard.repo).tickets] == ["GH7"])
    process.kill()
    process.communicate()
    app.close()


# ---- queries -------------------------------------------------------------------------------------------------


def test_the_questions_about_tasks_have_answers_in_python(yard: Yard) -> None:
    agent = yard.script(
        validator=[{"say": "OUTCOME: rejected"}],
        cto=[{"outcome": "recovered", "data": {"kind": "escalate"}}],
        planner=[{"say": "plan"}],
    )
    done = yard.flyball("run", "Mend", "--machine", "task", "--agent", agent, "--set", "proof.commands=[]")
    app = App(yard.env)
    (row,) = tasks.tasks_by_state(app, yard.repo)
    history = tasks.task_history(app, row.run)
    assert history and history[0]["from"] and {"from", "to", "at", "reason", "actor"} == set(history[0]), (
        done.stdout
    )
    assert tasks.tasks_by_state(app, yard.repo, row.state) == [row]
    assert tasks.tasks_by_state(app, yard.repo, "nowhere") == []
    assert tasks.tasks_exceeding_timeout(app, yard.repo) == []
    assert tasks.tasks_under_cto_review(app, yard.repo) == ([row] if row.state == "cto_intervention" else [])
    assert tasks.tasks_with_multiple_failures(app, yard.repo, least=row.failures + 1) == []
    app.close()
