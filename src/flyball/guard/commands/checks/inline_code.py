"""Code given on the command line or standard input: ask at best, deny where it uses files, commands or the network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from flyball.guard import word_set
from flyball.guard.commands import argument_kinds
from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.checks import contained_code
from flyball.reading.terminal import Lazy

if TYPE_CHECKING:
    from flyball.guard.commands.command_judge import Call

_REACHES_OUT = Lazy(
    r"os\.(?:system|popen|exec\w*|spawn\w*|remove|unlink|rmdir|removedirs|kill|setuid|chmod|chown|environ|getenv|symlink)|subprocess|pty\.|popen"
    r"|__import__|\beval\s*\(|\bexec\s*\(|compile\s*\(|shutil\.|rmtree|unlink|socket|urllib|urlopen|requests\.|http\.client|httpx|aiohttp|ftplib|smtplib"
    r"|ctypes|pickle|marshal|importlib|base64|codecs\.decode|child_process|execsync|spawnsync|\bspawn\b|process\.env|process\.kill|\bfetch\s*\(|\bnet\."
    r"|require\s*\(\s*['\"](?:fs|net|http|https|os|vm|dgram|tls|child_process)|rmsync|unlinksync|writefile|appendfile|fileutils|file\.(?:delete|unlink|write)"
    r"|io\.popen|open3|kernel\.|\bsystem\b|\bexec\b|`|%x|\bqx\b|open\s*\(\s*['\"]\||net/http|tcpsocket|shell_exec|passthru|proc_open|file_put_contents|curl_|fsockopen"
    r"|deno\.(?:run|command|remove|write)|bun\.(?:spawn|\$)|runpy|flyball|webbrowser|antigravity|\bENV\b|\$ENV|getenv",
    re.IGNORECASE,
)
SCANNED_MOST = 6_000
_QUOTED = Lazy(r"'([^'\\]*)'|\"([^\"\\]*)\"")
_CHANGES = Lazy(
    r"open\s*\([^)]*,\s*['\"][rb]*[waxr]\+?b?\+?['\"]|write|unlink|\bremove\b|rmtree|rmdir|rename|chmod|truncate|mkdir|copy|move|\brm\b|delete",
    re.IGNORECASE,
)
_WRITES = Lazy(r"open\s*\([^)]*,\s*['\"][rb]*[waxr]\+?b?\+?['\"]|write_text|write_bytes|\.write\(")


def inline(call: Call, code: Arg) -> None:
    """Code as an argument."""
    call.ask("inline-code", "Runs code given on the command line.")
    if HOLE in code.text:
        rule = "remote-code" if code.remote else "opaque-command"
        call.deny(rule, "The code is unknown until the command runs.")
        return
    text = code.text[:SCANNED_MOST]
    if call.judge.policy.contained:
        contained_code.judge(call, code.text)
    elif _REACHES_OUT.search(text):
        call.deny(
            "hidden-command",
            "The code on the command line can run commands, delete files or use the network.",
        )
    contained = call.judge.policy.contained
    use = "write" if (_CHANGES if contained else _WRITES).search(text) else "read"
    opens = not contained or use == "write" or _OPENS.search(text)
    with call.context.filtered(lambda verdict: bool(opens) or verdict.rule != "path/outside") as inner:
        for match in _QUOTED.finditer(text):  # `client.get('/items')` opens nothing
            _quoted_path(msgspec.structs.replace(call, context=inner), match[1] or match[2] or "", use)


def _quoted_path(call: Call, text: str, use: str) -> None:
    if text.rstrip("/") == call.judge.policy.home:
        call.path("look", Arg(text))
    elif re.fullmatch(r"[~.\w/*-]*[/.~][~.\w/*-]*", text):
        call.path(use, Arg(text))


_OPENS = Lazy(r"\bopen\b|read|Path\(|File\b|load|listdir|walk|glob|scandir|exists", re.IGNORECASE)


def from_input(call: Call) -> None:
    """An interpreter without a script runs its standard input."""
    feed = call.context.stdin
    if feed.kind == "text":
        inline(call, Arg(feed.text))
    elif feed.kind == "none":
        call.ask("interactive", "Starts an interactive interpreter.")
    elif feed.kind in {"remote", "decoded"}:
        call.deny("remote-code", "Runs code from standard input.")
    else:
        call.ask("inline-code", "Runs code from standard input.")


def run_script(call: Call, script: Arg, rest: list[Arg]) -> None:
    """A script of the workspace is the project's own code."""
    argument_kinds.judge_argument(call.judge, "script", script, call.context)
    call.judge.check_download(script, call.context)
    call.judge.run_written(script, call.context, call.name)
    call.judge.check_paths_in(rest, call.context)
    call.judge.check_destinations(script.text, rest, call.context)
    if any(arg.unknown == 2 for arg in rest):
        call.ask("opaque-operand", "An argument is unknown until the command runs.")


