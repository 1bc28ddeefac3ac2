"""A script that a model server plays, JSON or YAML: steps that are each a reply or a fault.

    name: write-then-done
    vars: {file: hello.txt}            # "${file}" is replaced in every string below
    side_requests: no_tools            # or "never"; see "Side requests"
    on_exhausted: repeat_last          # or "error" (HTTP 400) or "stop" (text "done")
    usage: {input: 1200, output: 80, cached: 1000}     # default for every reply
    steps:
      - reply:                         # a list of parts, or just a string
          - thinking: "I shall write the file."
          - text: "Writing."
          - tool: "@write"             # an alias, see "Tool aliases"
            input: {path: "${file}", content: "hi\n"}
      - fault: rate_limit              # see FAULTS; extra keys refine it
        retry_after: 2
        times: 3                       # play this step three times
      - expect: {contains: "hi"}       # must occur in the request, else HTTP 400
        reply: "All done."             #   and an entry in state()["failures"]
        delay: 0.5                     # seconds before the answer starts
        chunk_delay: 0.05              # seconds between stream events
        usage: {input: 10, output: 5}
        headers: {anthropic-ratelimit-unified-status: allowed_warning}

Each *main* request plays the next step.

Faults.  `fault: <name>` where name is one of
    rate_limit      429 + retry-after (`retry_after`, default 1; null leaves it out)
    usage_limit     429 "plan limit reached, resets at ..." (`resets_in`, default 3600)
    quota           429/400 out of credit / insufficient_quota
    overloaded      529 (anthropic) / 503
    server_error    500
    auth            401 invalid key
    forbidden       403
    not_found       404 unknown model
    context         400 prompt too long
    http            any `status`, `body`, `headers` you give
    hang            accept, then say nothing for `seconds` (default 3600);
                    `after: headers` sends headers first, `after: delta` part of a reply
    drop            close the socket; `after:` as for hang
    truncated       a stream that ends cleanly but without its closing events
    garbage         a stream whose events are not JSON
    html            200 with an HTML page (a captive portal, a broken proxy)
    stream_error    the dialect's in-stream error event (`error: overloaded_error`)
`status`, `headers`, `body` and `message` override the dialect's defaults.

Tool aliases.  Agents name their tools differently, so a script may say "@bash"
(input: command), "@write" (path, content), "@read" (path) or "@mcp:<tool>"
(any input; finds the declared tool whose name ends in <tool>).  The alias is
resolved against the tools the request itself declares, so one script drives
every agent.  "@write" falls back to "@bash" where there is no write tool.
Any other name is sent literally.

Side requests.  Agents also ask for titles, summaries and quota checks.  With
`side_requests: no_tools` (the default) a request that declares no tools, or
that asks for at most one token, is answered "ok" and plays no step.  Use
"never" for agents that declare no tools at all (aider)."""

from __future__ import annotations

import re
import threading
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

Json = dict[str, Any]


class ScriptError(ValueError):
    """The script itself is wrong."""


FAULTS = frozenset(
    [
        "rate_limit",
        "usage_limit",
        "quota",
        "overloaded",
        "server_error",
        "auth",
        "forbidden",
        "not_found",
        "context",
        "http",
        "hang",
        "drop",
        "truncated",
        "garbage",
        "html",
        "stream_error",
    ]
)
_STEP_KEYS = frozenset(
    [
        "reply",
        "fault",
        "times",
        "expect",
        "delay",
        "chunk_delay",
        "usage",
        "stop",
        "status",
        "headers",
        "body",
        "message",
        "retry_after",
        "resets_in",
        "seconds",
        "after",
        "error",
    ]
)
_DEFAULT_USAGE = {"input": 100, "output": 20, "cached": 0, "cache_write": 0, "reasoning": 0}


def load_script(path: Path) -> Json:
    """Read a JSON or YAML script file."""
    import yaml

    spec = yaml.safe_load(path.read_text(encoding="utf-8"))  # JSON is YAML too
    if not isinstance(spec, dict):
        raise ScriptError(f"{path}: a script is a mapping")
    return cast("Json", spec)


class Script:
    """A checked script and its cursor. Thread-safe."""

    def __init__(self, spec: Json, variables: dict[str, str] | None = None):
        if not isinstance(spec.get("steps"), list):
            raise ScriptError("a script is a mapping with a list 'steps'")
        names = {**spec.get("vars", {}), **(variables or {})}
        spec = _substitute(deepcopy(spec), names)
        self.name = spec.get("name", "unnamed")
        self.usage = {**_DEFAULT_USAGE, **spec.get("usage", {})}
        self.side_requests = spec.get("side_requests", "no_tools")
        self.on_exhausted = spec.get("on_exhausted", "repeat_last")
        if self.side_requests not in ("no_tools", "never"):
            raise ScriptError("side_requests is 'no_tools' or 'never'")
        if self.on_exhausted not in ("repeat_last", "error", "stop"):
            raise ScriptError("on_exhausted is 'repeat_last', 'error' or 'stop'")
        self.steps: list[Json] = []
        for number, step in enumerate(spec["steps"]):
            self._check(number, step)
            self.steps += [step] * int(step.get("times", 1))
        self.lock = threading.Lock()
        self.played = 0  # main requests answered so far: the cursor
        self.side = 0  # side requests answered so far
        self.failures: list[str] = []  # unmet expectations

    @staticmethod
    def _check(number: int, step: Json) -> None:
        if ("reply" in step) == ("fault" in step):
            raise ScriptError(f"step {number}: needs exactly one of 'reply' and 'fault'")
        if unknown := set(step) - _STEP_KEYS:
            raise ScriptError(f"step {number}: unknown keys {sorted(unknown)}")
        if "fault" in step and step["fault"] not in FAULTS:
            raise ScriptError(f"step {number}: unknown fault {step['fault']!r}")
        parts = step.get("reply", [])
        for part in cast("list[Json]", parts) if isinstance(parts, list) else []:
            if len({"text", "thinking", "tool"} & set(part)) != 1:
                raise ScriptError(f"step {number}: a part has one of text, thinking, tool")

    def reset(self) -> None:
        with self.lock:
            self.played = 0
            self.side = 0
            self.failures.clear()

    def next_step(self) -> tuple[int, Json]:
        """Advance the cursor. Returns (step number or -1 when exhausted, step)."""
        with self.lock:
            index = self.played
            self.played += 1
        if index < len(self.steps):
            return index, self.steps[index]
        if self.on_exhausted == "repeat_last" and self.steps:
            return -1, self.steps[-1]
        if self.on_exhausted == "stop":
            return -1, {"reply": "done"}
        self.failures.append(f"request {index} came after the last step")
        return -1, {"fault": "http", "status": 400, "message": "the script is exhausted"}

    def state(self) -> Json:
        return {
            "name": self.name,
            "steps": len(self.steps),
            "played": self.played,
            "side": self.side,
            "exhausted": self.played >= len(self.steps),
            "failures": list(self.failures),
        }


def _substitute(node: Any, names: dict[str, str]) -> Any:
    if isinstance(node, str):
        return re.sub(r"\$\{(\w+)\}", lambda m: str(names.get(m[1], m[0])), node)
    if isinstance(node, list):
        return [_substitute(item, names) for item in cast("list[Any]", node)]
    if isinstance(node, dict):
        return {key: _substitute(value, names) for key, value in cast("Json", node).items()}
    return node
