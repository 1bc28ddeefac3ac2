"""Any command line as an agent: judged by its exit code and by what it left in the tree.

A stream of JSON lines that Claude Code, Codex, Gemini or opencode writes is recognised on its standard output and read
for cost, limits, session and tool calls.

`{prompt}` in the command is replaced by the prompt as one word, `{prompt_file}` by a file that holds it; with
neither, the prompt is on standard input. `{hooks}` is replaced by a folder with configurations that let a CLI with
hooks ask the guard before each tool call (`claude --settings {hooks}/claude.json`); a turn in which it never did
has failed.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from flyball.agents.adapter import Launch, TurnRequest, program_of
from flyball.agents.stream_agent import StreamAgent


def _filled(command: str, names: Sequence[str]) -> str:
    """The command with each `{name}` as a variable of the shell, which never reads what stands in it as code.

    Quoted as the place demands: bare it is one word, in double quotes a part of one, in single quotes they are left.
    """
    out, quote, at = list[str](), "", 0
    while at < len(command):
        placeholder = next((name for name in names if command.startswith(f"{{{name}}}", at)), "")
        if placeholder:
            value = f"${{flyball_{placeholder}}}"
            out.append({"": f'"{value}"', '"': value}.get(quote, f"'\"{value}\"'"))
            at += len(placeholder) + 2
            continue
        step = 2 if command[at] == "\\" and quote != "'" else 1
        if step == 1 and command[at] in "'\"" and quote in ("", command[at]):
            quote = "" if quote else command[at]
        out.append(command[at : at + step])
        at += step
    return "".join(out)


PLACEHOLDERS = ("prompt", "prompt_file", "hooks")


class CommandAgent(StreamAgent):
    may_be_silent = True

    def __init__(self, command: str) -> None:
        super().__init__(f"command:{command}")
        self.command = command
        self.name = Path(program_of(self.agent)).name

    @property
    def hooked(self) -> bool:
        return "{hooks}" in self.command

    def missing(self) -> str:
        return super().missing() or self._misspelt()

    def _misspelt(self) -> str:
        """A word in braces that is almost a placeholder of Flyball. Any other may belong to the program."""
        words: list[str] = re.findall(r"{(\w+)}", self.command)
        for word in words:
            close = difflib.get_close_matches(word, PLACEHOLDERS, 1, 0.75)
            if close and word not in PLACEHOLDERS:
                return f"The agent 'command:{self.command}' has {{{word}}}. Did you mean {{{close[0]}}}?"
        return ""

    def launch(self, request: TurnRequest) -> Launch:
        fields = {
            "prompt_file": str(request.prompt_file),
            "hooks": str(request.hooks) if request.hooks else "",
        }
        placeholders = [name for name in PLACEHOLDERS if f"{{{name}}}" in self.command]
        values = [f"flyball_{name}={shlex.quote(fields[name])}" for name in placeholders if name in fields]
        if "prompt" in placeholders:
            values.append(f"flyball_prompt=$(cat {shlex.quote(str(request.prompt_file))})")
        line = "; ".join((*values, _filled(self.command, placeholders)))
        silent = "prompt" in placeholders or "prompt_file" in placeholders
        return Launch(
            argv=("/bin/sh", "-c", line),
            stdin_file=None if silent else str(request.prompt_file),
            reads=(str(request.prompt_file),),
        )
