"""A plain MCP client over stdio, and an agent that does nothing but use it.

mcp_client.py MCP.JSON HOOKS.JSON TOOL ARGUMENTS [TOOL ARGUMENTS …]: start the server as a CLI would, call each tool.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


class Client:
    def __init__(self, config: Path) -> None:
        entry = json.loads(config.read_text())["mcpServers"]["flyball"]
        line = [entry["command"], *entry["args"]]
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number = 0

    def send(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def receive(self) -> Any:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def ask(self, method: str, **params: Any) -> Any:
        self.number += 1
        request = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.send(json.dumps(request).encode())
        reply = self.receive()
        assert reply["id"] == self.number
        return reply.get("result", reply.get("error"))

    def call(self, tool: str, **arguments: Any) -> tuple[bool, str]:
        """Whether it was taken, and what was said to it."""
        result = self.ask("tools/call", name=tool, arguments=arguments)
        return not result["isError"], result["content"][0]["text"]

    def close(self) -> int:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(20)


def main(config: str, hooks: str, *steps: str) -> None:
    heartbeat = json.loads(Path(hooks).read_text())["hooks"]["SessionStart"][0]["hooks"][0]["command"]
    subprocess.run(["/bin/sh", "-c", heartbeat], input=b'{"hook_event_name": "SessionStart"}', check=True)
    client = Client(Path(config))
    client.ask("initialize", protocolVersion="2025-06-18")
    for tool, arguments in zip(steps[::2], steps[1::2], strict=True):
        print(*client.call(tool, **json.loads(arguments)), flush=True)
    client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
