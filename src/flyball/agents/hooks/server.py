"""The driver's side of the hooks: a socket in the act's hook folder, where every tool call is asked about.

Laws:
- What is answered is written down first, outside the agent's reach: no ruling without its record.
- Who may talk here is the agent itself, so nothing here gives it power: it can ask, and it can add to the record.
  No word here speaks for a person.
- Whatever goes wrong here closes the line, and the hook judges by itself.
- Any word is a heartbeat, whoever in the agent's process tree says it: that one was heard tells of a configuration that
  works, not of a CLI that never runs a tool without asking.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flyball.agents.adapter import Answer
from flyball.agents.hooks.action_log import Record, shortened
from flyball.agents.hooks.payload import BadPayload, HookCall, Reply, allow, defer, read, refuse
from flyball.agents.hooks.question import question
from flyball.agents.hooks.real_paths import real
from flyball.agents.hooks.tool_calls import GRANTED, fingerprint, is_critical, judge
from flyball.agents.hooks.turn_brief import NAME, Brief, parse
from flyball.guard.change import Verdict
from flyball.state_dir import at_socket

SOCK = "sock"
LINES_MOST = 16  # at once; a hook that finds all of them busy judges by itself
HEAD_MOST, PAYLOAD_MOST = 100, 8 << 20
PATIENCE_S = 5.0  # for the whole of a question, and again for the whole of its answer
SHOWN_MOST = 200
ASKED = "A person will be asked about it after your turn. Continue without it, or end your turn now."


class HookServer:
    """Answers the hooks of one act for as long as it is open."""

    def __init__(
        self,
        folder: Path,
        record: Record,
        files: Path,
        granted: tuple[str, ...] = (),
        show: Callable[[str], None] | None = None,
        alarm: Callable[[], None] | None = None,
        report: Callable[[str, bytes], str] | None = None,
    ) -> None:
        self.folder, self.record, self.files, self.show, self.alarm = folder, record, files, show, alarm
        self.report = report  # answers the act's MCP server, by its token
        self.brief: Brief = parse((folder / NAME).read_bytes())
        self.granted = list(granted)
        self._free = threading.Semaphore(LINES_MOST)
        self._one = threading.Lock()
        self._attending: set[threading.Thread] = set()
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> HookServer:
        with contextlib.suppress(FileNotFoundError):
            (self.folder / SOCK).unlink()  # a driver before us left it
        at_socket(self.folder, SOCK, self._door.bind)
        self._door.listen(64)
        threading.Thread(target=self._serve, name=f"hooks {self.folder}", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for callers
        self._door.close()
        for clerk in tuple(self._attending):  # what is being ruled on belongs to this turn
            clerk.join(2 * PATIENCE_S)
        with contextlib.suppress(OSError):
            (self.folder / SOCK).unlink()

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._door.accept()
            except OSError:
                return
            if self._free.acquire(blocking=False):
                clerk = threading.Thread(target=self._attend, args=(line,), daemon=True)
                self._attending.add(clerk)
                clerk.start()
            else:
                line.close()

    def _attend(self, line: socket.socket) -> None:
        try:
            with line:
                if _is_ours(line):
                    reply = self.answer(*asked(line, time.monotonic() + PATIENCE_S))
                    line.settimeout(PATIENCE_S)
                    line.sendall(_packed(reply))
        except Exception:  # the hook gets no answer and judges by itself
            return
        finally:
            self._attending.discard(threading.current_thread())
            self._free.release()

    # ---- answers

    def answer(self, moment: str, agent: str, payload: bytes) -> Reply:
        """The reply to one message of a CLI, recorded before it is sent."""
        if moment == "tampered":
            verdict = Verdict("deny", "tampering", "The hook's rules were changed.")
            self.record.asked(HookCall(agent="claude", event="", moment="pre", tool=agent[:20]), verdict)
            return refuse(verdict.reason)
        if moment == "mcp":
            return Reply(out=self.report(agent, payload) if self.report else "")
        try:
            word = read(payload, agent, moment)
        except BadPayload as odd:
            return self._unread(odd, moment)
        if word.moment != "pre":
            self.record.finished(word)
            return Reply()
        return self._ruled(word)

    def ask(self, tool: str, input_: dict[str, Any], call: str = "", cwd: str = "") -> Answer:
        """The same for a call that is asked about over the agent's protocol."""
        row = {"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input_, "tool_use_id": call}
        payload = json.dumps({**row, "cwd": cwd or self.brief.workspace}).encode("utf-8", "replace")
        reply = self.answer("pre", "acp", payload)
        return Answer(reply.code == 0, reply.err.strip())

    def _unread(self, odd: BadPayload, moment: str) -> Reply:
        if moment != "pre":
            return Reply()
        verdict = Verdict("deny", "unreadable", f"Cannot read the call: {odd}.")
        self.record.asked(HookCall(agent="claude", event="", moment="pre"), verdict)
        return refuse(verdict.reason)

    def _ruled(self, word: HookCall) -> Reply:
        verdict = judge(word, self.brief, self.real)
        call = fingerprint(word)
        if verdict.verdict == "ask" and self._takes_grant(call):
            verdict = GRANTED
        asks = question(word, self.brief.workspace, verdict) if verdict.verdict == "ask" else ""
        self.record.asked(word, verdict, call, asks)
        if self.show:
            self.show(shortened(f"{word.tool} {word.asked}", SHOWN_MOST))
        if verdict.verdict == "allow":
            return allow(word)
        if self.alarm and is_critical(verdict, self.brief):
            self.alarm()
        if verdict.verdict == "ask" and self.brief.defers and word.agent == "claude":
            return defer(word)
        more = f" {ASKED}" if verdict.verdict == "ask" else ""
        return refuse(f"{verdict.reason} ({verdict.rule}).{more}")

    def _takes_grant(self, call: str) -> bool:
        """Whether a person allowed this call; permission for one use is used up by it."""
        with self._one:
            if call in self.granted:
                return True
            if f"once:{call}" not in self.granted:
                return False
            self.granted.remove(f"once:{call}")
            return True

    def real(self, path: str) -> str:
        """Where a path of the agent's leads: its workspace is the run's checkout, seen at the repository's path."""
        return real(path, self.brief.workspace, str(self.files))


def _is_ours(line: socket.socket) -> bool:
    """The same user is at the other end."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    _, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return uid == os.geteuid()


def asked(line: socket.socket, until: float) -> tuple[str, str, bytes]:
    """Read `MOMENT AGENT LENGTH`, a line's end and the payload, all before the deadline."""
    data = b""
    while b"\n" not in data and len(data) <= HEAD_MOST:
        data += _some(line, until)
    head, _, payload = data.partition(b"\n")
    moment, agent, length = head.decode("ascii").split()
    if not 0 <= int(length) <= PAYLOAD_MOST:
        raise ValueError("the payload is too long")
    parts, size = [payload], len(payload)
    while size < int(length):
        parts.append(_some(line, until))
        size += len(parts[-1])
    return moment, agent, b"".join(parts)[: int(length)]


def _some(line: socket.socket, until: float) -> bytes:
    remaining = until - time.monotonic()
    if remaining <= 0:
        raise TimeoutError("the request was not complete in time")
    line.settimeout(remaining)
    data = line.recv(1 << 16)
    if not data:
        raise ValueError("the connection was closed in the middle of the request")
    return data


def _packed(reply: Reply) -> bytes:
    out, err = reply.out.encode(), reply.err.encode("utf-8", "replace")
    return f"{reply.code} {len(out)} {len(err)}\n".encode() + out + err
