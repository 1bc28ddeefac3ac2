"""Build tools: targets that publish or install, and variables that name a program."""

from __future__ import annotations

import posixpath
import re
from itertools import takewhile
from typing import TYPE_CHECKING

from flyball.guard import word_set
from flyball.guard.commands import argument_kinds
from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.checks.inline_code import judge_contained
from flyball.guard.commands.checks.node import is_risky
from flyball.guard.commands.checks.wrappers import run
from flyball.reading.terminal import Lazy

if TYPE_CHECKING:
    from flyball.guard.commands.command_judge import Call

_INSTALLS = Lazy(r".*(?:install|uninstall|upgrade).*", re.IGNORECASE)
_PLAIN_VARIABLE = Lazy(
    r"V|VERBOSE|DEBUG|QUIET|Q|CI|NO_COLOR|J|JOBS|BUILD|BUILD_TYPE|MODE|ENV|TARGET|VERSION|TESTS?|T|K|FILTER|SEED|COVERAGE|TAG|NAME|PKG|PACKAGE|MODULE|ARCH|OS|PLATFORM|PROFILE|CONFIG|FILE|CASE"
)
_ARGUMENTS = Lazy(r"(?:\w+_)?(?:ARGS|OPTS|FLAGS|OPTIONS|ADDOPTS)")
_PLAIN_VALUE = Lazy(r"[\w.,:/@%+*=-]*")
_OWN_VALUE = Lazy(
    r"(?!.*://)[\w ./,:@%+=*-]*"
)  # in a sandbox: no other machine, nothing that a shell would run
_SHELLY = Lazy(r"[$`;|&<>()\n]")
_NAMES_PROGRAM = Lazy(r"[./~]|(?:ba|da|z|k)?sh\b|env\b")
_PROGRAMS = Lazy(r"[A-Z]*SHELL|.*FLAGS|CC|CXX|CPP|LD|AR|RM|PYTHON|NODE|NPM|GIT|MAKE\w*|[.]\w+")


def make(call: Call) -> None:
    _written_recipes(call)
    for arg in call.operands:
        name, equals, value = arg.text.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_.][\w.]*[:+?!]?", name):
            _make_variable(call, name.rstrip(":+?!"), value)
        elif arg.unknown == 1 and call.given.has("-j", "--jobs"):
            continue  # `make -j "$(nproc)"`
        elif not arg.literal:
            call.ask("opaque-operand", "The target is unknown until the command runs.")
        elif is_risky(call, arg.text) and not (
            call.judge.policy.contained and call.given.has("-n", "--dry-run", "--just-print")
        ):
            call.ask("publish", f"The target '{arg.text}' looks like it publishes or destroys something.")
        elif _INSTALLS.fullmatch(arg.text):
            call.ask("install-here", f"The target '{arg.text}' looks like it installs something.")


def _written_recipes(call: Call) -> None:
    """A makefile that this very line has written: its recipes run now."""
    given = [arg.text for arg in call.given.values("-f", "--file", "--makefile")]
    for name in given or _MAKEFILES:
        text = call.judge.written.get(posixpath.normpath(name), "").replace("\\\n", " ")
        if text and not call.judge.policy.contained:
            call.ask("inline-code", f"Runs '{name}', which this command line has just written.")
            return
        for recipe in re.findall(r"^\t[@+-]*(.*)", text, re.MULTILINE):
            plain = re.sub(r"\$[({][\w.]+[)}]|\$[@<^?*+]", "x", recipe).replace("$$", "$")
            call.judge.try_as_command([Arg(plain + " ")], call.context)


_MAKEFILES = ("Makefile", "makefile", "GNUmakefile")


def _make_variable(call: Call, name: str, value: str) -> None:
    """Most variables of a makefile become part of a command line."""
    if _ARGUMENTS.fullmatch(name) and re.fullmatch(r"-[vqxs]{1,3}|--(?:verbose|quiet|lf|ff)", value):
        return
    if _PLAIN_VARIABLE.fullmatch(name) and _PLAIN_VALUE.fullmatch(value):
        if value.startswith(("/", "~")) or ".." in value:
            call.ask("outside", f"'{value}' is outside the workspace.")
    elif (
        call.judge.policy.contained
        and _OWN_VALUE.fullmatch(value)
        and not name.endswith("SHELL")
        and " -c" not in value
    ):
        call.judge.check_paths_in([Arg(value)], call.context)
    elif HOLE in value or _SHELLY.search(value) or _NAMES_PROGRAM.match(value) or _PROGRAMS.fullmatch(name):
        call.deny("hidden-command", f"The variable '{name}' can change which commands run.")
    else:
        call.ask("unknown-flag", f"Unknown variable '{name}'.")


def cmake(call: Call) -> None:
    """`cmake -E env X=1 program` runs a program; the other tools of `-E` copy, hash and delete files."""
    words = [arg.text for arg in call.operands]
    if not call.given.has("-E") or not words:
        return
    if words[0] in {"env", "time", "chdir"}:
        start = 2 if words[0] == "chdir" else 1
        rest = [arg for arg in call.operands[start:] if not re.match(r"-|\w+=", arg.text)]
        for arg in call.operands[start:]:
            argument_kinds.judge_argument(call.judge, "env", arg, call.context)
        run(call, rest)
    for arg in call.operands[1:]:
        call.path("write", arg)


