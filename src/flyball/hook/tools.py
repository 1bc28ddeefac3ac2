"""What the tools of Claude Code, Codex and Gemini do, by name. What is not listed here is unknown, never harmless."""

from __future__ import annotations

from typing import Any, Literal, cast

from msgspec import Struct

Kind = Literal["command", "edit", "read", "network", "plain", "ours", "unknown"]


class Deed(Struct, frozen=True, kw_only=True):
    """What a tool call is about to do, in the guard's terms."""

    kind: Kind
    command: str = ""
    cwd: str = ""
    writes: tuple[tuple[str, str], ...] = ()  # (path, add | modify | delete), in the order named
    text: str = ""  # what will stand in the file, as far as the call says
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
BESIDE = {
    "run_in_background": "It would go on in the background.",
    "is_background": "It would go on in the background.",
    "dangerouslyDisableSandbox": "It would leave the sandbox of its own CLI.",
    "with_escalated_permissions": "It would leave the sandbox of its own CLI.",
}
OURS = ("mcp__flyball__", "mcp_flyball_", "flyball__")
WHERE = ("file_path", "notebook_path", "path", "absolute_path")
FROM = ("dir_path", "directory", "workdir", "cwd")


def deed(tool: str, given: dict[str, Any], cwd: str) -> Deed:
    """What the call is about to do. A known tool whose input is not as expected is unknown."""
    try:
        return _known(tool, given, cwd)
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration):
        return Deed(kind="unknown")


def _known(tool: str, given: dict[str, Any], cwd: str) -> Deed:
    if tool in COMMANDS:
        beside = next((why for name, why in BESIDE.items() if given.get(name)), "")
        return Deed(kind="command", command=_command(given), cwd=_cwd(given, cwd), beside=beside)
    if tool in WRITERS or tool in EDITORS:
        path = next(str(given[name]) for name in WHERE if given.get(name))
        return Deed(kind="edit", writes=((path, "modify"),), text=_text(tool, given), cwd=cwd)
    if tool in PATCHES:
        patch = str(given.get("command") or given.get("input") or given["patch"])
        return Deed(kind="edit", writes=_patched(patch), text=_added(patch), cwd=cwd)
    if tool in READERS:
        return Deed(kind="read", paths=_paths(given, READERS[tool]), cwd=cwd)
    if tool.startswith(OURS):
        return Deed(kind="ours")
    return Deed(kind="network" if tool in NETWORK else "plain" if tool in PLAIN else "unknown")


def _command(given: dict[str, Any]) -> str:
    """As text, or as the words of `bash -c LINE`, which some versions send."""
    command = given.get("command", given.get("cmd"))
    if isinstance(command, str):
        return command
    raise TypeError("the command is not one line of text")


def _cwd(given: dict[str, Any], cwd: str) -> str:
    """Where it will run: as the call says, seen from where the agent is."""
    inner = next((str(given[name]) for name in FROM if given.get(name)), "")
    return inner if inner.startswith("/") or not inner else f"{cwd}/{inner}" if cwd else inner


def _text(tool: str, given: dict[str, Any]) -> str:
    if tool in WRITERS:
        return str(given.get("content", ""))
    edits = cast("list[dict[str, Any]]", given["edits"]) if isinstance(given.get("edits"), list) else [given]
    return "\n".join(str(part.get("new_string") or part.get("new_source") or "") for part in edits)


MARKS = {
    "*** Add File: ": "add",
    "*** Update File: ": "modify",
    "*** Delete File: ": "delete",
    "*** Move to: ": "add",
}


def _patched(patch: str) -> tuple[tuple[str, str], ...]:
    """Every file that the patch names. A patch that names none is not understood."""
    found = [
        (line[len(mark) :].strip(), op)
        for line in patch.splitlines()
        for mark, op in MARKS.items()
        if line.startswith(mark)
    ]
    if not found:
        raise ValueError("the patch names no file")
    return tuple(found)


def _added(patch: str) -> str:
    return "\n".join(line[1:] for line in patch.splitlines() if line.startswith("+"))


def _paths(given: dict[str, Any], names: tuple[str, ...]) -> tuple[str, ...]:
    """Where it reads; nothing said means where the agent is. A pattern that climbs or is absolute counts too."""
    found: list[str] = []
    for name in names:
        value = given.get(name)
        several = cast("list[Any]", value) if isinstance(value, list) else [value] if value else []
        found += [str(item) for item in several]
    pattern = str(given.get("pattern") or "")
    return tuple(found + ([pattern] if pattern.startswith(("/", "~")) or ".." in pattern else []))