# --- ruby, perl, php

_INFO = frozenset({"-v", "--version", "-h", "--help", "-V", "-m"})


def interpreter(call: Call) -> None:
    args = list(call.operands)
    if not args:
        from_input(call)
        return
    if {arg.text for arg in args} <= _INFO:
        return
    in_place = False
    while args and args[0].text.startswith("-") and args[0].text != "-":
        option = args.pop(0)
        in_place = in_place or (call.name in {"perl", "ruby"} and "i" in option.text.partition("e")[0])
        if _code_option(call, option.text):
            inline(call, args[0] if args and option.text[-1] in "erRE" else option)
            for arg in args[1:]:
                call.path("write" if in_place else "read", arg)
            return
        _option(call, option.text, args)
    if not args or args[0].text == "-":
        from_input(call)
    else:
        run_script(call, args[0], args[1:])
        _artisan(call, [arg.text for arg in args])


def _artisan(call: Call, words: list[str]) -> None:
    task = words[1] if len(words) > 1 and words[0].endswith("artisan") else ""
    if re.fullmatch(r"migrate:(?:fresh|reset|refresh)|db:wipe", task):
        call.deny("destruction", f"'artisan {task}' destroys the data.")
    elif re.match(r"(?:tinker|migrate|db|serve|queue|schedule|key|down|vendor|storage)\b", task):
        call.ask("unlisted", f"'artisan {task}' changes data, runs other code or keeps running.")


def _code_option(call: Call, option: str) -> bool:
    if call.name == "php":
        return option in {"-r", "-R", "-B", "-E", "--run"}
    return re.match(r"-[a-zA-Z0-9]*[eE]", option) is not None and not re.match(r"-[CEKIMTUWFxrm]\S+", option)


def _option(call: Call, option: str, args: list[Arg]) -> None:
    if option in {"-l", "-c", "-w", "-W", "-W0", "-W2", "-v", "--version", "-wc", "--"}:
        return
    if re.match(r"-I\S*", option):
        folder = Arg(option[2:]) if option[2:] else args.pop(0) if args else Arg(".")
        argument_kinds.judge_argument(call.judge, "config", folder, call.context)
    elif call.judge.policy.contained and re.fullmatch(
        r"-[rMm](?!.*(?:socket|net|http|lwp|cpan|uri|ftp|smtp))(?!un\b)[\w:/=,.-]*|-[dSt]",
        option,
        re.IGNORECASE,
    ):
        if (call.name == "ruby" and option == "-r") or (call.name == "php" and option in {"-d", "-S", "-t"}):
            value = args.pop(0) if args else Arg("")
            call.judge.check_destinations(call.name, [value], call.context)
    elif re.match(r"-[rMmdSt]", option):
        call.deny("hidden-command", f"'{call.name} {option}' loads other code or serves files.")
    else:
        call.ask("unknown-flag", f"Unknown option '{call.name} {option}'.")


def java(call: Call) -> None:
    texts = [arg.text for arg in call.operands]
    if texts in (["-version"], ["--version"], ["-help"]):
        return
    call.ask("inline-code", "Runs an unknown Java program.")
    call.judge.check_paths_in(call.operands, call.context)
    if any(text.startswith(("-javaagent", "-agentpath", "-agentlib", "-Xbootclasspath")) for text in texts):
        call.deny("hidden-command", "Loads other code into the program.")
    for at, text in enumerate(texts[:-1]):
        if text in {"-jar", "-cp", "-classpath", "--class-path"}:
            argument_kinds.judge_argument(call.judge, "script", call.operands[at + 1], call.context)


def other_code(call: Call) -> None:
    """Interpreters without a profile of their own: arguments that look like code are judged as code."""
    for arg in call.operands:
        if re.search(r"[\s(){}'\"]", arg.text):
            inline(call, arg)
    if call.context.stdin.kind != "none":
        from_input(call)


def powershell(call: Call) -> None:
    """A script of the workspace runs as other scripts do; code on the command line or from a pipe is not read."""
    words = [arg.text.lower() for arg in call.operands]
    at = next((at for at, word in enumerate(words) if word.endswith(".ps1")), None)
    if at is not None and all(word in _POWERSHELL_HARMLESS for word in words[:at]):
        argument_kinds.judge_argument(call.judge, "script", call.operands[at], call.context)
    elif words not in (["--version"], ["-version"], ["--help"]):
        call.deny(
            "hidden-command", "PowerShell code on the command line cannot be checked. Put it in a script."
        )


_POWERSHELL_HARMLESS = word_set(
    "-noprofile -nop -noninteractive -nologo -file -f -executionpolicy bypass unrestricted"
)


CHECKS = {"powershell": powershell, "interpreter": interpreter, "java": java, "other_code": other_code}
