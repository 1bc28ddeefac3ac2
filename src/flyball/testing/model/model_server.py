"""The model server itself: HTTP on loopback, one script a channel."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from flyball.testing.model.dialects import ANTHROPIC, CHAT, GEMINI, RESPONSES, Dialect, Event
from flyball.testing.model.model_script import Json, Script, ScriptError
from flyball.testing.model.requests import Request, declared_tools, resolve_call

_SECRET_HEADERS = frozenset(("authorization", "x-api-key", "x-goog-api-key", "cookie", "proxy-authorization"))


class _Hangup(Exception):
    """Close the connection without finishing the answer."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]

    # ---- plumbing -------------------------------------------------------

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """No access log."""

    def _send_json(self, status: int, payload: Any, headers: dict[str, str] | None = None) -> None:
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        self.send_response(status)
        headers = {"content-type": "application/json", **(headers or {})}
        for key, value in {**headers, "content-length": str(len(data))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    def _start_stream(self, headers: dict[str, str] | None = None) -> None:
        self.send_response(200)
        base = {
            "content-type": "text/event-stream",
            "cache-control": "no-cache",
            "request-id": "req_scripted",
            "transfer-encoding": "chunked",
        }
        for key, value in {**base, **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _event(self, event: Event) -> None:
        name, payload = event
        text = payload if isinstance(payload, str) else json.dumps(payload)
        self._chunk(((f"event: {name}\n" if name else "") + f"data: {text}\n\n").encode())

    def _hang(self, seconds: float) -> None:
        """Wait, but notice the client leaving or the server stopping."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.server.stopping.wait(0.1):
            with contextlib.suppress(BlockingIOError):
                if self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"":
                    break
        raise _Hangup

    # ---- routing --------------------------------------------------------

    def do_GET(self) -> None:
        channel, path = self._split()
        if path == "/__state":
            self._send_json(200, self.server.script(channel).state())
        elif path == "/__log":
            self._send_json(200, self.server.log_of(channel))
        elif path.endswith("/models"):
            models = [{"id": "scripted", "object": "model", "type": "model", "display_name": "scripted"}]
            self._send_json(200, {"object": "list", "data": models, "models": [], "has_more": False})
        else:
            self._note(channel, path, {}, "other", None)
            self._send_json(404, {"error": {"message": f"no such path {path}", "type": "not_found_error"}})

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_PUT(self) -> None:
        channel, path = self._split()
        try:
            if path != "/__script":
                raise ScriptError(f"no such path {path}")
            self.server.load(json.loads(self._read()), channel)
            self._send_json(200, self.server.script(channel).state())
        except (ScriptError, ValueError) as exc:
            self._send_json(400, {"error": str(exc)})

    def do_POST(self) -> None:
        channel, path = self._split()
        raw = self._read()
        if path == "/__reset":
            self.server.script(channel).reset()
            self._send_json(200, {})
            return
        try:
            body: Json = json.loads(raw or b"{}")
        except ValueError:
            body = {}
        try:
            self._route(channel, path, body)
        except (_Hangup, BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _route(self, channel: str, path: str, body: Json) -> None:
        if path.endswith("/count_tokens"):
            self._send_json(200, {"input_tokens": 100})
        elif path.endswith(":countTokens"):
            self._send_json(200, {"totalTokens": 100})
        elif path.endswith("/messages"):
            self._play(
                channel, path, ANTHROPIC, body, bool(body.get("stream")), body.get("model", "scripted")
            )
        elif path.endswith("/responses"):
            self._play(
                channel, path, RESPONSES, body, bool(body.get("stream")), body.get("model", "scripted")
            )
        elif path.endswith("/chat/completions"):
            self._play(channel, path, CHAT, body, bool(body.get("stream")), body.get("model", "scripted"))
        elif match := re.search(r"/models/([^/:]+):(stream)?[gG]enerateContent$", path):
            self._play(channel, path, GEMINI, body, bool(match[2]), match[1])
        else:
            self._note(channel, path, body, "other", None)
            self._send_json(404, {"error": {"message": f"no such path {path}", "type": "not_found_error"}})

    def _split(self) -> tuple[str, str]:
        """The channel and the path below it."""
        url = urlsplit(self.path)
        if match := re.match(r"/@([\w.-]+)(/.*)$", url.path):
            return match[1], match[2]
        return parse_qs(url.query).get("channel", ["default"])[0], url.path

    def _read(self) -> bytes:
        if "chunked" in self.headers.get("transfer-encoding", ""):
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
        return self._decode(data)

    def _decode(self, data: bytes) -> bytes:
        encoding = self.headers.get("content-encoding", "")
        if encoding == "gzip":
            return gzip.decompress(data)
        return data

    def _note(self, channel: str, path: str, body: Json, kind: str, step: int | None) -> None:
        headers = {k: ("***" if k.lower() in _SECRET_HEADERS else v) for k, v in self.headers.items()}
        self.server.note(
            channel,
            {
                "time": round(time.time(), 3),
                "channel": channel,
                "method": self.command,
                "path": path,
                "kind": kind,
                "step": step,
                "headers": headers,
                "body": body,
            },
        )

    # ---- playing a step -------------------------------------------------

    def _play(self, channel: str, path: str, dialect: Dialect, body: Json, stream: bool, model: str) -> None:
        script = self.server.script(channel)
        rq = Request(
            dialect.name, body, stream, model, declared_tools(dialect.name, body), self.server.serial()
        )
        if script.side_requests == "no_tools" and rq.is_side:
            with script.lock:
                script.side += 1
            self._note(channel, path, body, "side", None)
            step: Json = {"reply": "ok"}
        else:
            index, step = script.next_step()
            self._note(channel, path, body, "main", index)
            if complaint := _unmet(step.get("expect"), rq):
                script.failures.append(f"step {index}: {complaint}")
                step = {"fault": "http", "status": 400, "message": f"expectation failed: {complaint}"}
        if delay := step.get("delay"):
            time.sleep(delay)
        usage = {**script.usage, **step.get("usage", {})}
        if "fault" in step:
            self._fault(dialect, rq, step, usage)
        else:
            self._reply(dialect, rq, step, self._parts(step, rq), usage)

    @staticmethod
    def _parts(step: Json, rq: Request) -> list[Json]:
        reply = step.get("reply", "This reply was cut short by the script on purpose.")
        parts = [{"text": reply}] if isinstance(reply, str) else reply
        prefix = "toolu_" if rq.dialect == "anthropic" else "call_"
        return [
            {"call": resolve_call(p, rq, f"{prefix}scripted_{rq.serial:04d}_{i}")} if "tool" in p else p
            for i, p in enumerate(parts)
        ]

    def _reply(self, dialect: Dialect, rq: Request, step: Json, parts: list[Json], usage: Json) -> None:
        if not rq.stream:
            self._send_json(200, dialect.reply(rq, parts, usage, step.get("stop")), step.get("headers"))
            return
        self._start_stream(step.get("headers"))
        for event in dialect.events(rq, parts, usage, step.get("stop")):
            self._event(event)
            if pause := step.get("chunk_delay"):
                time.sleep(pause)
        self._chunk(b"")

    def _fault(self, dialect: Dialect, rq: Request, step: Json, usage: Json) -> None:
        kind = step["fault"]
        if kind in ("hang", "drop"):
            self._stay_away(dialect, rq, step, usage)
        elif kind in ("truncated", "garbage", "stream_error") and rq.stream:
            self._break_stream(dialect, rq, step, usage)
        elif kind in ("truncated", "garbage"):  # the same trouble for a client that tries without streaming
            self._send_json(200, b'{"id": "scripted", "type": "mess')
        elif kind == "html":
            page = b"<!doctype html><title>Sign in</title><h1>Sign in</h1>"
            self._send_json(
                step.get("status", 200), page, {"content-type": "text/html", **step.get("headers", {})}
            )
        elif kind == "stream_error":
            self._send_json(*dialect.fault("overloaded", step))
        else:
            status, body, headers = dialect.fault(kind, step)
            headers = {**headers, **step.get("headers", {})}
            self._send_json(step.get("status", status), step.get("body", body), headers)

    def _stay_away(self, dialect: Dialect, rq: Request, step: Json, usage: Json) -> None:
        """Nothing more comes: the connection stays open, or is dropped."""
        after = step.get("after", "request")
        if rq.stream and after in ("headers", "delta"):
            self._start_stream()
        if rq.stream and after == "delta":
            for event in self._first_half(dialect, rq, step, usage):
                self._event(event)
        if step["fault"] == "drop":
            raise _Hangup
        self._hang(float(step.get("seconds", 3600)))

    def _break_stream(self, dialect: Dialect, rq: Request, step: Json, usage: Json) -> None:
        """A stream that ends halfway, holds garbage, or reports an error halfway."""
        kind = step["fault"]
        garbage = [("message_start", '{"type": "message_st')] * 3
        self._start_stream()
        for event in garbage if kind == "garbage" else self._first_half(dialect, rq, step, usage):
            self._event(event)
        if kind == "stream_error":
            self._event(dialect.stream_error(step))
        self._chunk(b"")

    def _first_half(self, dialect: Dialect, rq: Request, step: Json, usage: Json) -> list[Event]:
        events = list(dialect.events(rq, self._parts({}, rq), usage, None))
        return events[: max(1, len(events) // 2)]


def _unmet(expect: Json | None, rq: Request) -> str | None:
    """What `expect` asks of the request that the request does not meet."""
    if not expect:
        return None
    text = json.dumps(rq.body, ensure_ascii=False)
    expected = expect.get("contains", [])
    for needle in [expected] if isinstance(expected, str) else expected:
        if needle not in text and json.dumps(needle, ensure_ascii=False)[1:-1] not in text:
            return f"request does not contain {needle!r}"
    unwanted = expect.get("lacks", [])
    for needle in [unwanted] if isinstance(unwanted, str) else unwanted:
        if needle in text:
            return f"request contains {needle!r}"
    for name in expect.get("tools", []):
        if not any(key.endswith(name) for key in rq.tools):
            return f"request declares no tool {name!r}"
    return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, first: Script) -> None:
        super().__init__(("127.0.0.1", port), _Handler)  # loopback only, on purpose
        self.stopping = threading.Event()
        self._scripts: dict[str, Script] = {"default": first}
        self._log: list[Json] = []
        self._lock = threading.Lock()
        self._serial = 0

    def load(self, spec: Json, channel: str = "default", variables: dict[str, str] | None = None) -> None:
        self._scripts[channel] = Script(spec, variables)

    def script(self, channel: str) -> Script:
        with self._lock:
            return self._scripts.setdefault(channel, self._scripts.get("default") or Script({"steps": []}))

    def serial(self) -> int:
        with self._lock:
            self._serial += 1
            return self._serial

    def note(self, channel: str, entry: Json) -> None:
        with self._lock:
            self._log.append(entry)

    def log_of(self, channel: str) -> list[Json]:
        with self._lock:
            return [entry for entry in self._log if entry["channel"] == channel]

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], (ConnectionError, _Hangup)):
            super().handle_error(request, client_address)


class ScriptedModel:
    """The server as a context manager; see the module's docstring."""

    def __init__(
        self,
        script: Json | None = None,
        *,
        port: int = 0,
        variables: dict[str, str] | None = None,
    ):
        first = Script(script if script is not None else {"steps": []}, variables)
        self._server = _Server(port, first)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def url(self) -> str:
        """Base URL without /v1; `url_for` gives a channel's."""
        return f"http://127.0.0.1:{self.port}"

    def url_for(self, channel: str) -> str:
        return f"{self.url}/@{channel}"

    def load(self, script: Json, channel: str = "default", variables: dict[str, str] | None = None) -> None:
        self._server.load(script, channel, variables)

    def state(self, channel: str = "default") -> Json:
        return self._server.script(channel).state()

    def requests(self, channel: str = "default") -> list[Json]:
        return self._server.log_of(channel)

    def start(self) -> ScriptedModel:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._server.stopping.set()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> ScriptedModel:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()
