"""A stand-in for a CLI with hooks, as forgiving as the real ones: whatever a hook leaves but a clear no is a yes.

hooked_agent.py SETTINGS AGENT STEPS: SETTINGS as Flyball wrote it; STEPS is a JSON list of shell commands, one
tool call each; `wait:FILE` waits for a file, `raw:COMMAND` asks nobody. It tells each step's fate on a line of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = {
    "claude": ("PreToolUse", "PostToolUse", "Bash"),
    "codex": ("PreToolUse", "PostToolUse", "Bash"),
    "gemini": ("BeforeTool", "AfterTool", "run_shell_command"),
}


def call(hooks: dict[str, Any], event: str, **more: Any) -> bool:
    """Whether the hook says no: exit code 2, or a deny in words."""
    payload = {"hook_event_name": event, "session_id": "s", "cwd": str(Path.cwd()), **more}
    refused = False
    for entry in hooks.get(event, []):
        for hook in entry["hooks"]:
            done = subprocess.run(
                ["/bin/sh", "-c", hook["command"]],
                input=json.dumps(payload),
                capture_output=True,
                text=True,
                timeout=hook["timeout"],
            )
            refused |= done.returncode == 2 or '"deny"' in done.stdout
            if done.stderr:
                print(done.stderr.strip(), flush=True)
    return refused


def wait_for(file: Path) -> None:
    for _ in range(2000):
        if file.exists():
            return
        time.sleep(0.02)


def main(settings: str, agent: str, steps: str) -> None:
    before, after, tool = NAMES[agent]
    hooks = json.loads(Path(settings).read_text())["hooks"]
    call(hooks, "SessionStart", source="startup")
    for n, step in enumerate(json.loads(steps)):
        if step.startswith("wait:"):
            wait_for(Path(step[5:]))
            continue
        if step.startswith("raw:"):
            print(
                subprocess.run(["/bin/sh", "-c", step[4:]], capture_output=True, text=True).stdout, flush=True
            )
            continue
        asked = {"tool_name": tool, "tool_input": {"command": step}, "tool_use_id": f"c{n}"}
        if call(hooks, before, **asked):
            print(f"blocked: {step}", flush=True)
            continue
        done = subprocess.run(["/bin/sh", "-c", step], capture_output=True, text=True, env=dict(os.environ))
        said = done.stdout + done.stderr
        print(f"ran: {step} -> {done.returncode}", flush=True)
        call(hooks, after, **asked, tool_response={"stdout": said, "exit_code": done.returncode})


if __name__ == "__main__":
    main(*sys.argv[1:])
