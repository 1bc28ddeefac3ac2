"""Python: scripts, modules, inline code; pytest's plugins; packages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from flyball.guard import word_set
from flyball.guard.commands import argument_kinds
from flyball.guard.commands.args import Arg
from flyball.guard.commands.checks.inline_code import from_input, inline, run_script
from flyball.guard.commands.checks.wrappers import run
from flyball.guard.commands.profiles import profile_of
from flyball.reading.terminal import Lazy

if TYPE_CHECKING:
    from flyball.guard.commands.command_judge import Call

_SWITCHES = Lazy(r"-[BbdEIOqsSuvxPVh?]+|--version|--help")
_X_VALUES = Lazy(
    r"dev|utf8(?:=[01])?|faulthandler|importtime|tracemalloc(?:=\d+)?|no_debug_ranges|showrefcount"
)
_ATTACHED = Lazy(r"-W(?:error|ignore|default|always|once|module)|-X(?:dev|utf8|faulthandler|importtime)")
_COMMANDS = word_set(
    "pytest mypy black ruff flake8 pylint isort coverage tox nox pip bandit pyflakes pycodestyle pydocstyle autopep8 yapf "
    "vulture mkdocs pyright basedpyright twine codespell pre_commit virtualenv keyring uv poetry build-x pipx"
)
_PLUGINS = Lazy(
    r"no:[\w.-]+|xdist|cov|randomly|asyncio|mock|timeout|benchmark|django|pytest_cov|pytest_mock|pytest_asyncio|pytester"
)
_HARMLESS_SETTING = Lazy(
    r"(?:log_\w+|console_output_style|junit_\w+|xfail_strict|faulthandler_timeout|asyncio_mode|verbosity_\w+|timeout)=[\w .%:()-]*"
)
_own_setting = Lazy(r"\w+=[\w ./,:%()*-]*")  # in a sandbox: settings and plugins of the checkout
_own_plugin = Lazy(r"(?:no:)?[\w.-]+")
_READERS = word_set("json.tool py_compile compileall tabnanny ast dis tokenize pyclbr inspect")
_CONNECTS = word_set(
    "http.client urllib.request xmlrpc.server easy_install webbrowser telnetlib ftplib smtplib poplib imaplib nntplib smtpd httpx httpie requests wget youtube_dl yt_dlp gdown"
    " awscli gsutil huggingface_hub antigravity turtledemo idlelib xmlrpc.client asyncssh paramiko scapy pexpect pty"
)
_INFO = word_set("this platform sysconfig site calendar locale")


def python(call: Call) -> None:
    args = list(call.operands)
    while args and args[0].text.startswith("-") and args[0].text != "-":
        option = args.pop(0).text
        if option.startswith("-c") or re.fullmatch(r"-[BbdEiIOqsSuvxP]+c", option):
            inline(call, args[0] if option[-1] == "c" and args else Arg(option[2:]))
            return
        if option.startswith("-m") or re.fullmatch(r"-[BbdEIOqsSuvxP]+m", option):
            rest = args if option[-1] == "m" and args else [Arg(option[2:]), *args]
            module(call, rest[0], rest[1:])
            return
        if not _switch(call, option, args):
            return
    if args and args[0].text != "-":
        _script(call, args[0], args[1:])
    else:
        from_input(call)


def _switch(call: Call, option: str, args: list[Arg]) -> bool:
    """Can a script follow this option?"""
    if option in {"-V", "-VV", "--version", "-h", "--help"}:
        return False
    if (option == "-X" and args and _X_VALUES.fullmatch(args[0].text)) or (
        option == "-W" and args and re.fullmatch(r"error|ignore|default|always|once|module", args[0].text)
    ):
        args.pop(0)
    elif not _SWITCHES.fullmatch(option) and not _ATTACHED.fullmatch(option):
        call.ask("unknown-flag", f"Unknown option 'python {option}'.")
    return True


def _script(call: Call, script: Arg, rest: list[Arg]) -> None:
    run_script(call, script, rest)
    words = {arg.text for arg in rest}
    if script.text.endswith("setup.py") and words & {
        "upload",
        "register",
        "easy_install",
    }:
        call.ask("publish", "Installs or publishes the package.")
    elif script.text.endswith("setup.py") and words & {"install", "develop"}:
        call.ask("install-here", "Installs the package.")
    if script.text.endswith("manage.py") and words & {
        "dbshell",
        "shell",
        "migrate",
        "runserver",
    }:
        call.ask("work-loss", "Changes the database, starts a server or an interactive shell.")
    if script.text.endswith("manage.py") and words & {"flush", "reset_db", "sqlflush", "drop_test_database"}:
        call.ask("database-loss", "Empties the database.")


def module(call: Call, name: Arg, rest: list[Arg]) -> None:
    text = name.text
    if [arg.text for arg in rest] == ["--help"] and text in _STANDARD:
        return
    if not name.literal:
        call.deny("opaque-command", "The module is unknown until the command runs.")
    elif text == "flyball" or text.startswith("flyball."):
        call.deny("guard", "Runs Flyball's own command line.")
    elif text in _COMMANDS and profile_of(text.replace("_", "-")):
        run(call, [Arg(text.replace("_", "-")), *rest])
    elif text in _STANDARD:
        _STANDARD[text](call, rest)
    elif text in _READERS:
        _read_only(call, rest)
    elif text not in _INFO:
        call.judge.check_paths_in(rest, call.context)
        call.judge.check_destinations(text, rest, call.context)
        downloads = [arg.text for arg in rest[:1]] == ["download"]  # `-m spacy download en`
        rule = "network" if text in _CONNECTS or downloads else "unlisted"
        call.ask(rule, f"Unknown module '{text}'.")


def _read_only(call: Call, rest: list[Arg]) -> None:
    files = [arg for arg in rest if not arg.text.startswith("-")]
    for at, arg in enumerate(files):
        call.path("read" if at == 0 else "write", arg)


def _unittest(call: Call, rest: list[Arg]) -> None:
    for at, arg in enumerate(rest):
        if re.search(r"[/.]", arg.text) and (at == 0 or rest[at - 1].text not in {"-k", "-p"}):
            argument_kinds.judge_argument(call.judge, "testid", Arg(arg.text, arg.unknown), call.context)
        elif arg.text.startswith("-") and not re.fullmatch(r"-[vqfcbksptm]+|--\w[\w-]*|-k.*", arg.text):
            call.ask("unknown-flag", f"Unknown option 'unittest {arg.text}'.")


def _venv(call: Call, rest: list[Arg]) -> None:
    for arg in rest:
        if not arg.text.startswith("-"):
            call.path("create", arg)
        elif arg.text not in {"--clear", "--without-pip", "--upgrade", "--system-site-packages", "--copies"}:
            call.ask("unknown-flag", f"Unknown option 'venv {arg.text}'.")


def _profiled(call: Call, rest: list[Arg]) -> None:
    """`-m cProfile [-o file] [-s key] script …`."""
    while rest and rest[0].text.startswith("-"):
        option, rest = rest[0].text, rest[1:]
        if option == "-m" and rest:
            module(call, rest[0], rest[1:])
            return
        if option in {"-o", "-s"} and rest:
            if option == "-o":
                call.path("write", rest[0])
            rest = rest[1:]
    if rest:
        run_script(call, rest[0], rest[1:])


def _doctest(call: Call, rest: list[Arg]) -> None:
    for arg in rest:
        if not arg.text.startswith("-"):
            argument_kinds.judge_argument(call.judge, "script", arg, call.context)


def _serves(call: Call, rest: list[Arg]) -> None:
    call.judge.check_paths_in(rest, call.context)
    call.ask("serves", "Serves files to the network.")


def _timed(call: Call, rest: list[Arg]) -> None:
    inline(call, Arg("\n".join(arg.text for arg in rest)))


def _asks(rule: str, why: str) -> Callable[[Call, list[Arg]], None]:
    def check(call: Call, rest: list[Arg]) -> None:
        call.judge.check_paths_in(rest, call.context)
        call.ask(rule, why)

    return check


_STANDARD = {
    "unittest": _unittest,
    "venv": _venv,
    "cProfile": _profiled,
    "profile": _profiled,
    "trace": _asks("unlisted", "Runs other code."),
    "doctest": _doctest,
    "http.server": _serves,
    "SimpleHTTPServer": _serves,
    "timeit": _timed,
    "pdb": _asks("interactive", "Starts an interactive session."),
    "code": _asks("interactive", "Starts an interactive session."),
    "ensurepip": _asks("install", "Installs packages."),
    "build": _asks("install-here", "May download what the build needs."),
}


# --- pytest, coverage, packages


def pytest(call: Call) -> None:
    for value in call.given.values("-p"):
        if not (_own_plugin if call.judge.policy.contained else _PLUGINS).fullmatch(value.text):
            call.deny("hidden-command", f"Loads the plugin '{value.text}' into pytest.")
    for value in call.given.values("-o", "--override-ini"):
        if not (_own_setting if call.judge.policy.contained else _HARMLESS_SETTING).fullmatch(value.text):
            call.deny("hidden-command", f"The setting '{value.text}' can change what pytest runs.")
    for value in call.given.values("--cov-report"):
        if ":" in value.text:
            call.path("write", Arg(value.text.split(":", 1)[1]))


def tox(call: Call) -> None:
    """`tox -e deploy` publishes, `tox exec -- command` runs a command; other arguments after `--` go to the tests."""
    sessions = call.given.values("-e", "--env", "-s", "--session", "--sessions", "-t", "--tags")
    if any(re.search(r"deploy|publish|release|upload", value.text) for value in sessions):
        call.ask("publish", "The environment looks like it publishes or deploys.")
    dashes = max(call.given.after_dashes, 0)
    if call.operands[:1] in ([Arg("exec")], [Arg("e")]) and call.given.after_dashes > 0:
        run(call, call.operands[dashes:])
        return
    for arg in call.operands:
        if not arg.text.startswith("-"):
            argument_kinds.judge_argument(call.judge, "testid", arg, call.context)
        elif arg.text.startswith("--pastebin"):
            call.deny("exfiltration", "Uploads the test results.")


def coverage_run(call: Call) -> None:
    modules = call.given.values("-m")
    if modules:
        module(call, modules[0], call.operands)
    elif call.operands:
        run_script(call, call.operands[0], call.operands[1:])


def runner(call: Call) -> None:
    """`pipenv run pytest`, `bundle exec rspec`, `hatch run test`: a known command, or a script of the project."""
    if call.operands and profile_of(call.operands[0].text) is None and "bundle" not in call.name:
        call.judge.check_paths_in(call.operands[1:], call.context)
        if re.search(r"deploy|publish|release|install|upload", call.operands[0].text):
            call.ask("publish", "The script looks like it publishes or deploys.")
        return
    run(call, call.operands)
