"""The proxy against those who want more than its rules name."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from flyball.agents.process import KEEPER

HOSTS = ("api.example.com", "*.wide.example", "odd.example:8443", "127.0.0.1:9")


@pytest.fixture(scope="module")
def proxies() -> Iterator[Any]:
    """As the keeper imports it: by itself, beside its other half."""
    import sys

    sys.path.insert(0, str(KEEPER.parent))
    try:
        import proxy  # type: ignore[import-not-found]

        yield proxy
    finally:
        sys.path.remove(str(KEEPER.parent))


class Place:
    """A proxy that listens, and what it wrote down."""

    def __init__(self, proxies: Any, **rules: object) -> None:
        self.refused: list[dict[str, Any]] = []
        self.proxy = proxies.Proxy(rules, self.refused.append)
        door = socket.create_server(("127.0.0.1", 0))
        self.port = door.getsockname()[1]
        ours, theirs = socket.socketpair()
        threading.Thread(target=self.proxy.run, args=(ours,), daemon=True).start()
        socket.send_fds(theirs, [json.dumps({"bridges": []}).encode()], [door.fileno()])
        door.close()
        theirs.close()

    def connect(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.port), 5)
        sock.settimeout(15)
        return sock

    def say(self, text: bytes) -> bytes:
        with self.connect() as sock:
            sock.sendall(text)
            return answer(sock)


def answer(sock: socket.socket) -> bytes:
    data = b""
    while len(data) < 1 << 20:
        try:
            more = sock.recv(65536)
        except ConnectionError:
            break
        if not more:
            break
        data += more
    return data


def status(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1])


@pytest.mark.parametrize(
    ("host", "port", "good"),
    [
        ("api.example.com", 443, True),
        ("api.example.com", 80, True),
        ("api.example.com", 22, False),
        ("api.example.com", 8443, False),
        ("odd.example", 8443, True),
        ("odd.example", 443, False),
        ("a.wide.example", 443, True),
        ("wide.example", 443, False),
        ("notwide.example", 443, False),
        ("api.example.com.evil.example", 443, False),
        ("xapi.example.com", 443, False),
        ("127.0.0.1", 9, True),
        ("127.0.0.1", 443, False),
        ("2130706433", 9, False),
        ("0x7f.1", 9, False),
        ("::1", 9, False),
        ("::ffff:127.0.0.1", 9, False),
        ("localhost", 9, False),
        ("169.254.169.254", 80, False),
        ("packages.example", 443, False),
    ],
)
def test_only_what_the_rules_name_is_let_through(proxies: Any, host: str, port: int, good: bool) -> None:
    rules = proxies.Rules({"hosts": HOSTS, "sources": ["packages.example"]})
    try:
        rules.judge(host, port, lambda: False)
    except proxies.Refused as no:
        assert not good and no.status == 403
    else:
        assert good


def test_a_package_source_is_for_installers(proxies: Any) -> None:
    rules = proxies.Rules({"sources": ["packages.example"]})
    rules.judge("packages.example", 443, lambda: True)
    with pytest.raises(proxies.Refused, match="only package installers"):
        rules.judge("packages.example", 443, lambda: False)


@pytest.mark.parametrize(
    ("address", "public", "named"),
    [
        ("93.184.216.34", True, True),
        ("2606:4700::1111", True, True),
        ("10.0.0.1", False, True),
        ("192.168.1.5", False, True),
        ("fd00::1", False, True),
        ("127.0.0.1", False, False),
        ("127.8.8.8", False, False),
        ("::1", False, False),
        ("::", False, False),
        ("0.0.0.0", False, False),
        ("169.254.169.254", False, False),
        ("fe80::1%eth0", False, False),
        ("224.0.0.1", False, False),
        ("::ffff:127.0.0.1", False, False),
        ("::ffff:169.254.169.254", False, False),
        ("64:ff9b::7f00:1", False, False),
        ("::7f00:1", False, False),
        ("2002:7f00:1::", False, False),
        ("::ffff:93.184.216.34", True, True),
    ],
)
def test_where_a_name_may_lead(proxies: Any, address: str, public: bool, named: bool) -> None:
    assert (proxies.is_fit(address, private=False), proxies.is_fit(address, private=True)) == (public, named)


BAD = {
    "a user": b"CONNECT evil.example@api.example.com:443 HTTP/1.1\r\n\r\n",
    "a user and another port": b"CONNECT api.example.com:443@evil.example:443 HTTP/1.1\r\n\r\n",
    "no port": b"CONNECT api.example.com HTTP/1.1\r\n\r\n",
    "port 0": b"CONNECT api.example.com:0 HTTP/1.1\r\n\r\n",
    "a port too large": b"CONNECT api.example.com:65979 HTTP/1.1\r\n\r\n",
    "a path": b"CONNECT api.example.com:443/x HTTP/1.1\r\n\r\n",
    "a zone": b"CONNECT [fe80::1%25eth0]:443 HTTP/1.1\r\n\r\n",
    "escapes": b"CONNECT api%2eexample.com:443 HTTP/1.1\r\n\r\n",
    "letters that look the same": "CONNECT аpi.example.com:443 HTTP/1.1\r\n\r\n".encode(),
    "a user in a URL": b"GET http://api.example.com@evil.example/ HTTP/1.1\r\n\r\n",
    "https in a URL": b"GET https://api.example.com/ HTTP/1.1\r\n\r\n",
    "a path alone": b"GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
    "two spaces": b"CONNECT  api.example.com:443 HTTP/1.1\r\n\r\n",
    "a line feed alone": b"CONNECT api.example.com:443 HTTP/1.1\nX: y\r\n\r\n",
    "a NUL": b"CONNECT api.example.com:443\0.evil:443 HTTP/1.1\r\n\r\n",
    "a folded header": b"GET http://api.example.com/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
    "another version": b"CONNECT api.example.com:443 SPDY/3\r\n\r\n",
}


@pytest.mark.parametrize("case", BAD)
def test_what_could_be_read_in_two_ways_is_refused(proxies: Any, case: str) -> None:
    assert status(Place(proxies, hosts=HOSTS).say(BAD[case])) == 400


def test_a_head_that_is_too_long_or_never_ends_is_refused(proxies: Any) -> None:
    place = Place(proxies, hosts=HOSTS)
    place.proxy.head_s = 0.3
    assert status(place.say(b"GET http://api.example.com/ HTTP/1.1\r\nA: " + b"x" * 70_000)) == 431
    with place.connect() as sock:
        began = time.monotonic()
        sock.sendall(b"CONNECT api.exa")
        assert status(answer(sock)) == 408 and time.monotonic() - began < 5


def test_the_number_of_connections_is_bounded(proxies: Any) -> None:
    place = Place(proxies, hosts=HOSTS)
    place.proxy.most = 5
    slow = [place.connect() for _ in range(5)]
    time.sleep(0.3)
    assert status(place.say(b"CONNECT api.example.com:443 HTTP/1.1\r\n\r\n")) == 503
    for sock in slow:
        sock.close()


def test_a_name_that_leads_to_this_machine_is_refused(proxies: Any) -> None:
    """`localhost.` resolves to loopback; had the rules named it like any other host, it would still lead nowhere."""
    place = Place(proxies, hosts=["localhost.localdomain"], own=["ip6-localhost"])
    for name in ("localhost.localdomain", "ip6-localhost"):
        assert status(place.say(f"CONNECT {name}:443 HTTP/1.1\r\n\r\n".encode())) in (403, 502)


def test_what_is_refused_is_written_down_once_and_not_without_end(proxies: Any) -> None:
    place = Place(proxies, hosts=HOSTS)
    for _ in range(3):
        place.say(b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n")
    assert place.refused == [{"host": "evil.example", "port": 443, "how": "CONNECT", "command": ""}]
    for n in range(150):
        place.proxy.write_down(f"h{n}", 443, "CONNECT")
    assert len(place.refused) == proxies.NOTED_MOST


class Origin:
    def __init__(self) -> None:
        self.heads: list[str] = []
        origin = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                origin.heads.append(f"{self.requestline}|{self.headers}")
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"hello")

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.where = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def origin() -> Iterator[Origin]:
    origin = Origin()
    yield origin
    origin.server.shutdown()
    origin.server.server_close()


def test_plain_http_is_passed_on_for_its_own_host_and_without_what_is_for_the_proxy(
    proxies: Any, origin: Origin
) -> None:
    place = Place(proxies, own=[origin.where])
    headers = "Host: evil.example\r\nProxy-Authorization: Basic eDp5\r\nConnection: keep-alive\r\nX-Mine: 1"
    reply = place.say(f"GET http://{origin.where}/a?b HTTP/1.1\r\n{headers}\r\n\r\n".encode())
    assert reply.endswith(b"hello")
    (head,) = origin.heads
    assert head.startswith("GET /a?b HTTP/1.1|") and f"Host: {origin.where}" in head and "X-Mine: 1" in head
    assert "evil" not in head and "Proxy" not in head and "Connection: close" in head


def test_a_tunnel_carries_both_ways(proxies: Any, origin: Origin) -> None:
    place = Place(proxies, own=[origin.where])
    with place.connect() as sock:
        sock.sendall(f"CONNECT {origin.where} HTTP/1.1\r\n\r\n".encode())
        assert sock.recv(1000).startswith(b"HTTP/1.1 200")
        sock.sendall(b"GET /t HTTP/1.0\r\n\r\n")
        assert answer(sock).endswith(b"hello")


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_this_machines_own_proxy_is_used(proxies: Any, origin: Origin, method: str) -> None:
    """The origin stands for it here: it answers whatever it is asked, and shows how."""
    place = Place(proxies, hosts=["api.example.com"], upstream=f"http://me:pass@{origin.where}")
    target = "http://api.example.com/x" if method == "GET" else "api.example.com:443"
    reply = place.say(f"{method} {target} HTTP/1.1\r\n\r\n".encode())
    if method == "GET":
        assert reply.endswith(b"hello")
        assert (
            origin.heads[0].startswith("GET http://api.example.com/x")
            and "Basic bWU6cGFzcw==" in origin.heads[0]
        )
    else:
        assert status(reply) == 502  # it does not know CONNECT
