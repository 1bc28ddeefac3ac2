"""Code on the command line inside a sandbox: it may do what a script of the workspace may, but it must not name another
machine, a secret or Flyball, nor hide what it runs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flyball.guard.commands.addresses import other_machine
from flyball.guard.commands.args import Arg
from flyball.guard.commands.checks.wrappers import in_shell, run
from flyball.reading.lazy import Lazy

if TYPE_CHECKING:
    from flyball.guard.commands.command_judge import Call

_USES_NETWORK = Lazy(
    r"\bsocket\s*\(|create_connection|getaddrinfo|gethostby|urlopen|urlretrieve|requests\.(?:get|post|put|patch|delete|head|request|[sS]ession)"
    r"|\bhttpx\.\w+\s*\(|aiohttp\.|http\.client\.|HTTPS?Connection|ftplib|smtplib|telnetlib|paramiko|xmlrpc|websocket|\bfetch\s*\(|XMLHttpRequest"
    r"|\bnet\.(?:connect|createConnection|Socket)|\bhttps?\.(?:get|request)|\bdgram\b|\bdns\b.{0,20}(?:resolve|lookup)|\btls\.connect|axios"
    r"|require\s*\(?\s*['\"](?:socket|net|http)|:httpc\b|IO::Socket|LWP::|Net::\w+|HTTP::Tiny|open-uri|URI\.open|\bTCPSocket|\bUDPSocket|fsockopen|stream_socket_client|curl_init|curl_exec"
    r"|Deno\.connect|Bun\.connect|SMTP|\bUDP\b",
)
_STARTS_PROGRAMS = Lazy(
    r"\bos\.(?:system|popen|exec\w+|spawn\w*|posix_spawn\w*|startfile)|subprocess|\bpty\.|\bpopen\b|child_process|execSync|spawnSync|\bspawn\s*\("
    r"|System\.cmd|:os\.cmd|Port\.open|os\.execute|\.execute\s*\(\s*\)|getRuntime|ProcessBuilder|\brun\s*\(\s*`|Open3|IO\.popen|Kernel\.(?:exec|system|spawn)|\bqx\b|%x[\W]|shell_exec|passthru|proc_open|Deno\.(?:run|Command)|Bun\.(?:spawn|\$)"
    r"|\bsystem\s*\(?\s*[\"']|(?<![\w.])exec\s*\(?\s*[\"']|pexpect|\bsh\.\w+\(|plumbum",
)
_HIDES = Lazy(
    r"\beval\s*\(|\bexec\s*\(|\bcompile\s*\(|__import__|getattr\s*\(\s*(?:os|sys|builtins|__builtins__)|\bctypes\b|b64decode|a85decode|unhexlify|fromhex|marshal"
    r"|\beval\s+(?:pack|unpack|\$|decode)|pickle\.loads|codecs\.decode|zlib\.decompress|atob\s*\(|Buffer\.from\s*\([^)]*(?:base64|hex)|vm\.run|new\s+Function\s*\(|instance_eval|class_eval"
    r"|unpack\s*\(?\s*['\"][mHhu]|base64_decode|chr\s*\(\s*\d+\s*\)\s*[.+]|String\.fromCharCode|\bgetattr\s*\([^)]*\+",
)
_WITHOUT_BOUND = Lazy(
    r"\bfork\s*\(|\bfork\b.*\bwhile\b|while\s*(?:\(?(?:True|true|1)\)?)\s*[:{;]|for\s*\(;;\)|10\s*\*\*\s*1[0-9]|\b1e1[0-9]\b|<<\s*[34]\d\b|\bitertools\.(?:count|repeat|cycle)"
)
_ENDS = Lazy(r"\b(?:break|return|exit|last)\b")
_SECRET = Lazy(r"\w*(?:SECRET|TOKEN|PASSW|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIAL)\w*")
_OTHERS = Lazy(
    r"\b(?:flyball|bwrap|unshare|setns|ptrace|keyring|keychain|secretstorage)\b|/proc/\S*(?:environ|mem|root|fd)\b",
    re.IGNORECASE,
)
_STARTERS = frozenset(
    {"run", "call", "check_call", "check_output", "Popen", "system", "popen", "getoutput", "getstatusoutput"}
)


def judge(call: Call, text: str) -> None:
    """Code whose whole text is known."""
    host = other_machine(text)
    if host:
        call.deny("network", f"The code names another machine ({host}).")
    elif _USES_NETWORK.search(text) and not re.search(r"localhost|127\.0\.0\.1|::1", text):
        call.deny("network", "The code uses the network, and the guard cannot tell what it connects to.")
    if _OTHERS.search(text):
        call.deny("guard", "The code reaches for Flyball, the sandbox or other processes.")
    if _SECRET.search(re.sub(r"['\"]\s*[:=]\s*['\"]", "", text)) and re.search(
        r"environ|getenv|process\.env|ENV\b", text
    ):
        call.deny("secret", "The code reads a secret from the environment.")
    if _HIDES.search(text):
        call.deny("hidden-command", "The code hides what it runs.")
    if _WITHOUT_BOUND.search(text) and not _ENDS.search(text):
        call.deny("unbounded", "The code runs or grows without a limit.")
    if _STARTS_PROGRAMS.search(text) or (call.name in {"perl", "ruby", "php"} and "`" in text):
        _programs(call, text)


def hidden_in(text: str) -> str:
    """What code among the arguments of some program does that a guard must not overlook, or ''."""
    if not re.search(r"[(\s]", text):
        return ""
    if _HIDES.search(text):
        return "hides what it runs"
    if _USES_NETWORK.search(text) and not re.search(r"localhost|127\.0\.0\.1|::1", text):
        return "uses the network"
    return "starts other programs" if _STARTS_PROGRAMS.search(text) else ""


def _programs(call: Call, text: str) -> None:
    """Programs that Python code starts with literal arguments are judged; all others are refused."""
    commands = list(_literal_commands(text)) if call.name.startswith(("py", "uv")) else []
    if not commands or None in commands:
        call.deny("hidden-command", "The code starts programs that the guard cannot read. Run them directly.")
    for command in commands:
        if isinstance(command, str):
            in_shell(call, command)
        elif command:
            run(call, [Arg(word) for word in command])


def _literal_commands(text: str) -> Iterator[str | list[str] | None]:
    """Each command line or argument list of `subprocess.run` and its kin; None for one that is not literal."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield None
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in _STARTERS:
            yield _command(node)
        elif (isinstance(node, ast.Call) and re.match(r"exec[lv]|spawn|posix_spawn", _name(node.func))) or (
            isinstance(node, ast.ImportFrom)
            and node.module in {"subprocess", "os", "pty"}
            and any(alias.asname or alias.name == "*" for alias in node.names)
        ):
            yield None


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _command(node: ast.Call) -> str | list[str] | None:
    try:
        given = node.args[0] if node.args else next(k.value for k in node.keywords if k.arg == "args")
        if isinstance(given, ast.List):
            return [_word(item) for item in given.elts]
        value = ast.literal_eval(given)
    except (ValueError, StopIteration, TypeError):
        return None
    return value if isinstance(value, str) else None


def _word(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute) and node.attr == "executable":
        return "python"
    value = ast.literal_eval(node)
    if not isinstance(value, str):
        raise ValueError
    return value
