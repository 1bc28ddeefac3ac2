"""Code given on the command line or standard input: ask at best, deny where it uses files, commands or the network."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from flyball.guard import word_set
from flyball.guard.commands import argument_kinds
from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.argument_kinds import HERE, TOP_LEVEL, other_machine
from flyball.guard.commands.checks.wrappers import in_shell, run
from flyball.guard.commands.endless import code_never_ends
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
_REMOVES = Lazy(r"rmtree|rmSync|rm_rf|rm_r\b|\bunlink")
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
        judge_contained(call, code.text)
    elif _REACHES_OUT.search(text):
        call.deny(
            "hidden-command",
            "The code on the command line can run commands, delete files or use the network.",
        )
    contained = call.judge.policy.contained
    use = "write" if (_CHANGES if contained else _WRITES).search(text) else "read"
    use = "delete" if _REMOVES.search(text) else use
    opens = not contained or use != "read" or _OPENS.search(text)
    with call.context.filtered(lambda verdict: bool(opens) or verdict.rule != "path/outside") as inner:
        for match in _QUOTED.finditer(_SEAM.sub("", text)):  # `client.get('/items')` opens nothing
            _quoted_path(msgspec.structs.replace(call, context=inner), match[1] or match[2] or "", use)


def _quoted_path(call: Call, text: str, use: str) -> None:
    if text.rstrip("/*") == call.judge.policy.home:
        call.path("delete" if use == "delete" else "look", Arg(call.judge.policy.home))
    elif use == "delete":
        _quoted_path(call, text, "write")
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

_STANDARD = Lazy(
    r"-r(?:json|yaml|set|time|date|csv|pp|erb|digest|benchmark|bigdecimal|prime|ostruct|optparse|stringio)"
    r"|-[Mm](?:strict|warnings|utf8|POSIX|JSON::PP|List::Util|Data::Dumper|Time::HiRes)(?:=[\w,]+)?"
)
"""Libraries that come with Ruby and Perl, and only compute."""
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
    task = words[1] if len(words) > 1 and words[0].endswith(("artisan", "console")) else ""
    if re.fullmatch(r"migrate:(?:fresh|reset|refresh)|db:wipe|doctrine:(?:database|schema):drop", task):
        call.deny("destruction", f"'{task}' destroys the data.")
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
    elif re.match(r"-[rMmdSt]", option) and not _STANDARD.fullmatch(option):
        call.deny("hidden-command", f"'{call.name} {option}' loads other code or serves files.")
    elif not _STANDARD.fullmatch(option):
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


# --- inside a sandbox: code may do what a script of the workspace may, but it must not name another machine, a secret or
# Flyball, nor hide what it runs

_OUTLIVES = Lazy(
    r"start_new_session\s*=\s*True|\bsetsid\b|\bdetached:\s*true|DaemonContext|\bos\.daemon|Process\.daemon"
)
_USES_NETWORK = Lazy(
    r"\bsocket\s*\(|create_connection|open_connection|getaddrinfo|gethostby|urlopen|urlretrieve|requests\.(?:get|post|put|patch|delete|head|request|[sS]ession)"
    r"|\bhttpx\.\w+\s*\(|aiohttp\.|http\.client\.|HTTPS?Connection|ftplib|smtplib|telnetlib|imaplib|poplib|nntplib|multiprocessing\.connection|(?:HTTP|SysLog|Datagram|Socket|SMTP)Handler|get_server_certificate|paramiko|xmlrpc|[Ww]eb[Ss]ocket|EventSource|boto3\.|botocore\.|google\.cloud|azure\.storage|slack_sdk|tweepy|twilio|sendgrid|(?<![\w.>])mail\s*\(|(?<![\w.])fetch\s*\(|XMLHttpRequest"
    r"|\bnet\.(?:connect|createConnection|Socket)|\bhttps?\.(?:get|request)|\bdgram\b|\bdns\b.{0,20}(?:resolve|lookup)|\btls\.connect|axios"
    r"|require\s*\(?\s*['\"](?:socket|net|http)|:httpc\b|IO::Socket|LWP::|Net::\w+|HTTP::Tiny|open-uri|URI\.open|\bTCPSocket|\bUDPSocket|fsockopen|stream_socket_client|curl_init|curl_exec"
    r"|install\.packages|install_github|BiocManager|Pkg\.(?:add|clone|develop)|pip\._internal|pip\.main|\bCPAN\b|Gem\.install|Gem::DependencyInstaller"
    r"|nltk\.download|from_pretrained|load_dataset|torch\.hub|snapshot_download"
    r"|Deno\.connect|Bun\.connect|SMTP|\bUDP\b",
)
_NETWORK_NAMES = Lazy(
    r"\b(?:requests|urllib3?\.request|urllib[23]|httplib2?|pycurl|mechanize|treq|grequests|selenium|puppeteer|superagent|node-fetch|undici|needle|got"
    r"|https?\.(?:get|request|client)|net/http|open-uri|[Ff]araday|HTTParty|RestClient|[Ee]xcon|[Tt]yphoeus|curl|wget|boto3?|botocore|openai|anthropic"
    r"|slack_sdk|sentry_sdk|paramiko|fabric|asyncio\.open_connection|websockets?|grpc|openStream|openConnection|HttpClient|WebClient|EventSource|sendBeacon"
    r"|importScripts|fetch|ws|urllib3|install\.packages|Pkg\.add|torch\.hub|load_dataset|from_pretrained|snapshot_download|git\.Repo|clone_from)\b"
    r"|(?:require\s*\(|from|import\s*\(?)\s*['\"](?:node:)?(?:https?|net|dgram|tls|http2)['\"]"
)
_FETCHES = Lazy(
    r"[\w.]*(?:get|post|put|patch|fetch|download|request|connect|send|upload|load|read|open|import|include|require|source|from|pull|clone|copy|navigate|goto)"
    r"[\w.]*\s*[(\s]\s*(?:\w+\s*=\s*)?(?:(?<=copy\()[^(),]*,\s*)?(?:new\s+)?(?:UR[IL]\s*\(\s*)?[rbfu]{0,2}[\"'`](?!(?:file|sqlite|data|node):)\w+://",
    re.IGNORECASE,
)
"""A function that opens an address: the name of the call before the first letter of an URL."""
_STARTS_PROGRAMS = Lazy(
    r"\b(?:os|posix)\.(?:system|popen|exec\w+|spawn\w*|posix_spawn\w*|startfile)|subprocess|\bpty\.|\bpopen\b|child_process|execSync|spawnSync|\bspawn\s*[(\"']"
    r"|System\.cmd|:os\.cmd|Port\.open|os\.execute|\.execute\s*\(\s*\)|getRuntime|ProcessBuilder|\brun\s*\(\s*`|Open3|IO\.popen|Kernel\.(?:exec|system|spawn)|\bqx\b|%x[\W]|shell_exec|passthru|proc_open|Deno\.(?:run|Command)|Bun\.(?:spawn|\$)"
    r"|\.(?:system|popen|exec[lv]p?e?|spawn[lv]p?e?|posix_spawnp?)\s*\(|\bsystem\s*\(?\s*[\"']|(?<![\w.'\"])(?:exec|system)\s*\(?\s*(?:[\"']|q[qx]?\W|[$@])|pexpect|\b(?:import|from)\s+(?:sh|plumbum|invoke|fabric)\b|\bfrom\s+(?:os|subprocess|pty|posix)\s+import|open\s*\(?[^)]*[\"'](?:\||-\|)",
)
_HIDES = Lazy(
    r"(?<![\w.])(?:eval|exec)\s*\(|builtins(?:__)?\.(?:eval|exec|compile|__dict__)|__import__(?!\s*\(\s*['\"][\w.]+['\"]\s*\))|import_module\s*\((?!\s*['\"][\w.]+['\"])"
    r"|getattr\s*\(\s*(?:os|sys|builtins|__builtins__)|__builtins__\s*\[|\bctypes\b|marshal|\beval\s+(?:pack|unpack|\$|decode)|pickle\.loads\s*\(\s*b|vm\.run|(?:new\s+|\b)Function\s*\(\s*['\"`]"
    r"|instance_eval|class_eval|code\.interact|InteractiveConsole|InteractiveInterpreter|\bgetattr\s*\(.*\+|getattr\s*\(\s*__import__|globals\s*\(\s*\)\s*\[|__class__\s*\.\s*__|__subclasses__|process\.binding|process\.mainModule|create_function|call_user_func|require\s*\(\s*(?:\[|['\"`]\w*['\"`]\s*\+)|\[\s*['\"]\w*['\"]\s*\+",
)
_DECODES = Lazy(
    r"b64decode|a85decode|b85decode|unhexlify|fromhex|codecs\.decode|zlib\.decompress|atob\s*\(|Buffer\.from\s*\([^)]*(?:base64|hex)|unpack\s*\(?\s*['\"][mHhu]"
    r"|base64_decode|chr\s*\(\s*\d+\s*\)\s*[.+]|String\.fromCharCode|decode64|\[::-1\]|\.reverse\b|strrev|rot_?13|str_rot13",
)
_RUNS = Lazy(r"\b(?:eval|exec\w*|system|popen|subprocess|spawn\w*|child_process|Function|assert)\b|`")
_SECRET = Lazy(r"\w*(?:SECRET|TOKEN|PASSW|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIAL)\w*")
_SECRET_WORD = Lazy(r"['\"/](?:KEY|TOKEN|SECRET|PASS|PASSWORD|CREDENTIALS?)['\"/]", re.IGNORECASE)
_OTHERS = Lazy(
    r"\b(?:flyball(?:_\w+)?|bwrap|unshare|setns|ptrace|keyring|keychain|secretstorage|getppid|ppid|killpg)\b|\bkill\s*\(\s*-?[01]\b|/proc/\S*(?:environ|mem|root|fd)\b",
    re.IGNORECASE,
)
_SPECIAL_MODE = Lazy(r"\bset(?:e|re|res)?[ug]id\s*\(|chmod\w*\s*\([^)]*\b0?o?[2467][0-7]{3}\b|S_IS[UG]ID")
_HOST = Lazy(
    rf"['\"`]((?:\d{{1,3}}\.){{3}}\d{{1,3}}|(?:[\w-]+\.)+(?:{TOP_LEVEL}))['\"`]",
    re.IGNORECASE,
)
"""A host without a scheme, in quotes."""
_SERVES_ITSELF = Lazy(r"['\"`/@](?:localhost|127\.0\.0\.1|\[?::1\]?|0\.0\.0\.0)|createServer|\.bind\(")
HIDDEN = "hides what it runs"
_STARTERS = word_set("run call check_call check_output Popen system popen getoutput getstatusoutput")
_EVALUATE = _STARTERS | word_set(
    "eval exec compile runctx runeval timeit repeat Timer push runsource runcode interact __import__ import_module getattr"
)


_SEAM = Lazy(r"(['\"`])\s*[+.]\s*\1")
"""Between two pieces of a text that are put together: `'child' + '_process'`."""


def judge_contained(call: Call, text: str) -> None:
    """Code whose whole text is known, as it is written and with its pieces of text put together."""
    joined = _SEAM.sub("", text)
    if joined != text:
        judge_contained(call, joined)
    python = call.name.startswith(("py", "uv"))
    code, data = without_data(text) if python and _is_suspicious(text) else (text, "")
    if data and _CHANGES.search(code):
        call.judge.written.update((match[1], data) for match in _SCRIPT_NAME.finditer(text))
    hosts = (match[1] for match in _HOST.finditer(text) if not HERE.fullmatch(match[1]))
    host = other_machine(text) or next(hosts, None)
    if host and _has_network(code):
        call.deny("network", f"The code connects to another machine ({host}).")
    elif _USES_NETWORK.search(code) and not _SERVES_ITSELF.search(code):
        call.deny("network", "The code uses the network, and the guard cannot tell what it connects to.")
    if _OTHERS.search(text):
        call.deny("guard", "The code reaches for Flyball, the sandbox or other processes.")
    named = _SECRET.search(re.sub(r"['\"]\s*[:=]\s*['\"]", "", text)) or _SECRET_WORD.search(text)
    read = re.search(r"environ|getenv|process\.env|ENV\b", text)
    if (named and read) or "dotenv_values" in text:
        call.deny("secret", "The code reads a secret from the environment.")
    if hidden_in(code) == HIDDEN or (call.name == "php" and re.search(r"\$\w+\s*\(", text)):
        call.deny("hidden-command", "The code hides what it runs.")
    if _SPECIAL_MODE.search(code):
        call.deny("privilege", "The code changes users or sets a special mode on a file.")
    if _OUTLIVES.search(code):
        call.ask("background", "The code starts a process that outlives this command.")
    if code_never_ends(code):
        call.deny("unbounded", "The code runs or grows without a limit.")
    if _STARTS_PROGRAMS.search(code) or (call.name in {"perl", "ruby", "php"} and "`" in text):
        _programs(call, text)


def _has_network(text: str) -> bool:
    return any(pattern.search(text) for pattern in (_FETCHES, _USES_NETWORK, _NETWORK_NAMES))


def _is_suspicious(text: str) -> bool:
    patterns = (_STARTS_PROGRAMS, _HIDES, _DECODES, _SPECIAL_MODE, _OUTLIVES)
    return _has_network(text) or code_never_ends(text) or any(pattern.search(text) for pattern in patterns)


_NAMES_PLACE = Lazy(rf"\w+|[^\s(]*://[^\s(]*|{HERE.pattern}", re.IGNORECASE)


_SCRIPT_NAME = Lazy(r"['\"](?:\./)?([\w./-]+\.(?:sh|bash|py|[cm]?[jt]s|rb|pl|php|go)|Makefile)['\"]")


def without_data(text: str) -> tuple[str, str]:
    """Python code without the strings that are not run, and those: `s.replace("requests.get(a)", b)` edits a file."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text, ""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    run = {id(inner) for call in calls if _name(call.func) in _EVALUATE for inner in ast.walk(call)}
    data: list[str] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in run:
            continue
        if not _NAMES_PLACE.fullmatch(node.value):
            data.append(node.value)
            node.value = ""
    return ast.unparse(tree), "\n".join(data)


