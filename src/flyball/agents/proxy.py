"""The forward proxy of one act: it lets through the hosts that its rules name, and records who wanted another one.

It runs in the act's keeper, outside the sandbox. The sockets it listens on were opened inside (`entry.py`), where they
are the only way out. Standard library only. TLS is not decrypted: a host is known by the name in CONNECT.

Laws:
- A name is resolved once, here, and the connection goes to the address that was checked.
- A name never leads to this machine, to its network or to another host's metadata, unless the user named that place.
- Everything is limited: header size, time to send one, connections at once, and what is recorded.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import json
import re
import socket
from urllib.parse import unquote, urlsplit

TYPE_CHECKING = False  # typing takes long to import
if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable
    from typing import Any

    from flyball.agents import packets
    from flyball.agents.client import client_of
else:
    import packets
    from client import client_of

HEAD_MOST = 32 << 10
HEAD_S, CONNECT_S = 10.0, 20.0
AT_ONCE = 128
CHUNK = 1 << 16
NOTED_MOST = 100
WEB = (443, 80)
AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}))):([0-9]{1,5})")
HOP = (b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"te", b"trailer", b"host")


class Refused(Exception):
    """The status of the answer, and the reason."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Rules:
    """Which host may be reached on which port. `own` are those that the user named, which may be in a private network;
    `sources` are those of packages, for installers only."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.hosts = [pattern(text) for text in fields.get("hosts", ())]
        self.own = [pattern(text) for text in fields.get("own", ())]
        self.sources = [pattern(text) for text in fields.get("sources", ())]
        self.upstream = str(fields.get("upstream") or "")

    def judge(self, host: str, port: int, installs: Callable[[], bool]) -> bool:
        """Whether the host may be in a private network. Raises Refused if it may not be reached at all."""
        if any(matches(one, host, port) for one in self.own):
            return True
        if any(matches(one, host, port) for one in self.hosts):
            return False
        if any(matches(one, host, port) for one in self.sources):
            if installs():
                return True
            raise Refused(403, "only package installers may reach it")
        raise Refused(403, "it is not a host of the agent's model")


def pattern(text: str) -> tuple[str, tuple[int, ...]]:
    """`example.com`, `*.example.com:8443`, `[::1]:80` as a name and its ports."""
    name, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        name, port = text, ""
    return canonical(name.strip("[]")), (int(port),) if port else WEB


def canonical(host: str) -> str:
    return host.lower().removesuffix(".")


def matches(one: tuple[str, tuple[int, ...]], host: str, port: int) -> bool:
    name, ports = one
    same = host.endswith(name[1:]) if name.startswith("*.") else host == name
    return same and port in ports


class Proxy:
    def __init__(self, fields: dict[str, Any], note: Callable[[dict[str, Any]], None]) -> None:
        self.rules, self.note = Rules(fields), note
        self.noted: set[tuple[str, str, int]] = set()
        self.open, self.most, self.head_s = 0, AT_ONCE, HEAD_S

    def run(self, way_in: socket.socket) -> None:
        """Until the act is over: the thread of the keeper that does this ends with it."""
        with way_in:
            message, fds, _, _ = socket.recv_fds(way_in, CHUNK, 32)
        if not message:
            return  # the sandbox did not start
        about: dict[str, Any] = json.loads(message)
        asyncio.run(self.serve(about, [socket.socket(fileno=fd) for fd in fds]))

    async def serve(self, about: dict[str, Any], sockets: list[socket.socket]) -> None:
        """The first socket is the proxy's; each of the `bridges` leads to one address; the last may be for watching."""
        bridges: list[str] = about["bridges"]
        door, *others = sockets
        servers = [await asyncio.start_server(self.answer, sock=door, limit=HEAD_MOST)]
        for address, listener in zip(bridges, others, strict=False):
            servers.append(await asyncio.start_server(self.bridge(address), sock=listener))
        if about.get("watch"):
            watched = others[-1]
            watched.setblocking(False)
            asyncio.get_running_loop().add_reader(watched, self.watch, watched)
        await asyncio.gather(*(server.serve_forever() for server in servers))

    # ---- one connection

    def bridge(self, address: str) -> Callable[[StreamReader, StreamWriter], Any]:
        """A port of the sandbox's loopback that is a server on this machine, because the user named it."""
        host, _, port = address.rpartition(":")

        async def answer(reader: StreamReader, writer: StreamWriter) -> None:
            with contextlib.suppress(OSError, asyncio.TimeoutError):
                far = await asyncio.wait_for(asyncio.open_connection(host.strip("[]"), int(port)), CONNECT_S)
                await relay(reader, writer, *far)
            writer.close()

        return answer

    async def answer(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.open += 1
        try:
            if self.open > self.most:
                raise Refused(503, "too many connections at once")
            await self.pass_on(reader, writer)
        except Refused as no:
            with contextlib.suppress(OSError):
                writer.write(refusal(no))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass  # one of the two has gone
        finally:
            self.open -= 1
            writer.close()

    async def pass_on(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), self.head_s)
        except asyncio.LimitOverrunError:
            raise Refused(431, "the request's head is too long") from None
        except TimeoutError:
            raise Refused(408, "the request did not arrive in time") from None
        first, headers = parsed(head)
        method, target = first[0], first[1]
        host, port, path = authority(target) if method == "CONNECT" else absolute(target)
        client = writer.get_extra_info("peername")
        private = self.judge(host, port, method, client[1] if client else 0)
        if self.rules.upstream and not is_address(host):
            far = await self.through_upstream(method, target, host, port, headers)
        else:
            far = await connected(await addresses(host, port, private), port)
            if method != "CONNECT":
                far[1].write(request(method, path, host, port, headers))
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await relay(reader, writer, *far)

    def judge(self, host: str, port: int, how: str, client_port: int) -> bool:
        """Decide by the rules. A refused host is recorded with the command that wanted it."""
        client = client_of(client_port)
        try:
            return self.rules.judge(host, port, lambda: client().installs)
        except Refused as no:
            self.write_down(host, port, "CONNECT" if how == "CONNECT" else "http", client().command)
            where = f"[{host}]" if ":" in host else host
            raise Refused(no.status, f"{where}:{port} is not allowed: {no.why}") from None

    def write_down(self, host: str, port: int, how: str, command: str = "") -> None:
        key = (how, host, port)
        if key in self.noted or len(self.noted) >= NOTED_MOST:
            return
        self.noted.add(key)
        self.note({"host": host, "port": port, "how": how, "command": command})

    def watch(self, watched: socket.socket) -> None:
        """A connection past the proxy or a look-up of a name; neither was sent anywhere."""
        for _ in range(AT_ONCE):
            try:
                data, about = watched.recvfrom(2048)
            except OSError:
                return
            attempt = packets.attempt(data) if about[2] == packets.OUTGOING else None
            if attempt and not (attempt.how == "dns" and self.is_known(attempt.host)):
                self.write_down(attempt.host, attempt.port, attempt.how)

    def is_known(self, name: str) -> bool:
        return any(matches(one, name, 443) for one in (*self.rules.hosts, *self.rules.own))

    async def through_upstream(
        self, method: str, target: str, host: str, port: int, headers: list[bytes]
    ) -> tuple[StreamReader, StreamWriter]:
        """Connect through the proxy that this machine uses."""
        parts = urlsplit(self.rules.upstream)
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection(parts.hostname, parts.port or 80, limit=HEAD_MOST), CONNECT_S
        )
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
        key = [b"Proxy-Authorization: Basic " + base64.b64encode(login.encode())] if login else []
        where = f"{host}:{port}"
        if method != "CONNECT":
            lines = [f"{method} {target} HTTP/1.1".encode(), f"Host: {where}".encode(), *key, *kept(headers)]
            writer.write(b"\r\n".join((*lines, b"Connection: close", b"", b"")))
            return reader, writer
        writer.write(
            b"\r\n".join((f"CONNECT {where} HTTP/1.1".encode(), f"Host: {where}".encode(), *key, b"", b""))
        )
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), CONNECT_S)
        if answer.split(b" ", 2)[1:2] != [b"200"]:
            writer.close()
            raise Refused(502, "the proxy of this machine refused it")
        return reader, writer


