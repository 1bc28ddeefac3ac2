"""Environment assignments: a short list is harmless; many can run or read something else."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from flyball.guard import word_set
from flyball.guard.change import Verdict
from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.argument_kinds import is_loopback, other_machine
from flyball.guard.commands.command_policy import CommandPolicy
from flyball.guard.commands.places import place_of, ruling
from flyball.guard.commands.profiles import environment as lists

_USUAL_FOLDER = re.compile(
    r"(?:/[\w./-]+/|\./)?(?:(?:packages|apps|libs|services|modules)/[\w.-]+/?)?(?:src|lib|libs|tests?|python|app|backend|node_modules|\.)?/?"
)
_NO_PROGRAM = re.compile(
    r"|:|\d|-[A-Za-z]+|cat|true|false|echo|less(?: -\w+)?|more|vim?|nano|(?:ccache )?(?:gcc|g\+\+|clang(?:\+\+)?|cc|c\+\+|tcc)(?:-\d+)?|ld|ar|make"
)
_TOOL_FOLDER = re.compile(rf"{HOLE}|.*/(?:s?bin|\.bin|Scripts|shims)/?|\.bin|bin")
_LIBRARY_FOLDER = re.compile(rf"{HOLE}|.*/(?:lib(?:32|64|s)?(?:/.*)?|build|debug|release|deps|out)/?")
_FOLDERS = {"PATH": _TOOL_FOLDER, "LD_LIBRARY_PATH": _LIBRARY_FOLDER}
_LOADS = re.compile(
    r"(?:^|[\s=-])-?-?(?:require|import|loader|experimental-loader|javaagent|agentlib|agentpath|toolexec|exec|eval|plugin|fplugin|wrapper)\b"
    r"|linker=|^-p\b| -p |^-[rcI]\s|\$\(|`|;|\|"
)
_SERVICE_URL = re.compile(
    r"(?:NEXT_PUBLIC|NUXT_PUBLIC|EXPO_PUBLIC|VITE|REACT_APP|GATSBY|PUBLIC)_\w+|(?!.*(?:PROXY|REGISTRY|INDEX|MIRROR|REPO|WEBHOOK|DATABASE|DB|TELEMETRY|UPLOAD))\w*(?:URL|URI|API|ENDPOINT|ORIGIN|BASE|HOST)"
)
"""What a build or a test is told of a service. The sandbox decides whether it can be reached."""
_LINTS = re.compile(r"(?:(?:^| )-[ADFW] ?[a-z][\w:-]*)+")
"""Which warnings the Rust compiler reports."""
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9 _.,:/@%+=*-]*")


def judge_assignment(name: str, value: Arg, exported: bool, policy: CommandPolicy) -> Verdict | None:
    """The verdict on `name=value`; a variable that only the shell reads is always allowed."""
    if policy.contained and (not _listed(name, "escaping") or _is_made_up(name, value)):
        return _in_sandbox(name, value, exported, policy)
    if _listed(name, "pagers") and value.text in {"", "cat"}:
        return None
    if name in {"RUSTFLAGS", "RUSTDOCFLAGS"} and _LINTS.fullmatch(value.text):
        return Verdict("ask", "environment", f"'{name}' sets options of the compiler.")
    if _listed(name, "dangerous"):
        return Verdict("deny", "environment", f"'{name}' changes what commands run or read.")
    if _listed(name, "paths"):
        return _path_list(name, value, policy)
    if not exported:
        return None
    if name in policy.harmless_env or _listed(name, "harmless"):
        return _harmless(name, value)
    return Verdict("ask", "environment", f"Sets '{name}', which is not on the list of harmless variables.")


def _is_made_up(name: str, value: Arg) -> bool:
    """`AWS_ACCESS_KEY_ID=test`: a stand-in for tests, which is no key. `IFS=$'\\n'` only splits less."""
    if name == "IFS":
        return value.literal and not value.text.strip(" \t\n")
    made_up = _MADE_UP.fullmatch(value.text) is not None or is_loopback(value.text)
    return value.literal and made_up and _KEY.fullmatch(name) is not None


_KEY = re.compile(r"\w+_(?:TOKEN|KEY|KEY_ID|SECRET|REGION)|AWS_ENDPOINT_URL\w*")
_MADE_UP = re.compile(
    r"(?:test|testing|dummy|fake|mock|local|example|placeholder|x+)?|[a-z]{2}-[a-z]+-\d", re.IGNORECASE
)


def _in_sandbox(name: str, value: Arg, exported: bool, policy: CommandPolicy) -> Verdict | None:
    """Stays there: any value that names no other machine, no protected file and no command."""
    if _listed(name, "programs") and not _NO_PROGRAM.fullmatch(value.text):
        return Verdict("deny", "environment", f"'{name}' decides which program runs.")
    usual = _FOLDERS.get(name)
    if usual and (value.text == HOLE or not all(map(usual.fullmatch, value.text.split(":")))):
        return Verdict("deny", "environment", f"'{name}' decides which code a program runs.")
    if (exported or _listed(name, "dangerous")) and _LOADS.search(value.text):
        return Verdict("deny", "environment", f"'{name}' makes programs load or run something else.")
    host = other_machine(value.text)
    if host and not (_SERVICE_URL.fullmatch(name) and value.text.startswith("http")):
        return Verdict("ask", "environment", f"'{name}' names another machine ({host}).")
    for entry in () if "://" in value.text else value.text.split(":"):
        if entry.startswith(("/", "~", ".")) and HOLE not in entry:
            path = policy.home + entry[1:] if entry.startswith("~") else entry
            verdict = path != policy.home and ruling(
                place_of(path, policy.workspace, policy), "read", entry, contained=True
            )
            if verdict:
                return verdict
    return None


def _listed(name: str, which: str) -> bool:
    names = lists()[which]
    return name in names or any("*" in pattern and fnmatchcase(name, pattern) for pattern in names)


def _harmless(name: str, value: Arg) -> Verdict | None:
    if _PLAIN_VALUE.fullmatch(value.text) and value.unknown < 2:
        return None
    return Verdict("ask", "environment", f"The value of '{name}' contains special characters.")


def _path_list(name: str, value: Arg, policy: CommandPolicy) -> Verdict | None:
    """`PYTHONPATH=src`: ask for directories that usually hold code, deny for others."""
    entries = [entry or "." for entry in value.text.split(":")]
    places = {place_of(entry, policy.workspace, policy) for entry in entries}
    usual = all(entry == policy.workspace or _USUAL_FOLDER.fullmatch(entry) for entry in entries)
    if value.literal and usual and places <= {"inside", "workspace"}:
        return Verdict("ask", "environment", f"'{name}' changes what code is loaded.")
    return Verdict("deny", "environment", f"'{name}' loads code from an unusual directory.")


_SECRET = re.compile(
    r".*(?:SECRET|TOKEN|PASSW|PASSPHRASE|API_?KEY|ACCESS_KEY|PRIVATE|CREDENTIAL).*", re.IGNORECASE
)
_SHOWN = word_set("HOME USER SHELL PATH PWD TERM LANG EDITOR LOGNAME VIRTUAL_ENV TMPDIR HOSTNAME")


def looks_secret(name: str) -> bool:
    return _SECRET.fullmatch(name) is not None


def harmless(name: str) -> bool:
    """May the variable be shown?"""
    return name in _SHOWN or _listed(name, "harmless")
