"""Triggers and questions over HTTP, on loopback (CTO-5, TASK-8).

`POST /trigger` takes `{"kind": "ci", "text": "…", "priority": 80, "at": 1767225600}` or GitHub's `workflow_run`; the
body is signed as GitHub does it, `X-Hub-Signature-256: sha256=HMAC`. A body counts once, and only while it is fresh.
`GET /tasks` answers with the tasks, and `GET /tasks/T1` with the history of one, to whoever has the secret as a bearer
token.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import parse_qs

import msgspec
from msgspec import Meta, Struct

from flyball.domain.results import KINDS, ORDINARY, URGENT, Trigger
from flyball.errors import FlyballError, UserError
from flyball.runtime.app import App
from flyball.system import tasks
from flyball.system.forge_watch import repair
from flyball.system.http_server import HttpServer, Refused, Reply, Request, json_reply
from flyball.views.text import clean

SECRET = "FLYBALL_WEBHOOK_SECRET"  # noqa: S105 the name of a variable
SECRET_LEAST = 16
TEXT_MOST = 20_000
FRESH_S = 300  # how far the sender's clock may be off
FRESH_GITHUB_S = 24 * 3600  # GitHub sends again what could not be delivered
USED = "webhook"  # folder of the state directory: a file for each body that was taken


class Call(Struct, forbid_unknown_fields=True):
    kind: str
    text: Annotated[str, Meta(min_length=1, max_length=TEXT_MOST)]
    at: int  # seconds since 1970
    priority: Annotated[int, Meta(ge=0, le=100)] | None = None


class Webhook:
    """A server in a thread of its own, for one repository."""

    def __init__(self, address: str, repo: Path, env: dict[str, str]) -> None:
        host, _, port = address.rpartition(":")
        secret = env.get(SECRET, "")
        if len(secret) < SECRET_LEAST:
            raise UserError(
                f"up.webhook is set, but {SECRET} has fewer than {SECRET_LEAST} characters. Set it to a long secret."
            )
        self.repo, self.env, self.secret = repo, env, secret.encode()
        self._taking = threading.Lock()
        try:
            self.server = HttpServer(host, int(port), self.answer)
        except OSError as problem:
            raise UserError(
                f"up.webhook: {address} cannot be used: {problem.strerror}. Choose another port."
            ) from None
        self.server.start("webhook")

    @property
    def address(self) -> str:
        return f"{self.server.host}:{self.server.port}"

    def close(self) -> None:
        self.server.close()

    # ---- what is asked ----

    def answer(self, request: Request) -> Reply:
        place, _, name = request.path.removeprefix("/").partition("/")
        if request.method == "POST" and request.path == "/trigger":
            signature, event = request.head("X-Hub-Signature-256"), request.head("X-GitHub-Event")
            return json_reply(202, self.trigger(request.body, signature, event))
        if request.method == "GET" and place == "tasks":
            return json_reply(200, self.tasks(name, request.query, request.head("Authorization")))
        raise Refused(404, "Use POST /trigger or GET /tasks.")

    def trigger(self, body: bytes, signature: str, event: str) -> dict[str, Any]:
        """Take a trigger. Raises Refused."""
        right = hmac.new(self.secret, body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(f"sha256={right}".encode(), signature.encode("utf-8", "replace")):
            raise Refused(401, "The signature is missing or wrong.")
        trigger = _github(self.repo, body, event) if event else _own(body)
        if trigger is None:
            return {"ignored": True}
        with self._taking:
            app = App(self.env)
            try:
                marker = app.state_dir / USED / right
                if marker.exists():
                    raise Refused(409, "This message was already received.")
                name = app.leave(self.repo, trigger, "webhook")
                _mark(marker)
            finally:
                app.close()
        return {"task": name, "priority": trigger.priority}

    def tasks(self, name: str, query: str, token: str) -> dict[str, Any]:
        """Those that are asked for, or the records of one task or run, with their history."""
        if not hmac.compare_digest(
            f"Bearer {self.secret.decode()}".encode(), token.encode("utf-8", "replace")
        ):
            raise Refused(401, "The token is missing or wrong.")
        if name:
            return self._task(name)
        fields = {key: values[-1] for key, values in parse_qs(query).items()}
        if set(fields) - {"state", "stuck", "failing"}:
            raise Refused(400, "Use state=NAME, stuck=1 or failing=1.")
        if "state" in fields and (wrong := tasks.state_fault(fields["state"])):
            raise Refused(400, wrong)
        app = App(self.env)
        try:
            stuck, failing = "stuck" in fields, "failing" in fields
            return tasks.listing(app, self.repo, fields.get("state"), stuck, failing).facts
        finally:
            app.close()

    def _task(self, name: str) -> dict[str, Any]:
        app = App(self.env)
        try:
            return {"task": name, "runs": tasks.records_of(app, self.repo, name)}
        except FlyballError as problem:
            raise Refused(404, str(problem)) from None
        finally:
            app.close()


def _own(body: bytes) -> Trigger:
    try:
        call = msgspec.json.decode(body, type=Call)
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise Refused(400, f"The body cannot be read: {problem}") from None
    if call.kind not in KINDS:
        raise Refused(400, f"'{call.kind}' is not a kind of trigger. Use one of: {', '.join(KINDS)}.")
    if abs(time.time() - call.at) > FRESH_S:
        raise Refused(
            409, f"The message is too old or from the future: 'at' must be within {FRESH_S} seconds of now."
        )
    level = URGENT.get(call.kind, ORDINARY) if call.priority is None else call.priority
    return Trigger(kind=call.kind, text=clean(call.text), priority=level)


def _github(root: Path, body: bytes, event: str) -> Trigger | None:
    """A failed workflow is work, on the branch of a run a repair of that; everything else that GitHub sends is not."""
    try:
        run = cast("dict[str, Any]", json.loads(body)).get("workflow_run")
        if event != "workflow_run" or not run or run.get("conclusion") not in ("failure", "timed_out"):
            return None
        age = time.time() - datetime.fromisoformat(run["updated_at"]).timestamp()
        branch, commit = str(run["head_branch"]), str(run["head_sha"])
        name, url = run["name"], run["html_url"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Refused(400, "The body is not GitHub's workflow_run.") from None
    if not -FRESH_S < age < FRESH_GITHUB_S:
        raise Refused(409, "The message is too old.")
    text = clean(f"CI failed: {name} on {branch} at {commit[:12]}: {url}")[:TEXT_MOST]
    return repair(root, branch, commit, f"{name}, {url}") or Trigger(
        kind="ci", text=text, priority=URGENT["ci"]
    )


def _mark(marker: Path) -> None:
    """Remember this message; forget those that are too old to be taken anyway."""
    marker.parent.mkdir(mode=0o700, exist_ok=True)
    os.close(os.open(marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    for old in marker.parent.iterdir():
        if time.time() - old.stat().st_mtime > 2 * FRESH_GITHUB_S:
            old.unlink(missing_ok=True)