# ---- reading a request ---------------------------------------------------------------------------------------


def parsed(head: bytes) -> tuple[list[str], list[bytes]]:
    """The three words of the first line, and the header lines. A request that could be read in two ways is refused."""
    first, *headers = head[:-4].split(b"\r\n")
    words = first.decode("latin-1").split(" ")
    odd = any(
        b"\n" in line or b"\r" in line or b"\0" in line or line[:1] in (b" ", b"\t")
        for line in (first, *headers)
    )
    if odd or len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[0].isalpha():
        raise Refused(400, "this is not a request to a proxy")
    return words, headers


def authority(text: str) -> tuple[str, int, str]:
    match = AUTHORITY.fullmatch(text)
    port = int(match[3]) if match else 0
    if match is None or not 0 < port < 65536:
        raise Refused(400, "CONNECT needs HOST:PORT")
    return canonical(match[1] or match[2]), port, ""


def absolute(text: str) -> tuple[str, int, str]:
    """http://HOST[:PORT]/PATH, without a user."""
    scheme, _, rest = text.partition("://")
    where, slash, path = rest.partition("/")
    where, question, query = where.partition("?")
    if scheme.lower() != "http":
        raise Refused(400, "only http:// can be asked for; use CONNECT for the rest")
    host, port, _ = authority(where if re.search(r":[0-9]+$", where) else f"{where}:80")
    return host, port, f"/{path}" if slash else f"/?{query}" if question else "/"


