"""Notifications over the real command line, to a loopback receiver: asked, limit, ended; and none that stops a run."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.helpers import FIXED, QUICK_PROOF, Place

KEY = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zC0fL3hR6"  # looks like a token; it is not one


@pytest.fixture
def receiver() -> Generator[tuple[str, list[dict[str, Any]]]]:
    messages: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"json://user:hunter2@127.0.0.1:{server.server_port}/", messages
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_person_hears_of_a_limit_a_question_and_the_end(place: Place, receiver: Any) -> None:
    url, messages = receiver
    turns = [{"limited": {"kind": "plan_limit", "reset_in_s": 1}}, {"ask": f"Is {KEY} yours?"}, {"say": "Go"}]
    agent = place.script(planner=turns, coder=[{"write": {"calc.py": FIXED}}])
    words = ("run", "Fix add", "--agent", agent, "--set", QUICK_PROOF, "--set", f'notify.urls=["{url}"]')
    assert place.fb(*words).code == 3
    run = place.last()["run"]
    assert place.fb("answer", f"{run}.1", "Yes").code == 0
    assert place.fb("resume", run).code == 0
    said = [message["title"].removeprefix(f"flyball: run {run} ") for message in messages]
    assert said == ["waits for a rate limit", "continues", "asks you (clarification)", "completed"]
    assert f"flyball answer {run}.1" in messages[2]["message"] and KEY not in messages[2]["message"]
    assert b"hunter2" not in (place.state / "journal.db").read_bytes()
    kept = place.state / "runs" / run / "notify.json"
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_receiver_that_is_gone_does_not_stop_a_run(place: Place) -> None:
    agent = place.script(coder=[{"write": {"calc.py": FIXED}}])
    said = place.run(agent, "--set", 'notify.urls=["json://127.0.0.1:1/"]')
    assert said.code == 0 and "Traceback" not in said.err


@pytest.mark.parametrize("url", ["nonsense", "secret://hunter2@host"])
def test_an_address_that_makes_no_sense_is_refused_before_the_run(place: Place, url: str) -> None:
    said = place.run(place.script(coder=[]), "--set", f'notify.urls=["{url}"]')
    assert (said.code, said.err.count("\n")) == (2, 1) and "notify.urls" in said.err
    assert "hunter2" not in said.err and place.fb("ls", "--json").json == []


def test_without_the_extra_it_says_how_to_install_it(place: Place, tmp_path: Path) -> None:
    (tmp_path / "apprise.py").write_text("raise ImportError('not here')\n")
    words = (
        "run",
        "x",
        "--agent",
        place.script(coder=[]),
        "--set",
        QUICK_PROOF,
        "--set",
        'notify.urls=["json://x"]',
    )
    said = place.fb(*words, env={"PYTHONPATH": str(tmp_path)})
    assert said.code == 2 and "pip install 'flyball[notify]'" in said.err and said.err.count("\n") == 1
