"""What the tools of Claude Code, Codex and Gemini do, by name. A tool that is not listed is unknown, never harmless."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, cast

from msgspec import Struct

Kind = Literal["command", "edit", "read", "network", "plain", "odd", "unknown"]


class Write(NamedTuple):
    """A file that a call changes, and what it puts there as far as the call says."""

    path: str
    op: str  # add | modify | delete
    text: str = ""


class ToolUse(Struct, frozen=True, kw_only=True):
    """What a tool call does, in the guard's terms."""

    kind: Kind
    command: str = ""
    cwd: str = ""
    writes: tuple[Write, ...] = ()  # in the order named
    paths: tuple[str, ...] = ()  # of a read
    beside: str = ""  # what a command's call asks for besides: to run in the background, without a sandbox


COMMANDS = ("Bash", "Monitor", "run_shell_command", "shell", "local_shell", "exec_command", "unified_exec")
WRITERS = ("Write", "write_file")
EDITORS = ("Edit", "MultiEdit", "NotebookEdit", "replace", "edit")
PATCHES = ("apply_patch",)
READERS = {  # tool -> the names under which its call says where
    "Read": ("file_path",),
    "NotebookRead": ("notebook_path",),
    "Glob": ("path",),
    "Grep": ("path",),
    "LS": ("path",),
    "read_file": ("absolute_path", "file_path", "path"),
    "read_many_files": ("paths", "include", "file_paths"),
    "list_directory": ("dir_path", "path"),
    "glob": ("dir_path", "path"),
    "search_file_content": ("dir_path", "path"),
    "grep_search": ("dir_path", "path"),
    "view_image": ("path",),
}
NETWORK = ("WebFetch", "WebSearch", "web_fetch", "google_web_search", "web_search")
PLAIN = (  # they think, plan, look at their own processes or call on others whose tools are asked about in turn
    *(
        "TodoWrite",
        "TodoRead",
        "Task",
        "Agent",
        "TaskCreate",
        "TaskUpdate",
        "TaskList",
        "TaskGet",
        "TaskOutput",
    ),
    *("TaskStop", "BashOutput", "KillShell", "KillBash", "ExitPlanMode", "EnterPlanMode", "ToolSearch"),
    *("AskUserQuestion", "write_todos", "update_plan", "ask_user", "write_stdin_poll"),
)
REPORTS = frozenset(  # Flyball's own MCP tools, as each CLI names them
    f"{server}{tool}"
    for server in ("mcp__flyball__", "mcp_flyball_")
    for tool in ("finish", "outcome", "report_progress", "ask_human", "request_approval", "report_finding")
)
BESIDE = {
    "run_in_background": "Runs in the background.",
    "is_background": "Runs in the background.",
    "dangerouslyDisableSandbox": "Leaves the sandbox of its CLI.",
    "with_escalated_permissions": "Leaves the sandbox of its CLI.",
    "sandbox_permissions": "Leaves the sandbox of its CLI.",
    "additional_permissions": "Leaves the sandbox of its CLI.",
}
NOTHING = (None, False, 0, "", "use_default")  # asked for by none of these words
LINE, PATCH = ("command", "cmd"), ("command", "input", "patch")
WHERE = ("file_path", "notebook_path", "path", "absolute_path")
FROM = ("dir_path", "directory", "workdir", "cwd")


def tool_use(tool: str, input_: dict[str, Any], cwd: str) -> ToolUse:
    """What the call does. A known tool with unexpected input is odd."""
    try:
        return _known(tool, input_, cwd)
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration):
        return ToolUse(kind="odd")


def _known(tool: str, input_: dict[str, Any], cwd: str) -> ToolUse:
    if tool in COMMANDS:
        beside = next((why for name, why in BESIDE.items() if input_.get(name) not in NOTHING), "")
        return ToolUse(kind="command", command=_only(input_, LINE), cwd=_cwd(input_, cwd), beside=beside)
    if tool in WRITERS or tool in EDITORS:
        writes = tuple(Write(path, "modify", _text(input_)) for path in _named(input_, WHERE))
        return ToolUse(kind="edit" if writes else "odd", writes=writes, cwd=cwd)
    if tool in PATCHES:
        return ToolUse(kind="edit", writes=_patched(_only(input_, PATCH)), cwd=cwd)
    if tool in READERS:
        return ToolUse(kind="read", paths=_paths(input_, (*READERS[tool], *WHERE)), cwd=cwd)
    plain = tool in PLAIN or tool in REPORTS
    return ToolUse(kind="network" if tool in NETWORK else "plain" if plain else "unknown")


def _only(input_: dict[str, Any], names: tuple[str, ...]) -> str:
    """The text under one of these names. Under two of them it is unclear which one counts."""
    (value,) = (input_[name] for name in names if input_.get(name) is not None)
    if not isinstance(value, str):
        raise TypeError("the input is not a single text")
    return value


def _named(input_: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    """Every path that the call names, whichever of them the tool goes by."""
    paths: list[str] = []
    for name in dict.fromkeys(names):
        value: Any = input_.get(name) or []
        paths += cast("list[str]", value) if isinstance(value, list) else [value]
    if not all(isinstance(path, str) for path in cast("list[object]", paths)):
        raise TypeError("a path is not text")
    return paths


def _cwd(input_: dict[str, Any], cwd: str) -> str:
    """Where it will run: as the call says, seen from where the agent is."""
    inner = _only(input_, FROM) if any(input_.get(name) is not None for name in FROM) else ""
    return inner if inner.startswith("/") or not inner else f"{cwd}/{inner}" if cwd else inner


def _text(input_: dict[str, Any]) -> str:
    """All that any of its words puts into the file."""
    edits = cast("list[dict[str, Any]]", input_["edits"]) if isinstance(input_.get("edits"), list) else []
    texts = [part.get(name) for part in (input_, *edits) for name in ("content", "new_string", "new_source")]
    return "\n".join(str(text) for text in texts if text)


MARKS = {
    "*** Add File: ": "add",
    "*** Update File: ": "modify",
    "*** Delete File: ": "delete",
    "*** Move to: ": "add",
}


OTHER_MARKS = ("*** Begin Patch", "*** End Patch", "*** End of File")


def _patched(patch: str) -> tuple[Write, ...]:
    """Every file that the patch names. One that names none, or has a mark nobody knows, is not understood.

    Codex takes a mark with blanks around it too, and ends a line at "\\n" alone.
    """
    files: list[tuple[str, str, list[str]]] = []
    for line in patch.split("\n"):
        mark = line.strip()
        if mark.startswith("***") and mark not in OTHER_MARKS:
            files.append((*_marked(mark), []))
        elif line.startswith("+") and files:
            files[-1][2].append(line[1:])
    if not files:
        raise ValueError("the patch names no file")
    return tuple(Write(path, op, "\n".join(added)) for path, op, added in files)


def _marked(line: str) -> tuple[str, str]:
    mark, op = next((mark, op) for mark, op in MARKS.items() if line.startswith(mark))
    path = line[len(mark) :]
    if path != path.strip():
        raise ValueError("a blank before the path: whether it belongs to it is not known")
    return path, op


def _paths(input_: dict[str, Any], names: tuple[str, ...]) -> tuple[str, ...]:
    """Where it reads; nothing said means where the agent is. A pattern that climbs or is absolute counts too."""
    pattern = str(input_.get("pattern") or "")
    climbs = pattern.startswith(("/", "~")) or ".." in pattern
    return (*_named(input_, names), *((pattern,) if climbs else ()))