def request(method: str, path: str, host: str, port: int, headers: list[bytes]) -> bytes:
    """As a server gets it, one on a connection: what follows it is for that server alone."""
    name = f"[{host}]" if ":" in host else host
    where = name if port == 80 else f"{name}:{port}"
    lines = [f"{method} {path} HTTP/1.1".encode("latin-1"), f"Host: {where}".encode(), *kept(headers)]
    return b"\r\n".join((*lines, b"Connection: close", b"", b""))


def kept(headers: list[bytes]) -> list[bytes]:
    return [line for line in headers if line.partition(b":")[0].strip().lower() not in HOP]


def refusal(no: Refused) -> bytes:
    body = (
        f"Flyball: {no.why}. Ask the person to add it to [guard] hosts or to run `flyball allow`.\n".encode()
    )
    head = f"HTTP/1.1 {no.status} Refused by Flyball\r\nContent-Type: text/plain; charset=utf-8\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


# ---- connecting ----------------------------------------------------------------------------------------------


async def addresses(host: str, port: int, private: bool) -> list[str]:
    """The addresses of a host that it may have. A host given as an address has only that."""
    if is_address(host):
        return [host]
    if host == "localhost":
        return ["127.0.0.1", "::1"]
    loop = asyncio.get_running_loop()
    try:
        answers = await asyncio.wait_for(loop.getaddrinfo(host, port, type=socket.SOCK_STREAM), CONNECT_S)
    except (TimeoutError, OSError):
        raise Refused(502, f"{host} cannot be resolved") from None
    names = dict.fromkeys(str(answer[4][0]) for answer in answers)
    good = [name for name in names if is_fit(name, private)]
    if not good:
        raise Refused(403, f"{host} leads to an address that is not public")
    return good


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_fit(address: str, private: bool) -> bool:
    """Public, or (if the user named the host) in a private network; never this machine or a neighbour on the link."""
    ip = unwrapped(ipaddress.ip_address(address.partition("%")[0]))
    if ip.is_loopback or ip.is_link_local or ip.is_multicast or ip.is_unspecified:
        return False
    return ip.is_global or (private and ip.is_private and not ip.is_reserved)


def unwrapped(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address inside an IPv6 one, whichever way it is packed."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    inner = ip.ipv4_mapped or ip.sixtofour
    if inner is None and int(ip) >> 32 in (0x0064_FF9B_0000_0000_0000_0000, 0) and int(ip) > 1:
        inner = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
    return inner or ip


async def connected(names: list[str], port: int) -> tuple[StreamReader, StreamWriter]:
    for name in names:
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            return await asyncio.wait_for(asyncio.open_connection(name, port), CONNECT_S)
    raise Refused(502, "the host does not answer")


async def relay(a: StreamReader, b: StreamWriter, c: StreamReader, d: StreamWriter) -> None:
    """Copy both ways until both sides have ended."""
    try:
        await asyncio.gather(copy(a, d), copy(c, b))
    finally:
        d.close()


async def copy(reader: StreamReader, writer: StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.write_eof()
