"""The last step before an act's program, inside its sandbox. Run as `python -I -S entry.py RULES PROGRAM …`.

RULES is JSON, each part of it optional:
  files   {"read": […], "write": […]}: Landlock, where nothing is mounted
  scope   abstract sockets and signals of others are out of reach
  connect TCP ports that may be connected to (Landlock; none at all is [])
  proxy   {"fd", "port", "bridges", "watch"}: open the ways to the proxy and hand them out through the descriptor
  user    [uid, gid] to be again, where bubblewrap had to make us root for that
  tell    a descriptor on which to say that the program was started

The standard library only. It is all or nothing: what cannot be done ends in exit code 125 before the program is started.

An own network has its loopback and nothing else. With `watch` every address is made one of this machine's, so that an
attempt to reach another host stays here and is seen by the keeper (`packets.py`).
"""

# ruff: noqa: PTH100, PTH120, PTH123
from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import sys

TYPE_CHECKING = False  # typing takes long to import
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from flyball.agents import landlock
else:  # the package itself takes long to import, and -I leaves this folder out
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import landlock

REFUSED = 125
NEW_USER = 0x1000_0000  # of unshare(2)
CLEAR_AMBIENT = 47, 4  # of prctl(2)
NEW_ROUTE, ACKED_NEW = 24, 0x605  # of rtnetlink(7)
LOCAL_TABLE, STATIC, ON_HOST, LOCAL = 255, 4, 254, 2
EVERY_PACKET = 3
LOCAL_NAMES = "localhost,127.0.0.1,::1"


def main(encoded: str, argv: list[str]) -> NoReturn:
    rules: dict[str, Any] = json.loads(encoded)
    __import__("warnings")  # execvp imports it, and might find it out of reach
    try:
        port = open_ways(rules["proxy"]) if rules.get("proxy") else 0
        if rules.get("user"):
            become(*rules["user"])
        drop_capabilities()
        confine(rules, port)
        if rules.get("tell"):
            os.write(rules["tell"], b'{"started": true}\n')
            os.close(rules["tell"])
        os.execvp(argv[0], argv)
    except OSError as fault:
        sys.stderr.write(f"sandbox: {fault.filename or argv[0]}: {fault.strerror}\n")
    sys.exit(REFUSED)


# ---- the ways to the proxy


def open_ways(proxy: dict[str, Any]) -> int:
    """Listen for the proxy and for each bridge, and hand the sockets to the keeper. The proxy's port."""
    watched = watch() if proxy.get("watch") else None
    door = listener("127.0.0.1", proxy["port"])
    bridges: dict[str, socket.socket] = {}
    for address in proxy["bridges"]:
        host, _, port = address.rpartition(":")
        try:
            bridges[address] = listener(host.strip("[]"), int(port))
        except OSError:
            continue  # a port that is not ours to take: the proxy still leads there
    about = {"bridges": list(bridges), "watch": watched is not None}
    sockets = [door, *bridges.values(), *([watched] if watched else [])]
    with socket.socket(fileno=proxy["fd"]) as way_out:
        socket.send_fds(way_out, [json.dumps(about).encode()], [one.fileno() for one in sockets])
    port = door.getsockname()[1]
    for one in sockets:
        one.close()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        os.environ[name] = os.environ[name.lower()] = f"http://127.0.0.1:{port}"
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = LOCAL_NAMES
    os.environ["NODE_USE_ENV_PROXY"] = "1"
    return int(port)


def listener(host: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, port))
    sock.listen(128)
    return sock


def watch() -> socket.socket | None:
    """Give every address to this machine, and see every packet; None if that is not permitted."""
    try:
        for family in (socket.AF_INET, socket.AF_INET6):
            route_here(family)
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(EVERY_PACKET))
        sock.bind(("lo", 0))
    except OSError:
        return None
    return sock


def route_here(family: int) -> None:
    out = struct.pack("=HHI", 8, 4, socket.if_nametoindex("lo"))
    body = struct.pack("=8BI", family, 0, 0, 0, LOCAL_TABLE, STATIC, ON_HOST, LOCAL, 0) + out
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(body), NEW_ROUTE, ACKED_NEW, 1, 0) + body)
        error = -struct.unpack("=i", kernel.recv(4096)[16:20])[0]
    if error and family == socket.AF_INET:
        raise OSError(error, os.strerror(error))


# ---- giving things up


def become(uid: int, gid: int) -> None:
    """Become the user again, in a user namespace in which nobody is root."""
    if libc().unshare(NEW_USER) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    for name, text in (("setgroups", "deny"), ("gid_map", f"{gid} 0 1"), ("uid_map", f"{uid} 0 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def drop_capabilities() -> None:
    """Drop all capabilities for good, including those that bubblewrap left for opening the sockets."""
    number = 0
    while libc().prctl(24, number, 0, 0, 0) == 0:  # PR_CAPBSET_DROP
        number += 1
    libc().prctl(*CLEAR_AMBIENT, 0, 0, 0)
    head, none = struct.pack("=II", 0x2008_0522, 0), bytes(24)
    if libc().capset(head, none) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def confine(rules: dict[str, Any], port: int) -> None:
    files, connect = rules.get("files"), rules.get("connect")
    if connect is not None and port:
        connect = [*connect, port]
    if files:
        landlock.confine(files["read"], files["write"], connect)
    elif rules.get("scope"):
        landlock.scope()


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
