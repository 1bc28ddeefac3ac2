"""A small HTTP server on loopback, for the webhook and the web page: everything that a client can do is bounded.

A request is read whole before it is answered, each connection carries one, and a client that is slow or sends too
much is cut off. What is asked is decided elsewhere: `answer` gets a Request and returns a Reply or raises Refused.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from msgspec import Struct

from flyball.errors import FlyballError

BODY_MOST = 1_000_000
CONNECTIONS_MOST = 64
READ_WITHIN_S = 10  # a sender that stops in the middle holds nothing up
WHOLE_WITHIN_S = 30  # nor does one that sends a byte now and then, or never reads


class Refused(Exception):
    """An answer other than the one that was requested."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Request(Struct, frozen=True):
    method: str
    path: str  # as it was sent, without the query
    query: str
    headers: Message
    body: bytes = b""

    def head(self, name: str) -> str:
        """A header that was sent once; "" if it is missing. A header that is sent twice is refused as ambiguous."""
        values = self.headers.get_all(name, [])
        if len(values) > 1:
            raise Refused(400, f"The header {name} was sent twice.")
        return values[0] if values else ""


class Reply(Struct, frozen=True):
    code: int
    body: bytes
    kind: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


def json_reply(code: int, facts: Any) -> Reply:
    return Reply(code, json.dumps(facts).encode())


def error_reply(request: Request | None, code: int, message: str) -> Reply:
    return json_reply(code, {"error": message})


Answer = Callable[[Request], Reply]
Error = Callable[[Request | None, int, str], Reply]


class HttpServer:
    """Answers in threads, from `start` to `close`."""

    def __init__(self, host: str, port: int, answer: Answer, error: Error = error_reply) -> None:
        """Raises OSError if the address cannot be used."""
        self._server = _Server((host, port), _Handler)
        self._server.reply_to, self._server.error = answer, error

    @property
    def host(self) -> str:
        return str(self._server.server_address[0])

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self, name: str) -> None:
        threading.Thread(target=self._server.serve_forever, name=name, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = CONNECTIONS_MOST
    allow_reuse_address = True  # a port of connections that are closing is free
    reply_to: Answer
    error: Error

    def __init__(self, *arguments: Any) -> None:
        self._open: dict[socket.socket, float] = {}  # -> when it must be over
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self._open) >= CONNECTIONS_MOST:
            self.shutdown_request(request)
            return
        self._open[request] = time.monotonic() + WHOLE_WITHIN_S
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called twice a second: cut off who takes too long."""
        now = time.monotonic()
        for connection, until in [*self._open.items()]:
            if now > until:
                self._open.pop(connection, None)
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: the client is gone."""


class _Handler(BaseHTTPRequestHandler):
    timeout = READ_WITHIN_S
    server_version, sys_version = "flyball", ""

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        server, request = cast("_Server", self.server), None
        try:
            request = self._request()
            reply = server.reply_to(request)
        except Refused as problem:
            reply = server.error(request, problem.code, str(problem))
        except (FlyballError, OSError) as problem:
            reply = server.error(request, 503, str(problem))
        self._send(reply)

    def _request(self) -> Request:
        if not self.path.startswith("/"):
            raise Refused(400, "The address must begin with /.")
        size = self.headers.get("Content-Length", "0" if self.command == "GET" else "")
        if "Transfer-Encoding" in self.headers or not _is_size(size):
            raise Refused(413, f"Send a Content-Length of at most {BODY_MOST}.")
        body = self.rfile.read(int(size))
        if len(body) < int(size):
            raise Refused(400, "The body is shorter than its Content-Length.")
        path, _, query = self.path.partition("#")[0].partition("?")
        return Request(self.command, path, query, self.headers, body)

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.code)
        for name, value in (("Content-Type", reply.kind), *reply.headers):
            self.send_header(name, " ".join(value.split()))
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """For what the base class refuses: a method, a header or a line that cannot be used."""
        reply = cast("_Server", self.server).error(None, int(code), f"{HTTPStatus(code).phrase}.")
        self.close_connection = True
        self._send(reply)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing: what was taken is in the journal."""


def _is_size(text: str) -> bool:
    return text.isdecimal() and len(text) < 10 and int(text) <= BODY_MOST