def cargo(call: Call) -> None:
    words = [arg.text for arg in call.operands]
    if any(arg.unknown == 2 for arg in call.operands):
        call.ask("opaque-operand", "An argument is unknown until the command runs.")
    handed_on = call.operands[max(call.given.after_dashes, 0) :] if call.given.after_dashes >= 0 else []
    if handed_on and call.name in {"cargo rustc", "cargo rustdoc"}:
        call.ask("unknown-flag", "Compiler options can make it run another program.")
        if any(re.search(r"linker|wrapper|plugin|link-arg", arg.text) for arg in handed_on):
            call.deny("hidden-command", "Makes the compiler run another program.")
    if any(re.match(r"-C|-Z|--config|--codegen", arg.text) for arg in handed_on if "clippy" in call.name):
        call.deny("hidden-command", "Compiler options can make it run another program.")
    if " run" in call.name or call.name.endswith(" r"):
        call.judge.check_paths_in(call.operands, call.context)
    if "nextest" in call.name and words[:1] not in ([], ["run"], ["list"]):
        call.ask("unlisted", f"Unknown command 'cargo nextest {words[0]}'.")


def go_cover(call: Call) -> None:
    if call.given.has("-html") and not call.given.has("-o"):
        call.ask("interactive", "Opens a browser.")


def go(call: Call) -> None:
    if call.name == "go run" and call.operands:
        first = call.operands[0].text
        local = first.startswith(".") or first.endswith(".go")
        if not local:
            call.ask("install", f"Downloads and runs '{first}'.")
        files = list(takewhile(lambda arg: arg.text.endswith(".go"), call.operands))
        for arg in files or call.operands[:1]:
            argument_kinds.judge_argument(call.judge, "config", arg, call.context)
        call.judge.check_paths_in(call.operands[max(len(files), 1) :], call.context)
        call.judge.run_written(call.operands[0], call.context, "go")
        call.judge.check_destinations(first, call.operands[1:], call.context)
    if any(value.text == "mod" for value in call.given.values("-mod")):
        call.ask("install", "May download modules and change go.mod.")


def dotnet(call: Call) -> None:
    for arg in call.operands:
        if _PROPERTY.fullmatch(arg.text):
            continue
        if re.match(r"[-/](?:p|property|target|logger|l|restoreproperty)[:=]", arg.text, re.IGNORECASE):
            call.deny("hidden-command", "A build property can run a command.")
        elif "/" in arg.text or "." in arg.text:
            call.path("read", arg)


_PROPERTY = Lazy(
    r"[-/]p(?:roperty)?:(?:Configuration|Platform|Version|WarningLevel|TreatWarningsAsErrors|CollectCoverage|Optimize|"
    r"DebugType|ContinuousIntegrationBuild|CoverletOutputFormat|Threshold)=[\w.]+",
    re.IGNORECASE,
)


def maven(call: Call) -> None:
    for value in call.given.values("-D"):
        _property(call, value)
    for arg in call.operands:
        if (
            arg.text in {"deploy", "site-deploy", "release:perform", "release:prepare"}
            or "deploy" in arg.text
        ):
            call.ask("publish", f"'{arg.text}' publishes.")
        elif arg.text == "install":
            call.ask("install-here", "'install' copies the build to the local repository.")
        elif arg.text.count(":") > 2 and not arg.text.startswith(
            ("org.apache.maven.plugins:", "org.codehaus.mojo:")
        ):
            call.ask("install", f"'{arg.text}' may be a plugin that the project does not declare.")
        elif ":" in arg.text and arg.text not in _PLUGIN_GOALS:
            call.ask("unlisted", f"Unknown goal '{arg.text}'.")


def _property(call: Call, value: Arg) -> None:
    own = call.judge.policy.contained and re.fullmatch(
        r"exec\.(?:mainClass|args)=[\w.$ -]*|argLine=-[\w:=.+-]*|maven\.repo\.local=[\w./-]*", value.text
    )
    host = argument_kinds.other_machine(value.text)
    if host:
        call.ask("network", f"'-D{value.text}' names another machine ({host}).")
    if re.match(r"artifact=|archetypeGroupId=(?!org\.apache)", value.text):
        call.ask("install", f"Downloads '{value.text.partition('=')[2]}'.")
    if re.match(r"exec\.|maven\.ext|jvm|argLine|maven\.repo|wagon|altDeploy", value.text) and not own:
        call.deny("hidden-command", f"'-D{value.text}' can run or download other code.")
    elif not re.match(
        r"(?:skipTests|skipITs|maven\.test\.skip|test|it\.test|groups|checkstyle\.skip|style\.color|failIfNoTests)\b",
        value.text,
    ):
        call.ask("unknown-flag", f"Unknown property '-D{value.text}'.")


_PLUGIN_GOALS = word_set(
    "spotless:check spotless:apply checkstyle:check dependency:tree surefire:test jacoco:report spotbugs:check pmd:check "
    "compiler:compile help:effective-pom versions:display-dependency-updates"
)


def gradle(call: Call) -> None:
    for arg in call.operands:
        task = arg.text.rsplit(":", 1)[-1]
        if is_risky(call, task) and task != "publishToMavenLocal":
            call.ask("publish", f"The task '{task}' looks like it publishes or destroys something.")
        elif re.match(r"install|bootRun|wrapper|init$|publish", task):
            call.ask("install-here", f"The task '{task}' installs or starts something.")


def cc(call: Call) -> None:
    if call.judge.policy.contained and any(arg.text == "-" for arg in call.operands):
        judge_contained(call, call.context.stdin.text)
    for option in call.given.options:
        text = option.value.text if option.value else ""
        if re.search(r"plugin|^l,.*(?:-dynamic-linker|-rpath)|load", text) and option.name in {"-W", "-f"}:
            call.deny("hidden-command", "Makes the compiler load other code.")
        if option.name in {"-W", "-f"} and re.search(r"[=,](?:/|\.\.|~)", text):
            call.ask("outside", f"'{option.name}{text}' names a file outside the workspace.")
    if any(arg.text.startswith("@") for arg in call.operands):
        call.ask("opaque-operand", "Reads more compiler options from a file.")