def hidden_in(text: str) -> str:
    """What code among the arguments of some program does that a guard must not overlook, or ''."""
    if not re.search(r"[(\s\[]", text):
        return ""
    if _HIDES.search(text) or (_DECODES.search(text) and _RUNS.search(text)):
        return HIDDEN
    if _USES_NETWORK.search(text) and not re.search(r"localhost|127\.0\.0\.1|::1", text):
        return "uses the network"
    return "starts other programs" if _STARTS_PROGRAMS.search(text) else ""


def _programs(call: Call, text: str) -> None:
    """Programs that Python or JavaScript code starts with literal arguments are judged; all others are refused."""
    reader = _script_commands if call.name in _JAVASCRIPT else _literal_commands
    commands = list(reader(text)) if call.name in _JAVASCRIPT or call.name.startswith(("py", "uv")) else []
    if not commands or None in commands:
        call.deny("hidden-command", "The code starts programs that the guard cannot read. Run them directly.")
    for command in commands:
        if isinstance(command, str):
            in_shell(call, command)
        elif command:
            run(call, command)


_JAVASCRIPT = frozenset({"node", "nodejs", "tsx", "ts-node", "bun", "deno eval"})
_CALLS = Lazy(r"\b(?:exec|spawn|fork)\w*\s*\(|\]\s*\(|\b(?:exec|spawn|fork)\w*\s*:")
_LITERAL_CALL = Lazy(
    r"\b(?:exec|spawn)\w*\s*\(\s*(?:'([^'\\]*)'|\"([^\"\\]*)\")\s*(?:,\s*\[((?:\s*(?:'[^'\\]*'|\"[^\"\\]*\")\s*,?)*)\])?\s*[,)]"
)


