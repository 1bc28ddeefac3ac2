"""What a packet on the sandbox's loopback says about an attempt that reached no server.

There every address is this machine's (`entry.py`), so a connection past the proxy ends in a reset or in "port
unreachable". Both are seen here, with the address that was wanted; a look-up of a name is seen with the name.
"""

from __future__ import annotations

import socket

OUTGOING = 4  # a packet on loopback is seen twice; this is the first time
TCP, UDP, ICMP, ICMP6 = 6, 17, 1, 58
RESET = 0x04
DNS = 53


class Attempt:
    def __init__(self, how: str, host: str, port: int) -> None:
        self.how, self.host, self.port = how, host, port


def attempt(data: bytes) -> Attempt | None:
    """From a packet, as it begins with its IP header."""
    try:
        return _attempt(data)
    except (IndexError, ValueError, OSError):
        return None


def _attempt(data: bytes) -> Attempt | None:
    protocol, source, _, rest = _opened(data)
    if protocol == TCP and rest[13] & RESET and rest[4:8] == bytes(4):  # the answer to a first packet
        return Attempt("tcp", source, int.from_bytes(rest[:2], "big"))
    if (protocol == ICMP and rest[:2] == b"\x03\x03") or (protocol == ICMP6 and rest[:2] == b"\x01\x04"):
        return _unreachable(rest[8:])
    return None


def _unreachable(packet: bytes) -> Attempt | None:
    protocol, _, address, rest = _opened(packet)
    if protocol != UDP:
        return None
    port = int.from_bytes(rest[2:4], "big")
    name = _question(rest[8:]) if port == DNS else ""
    return Attempt("dns", name, port) if name else Attempt("udp", address, port)


def _opened(data: bytes) -> tuple[int, str, str, bytes]:
    """Protocol, source, destination and content of an IP packet."""
    if data[0] >> 4 == 4:
        start = (data[0] & 15) * 4
        source, target = (socket.inet_ntop(socket.AF_INET, data[at : at + 4]) for at in (12, 16))
        return data[9], source, target, data[start:]
    source, target = (socket.inet_ntop(socket.AF_INET6, data[at : at + 16]) for at in (8, 24))
    return data[6], source, target, data[40:]


def _question(data: bytes) -> str:
    """The name in a DNS query; "" if it is none."""
    labels, at = list[str](), 12
    while data[at] and len(labels) < 64:
        size = data[at]
        if size > 63:
            return ""
        labels.append(data[at + 1 : at + 1 + size].decode("ascii", "backslashreplace"))
        at += size + 1
    name = ".".join(labels)
    return name if name.isprintable() else ascii(name)