def _script_commands(text: str) -> Iterator[str | list[Arg] | None]:
    """Each command of `execSync('…')` and `spawnSync('…', […])`; None if a call cannot be read."""
    literal = list(_LITERAL_CALL.finditer(text))
    if len(literal) != len(list(_CALLS.finditer(text))):
        yield None
    for match in literal:
        words = [match[1] or match[2] or ""]
        words += [one or other for one, other in re.findall(r"'([^']*)'|\"([^\"]*)\"", match[3] or "")]
        yield [Arg(word) for word in words] if match[3] else words[0]


def _literal_commands(text: str) -> Iterator[str | list[Arg] | None]:
    """Each command line or argument list of `subprocess.run` and its kin; None for one that is not literal."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield None
        return
    constants = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and len(re.findall(rf"\b{node.targets[0].id}\b", text)) == 2  # set once, used once
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in _STARTERS:
            yield _command(node, constants)
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


def _command(node: ast.Call, constants: dict[str, ast.expr]) -> str | list[Arg] | None:
    try:
        given = node.args[0] if node.args else next(k.value for k in node.keywords if k.arg == "args")
        given = constants.get(given.id, given) if isinstance(given, ast.Name) else given
        if isinstance(given, ast.List):
            words = [_word(item) for item in given.elts]
            return words if words[:1] and words[0].literal else None
        value = ast.literal_eval(given)
    except (ValueError, StopIteration, TypeError):
        return None
    return value if isinstance(value, str) else None


def _word(node: ast.expr) -> Arg:
    """An element of an argument list. What is not literal is one unknown argument."""
    if isinstance(node, ast.Attribute) and node.attr == "executable":
        return Arg("python")
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return Arg(node.value)
    if isinstance(node, ast.Starred):
        raise TypeError
    return Arg(HOLE, unknown=2, quoted=True)
