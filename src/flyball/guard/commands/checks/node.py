"""Node: scripts and inline code, package scripts, bundlers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flyball.guard import word_set
from flyball.guard.commands import argument_kinds
from flyball.guard.commands.args import Arg
from flyball.guard.commands.checks.inline_code import from_input, inline, run_script
from flyball.guard.commands.checks.wrappers import in_shell, run
from flyball.guard.commands.containment import HARMLESS_NAME, is_installed
from flyball.guard.commands.profiles import profile_of
from flyball.reading.terminal import Lazy

if TYPE_CHECKING:
    from flyball.guard.commands.command_judge import Call

_RISKY = Lazy(
    r".*(?:deploy|publish|release|upload|destroy|postinstall|eject|push|nuke|wipe|drop|db:reset).*|prod(?:uction)?",
    re.IGNORECASE,
)
_FOR_PRODUCTION = Lazy(r".*prod(?:uction)?", re.IGNORECASE)
_MOVES = Lazy(
    r"--(?:cwd|prefix|dir|script-shell|node-options|userconfig|globalconfig|use-yarnrc|config)\b|-C$"
)
_HARMLESS = Lazy(
    r"--test(?:-[\w-]+(?:=.*)?)?|--check|-c|--no-warnings|--trace-[\w-]+|--max-old-space-size=\d+|--experimental-[\w-]+|--enable-source-maps"
    r"|--unhandled-rejections=\w+|--throw-deprecation|--no-deprecation|--stack-trace-limit=\d+|--expose-gc|--stack-size=\d+"
)


def is_risky(call: Call, name: str) -> bool:
    """Does the name of a script or target say that it publishes or destroys? In a sandbox `build:prod` only builds."""
    if name in {"prepublish", "prepublishOnly"}:
        return not call.judge.policy.contained
    if call.judge.policy.contained and HARMLESS_NAME.match(name):
        return False
    return bool(
        _RISKY.fullmatch(name) or (not call.judge.policy.contained and _FOR_PRODUCTION.fullmatch(name))
    )


def node(call: Call) -> None:
    args = list(call.operands)
    if [arg.text for arg in args] in (["-v"], ["--version"], ["-h"], ["--help"]):
        return
    while args and args[0].text.startswith("-") and args[0].text != "-":
        option = args.pop(0).text
        if re.fullmatch(r"-e|-p|-pe|--eval|--print|--eval=.*|--print=.*", option):
            inline(call, args[0] if args and "=" not in option else Arg(option))
            return
        if re.match(
            r"-r|--require|--import|--loader|--experimental-loader|--env-file|--openssl|--inspect|--experimental-config",
            option,
        ):
            _loader(call, option, args)
        elif option.startswith("--test-reporter"):
            _reporter(call, option, args)
        elif not _HARMLESS.fullmatch(option):
            call.ask("unknown-flag", f"Unknown option 'node {option}'.")
    if call.name == "tsx" and args and args[0].text == "watch":
        call.ask("serves", "Keeps running until it is stopped.")
    elif args and args[0].text != "-":
        run_script(call, args[0], args[1:])
    elif not any(arg.text.startswith("--test") for arg in call.operands):
        from_input(call)


def _loader(call: Call, option: str, args: list[Arg]) -> None:
    """`-r dotenv/config`, `--import=tsx`: in a sandbox a module of the project may be loaded."""
    if not call.judge.policy.contained or option.startswith("--openssl"):
        call.deny("hidden-command", f"'node {option}' loads other code or settings.")
        return
    name, equals, value = option.partition("=")
    if not option.startswith("--inspect"):
        module = (
            Arg(value)
            if equals
            else Arg(option[2:])
            if name[:2] == "-r" and name[2:]
            else args.pop(0)
            if args
            else Arg("")
        )
        if re.match(r"data:|https?:", module.text):
            call.deny("remote-code", "Loads code that is not in a file of the workspace.")
        argument_kinds.judge_argument(call.judge, "loaded", module, call.context)


def _reporter(call: Call, option: str, args: list[Arg]) -> None:
    """`--test-reporter=spec`, `--test-reporter-destination=file`, each also as two words."""
    name, equals, value = option.partition("=")
    arg = Arg(value) if equals else args.pop(0) if args else Arg("")
    argument_kinds.judge_argument(
        call.judge, "write" if name.endswith("-destination") else "reporter", arg, call.context
    )


# --- package scripts


def script_run(call: Call) -> None:
    """`npm run build -- args`: a script of the project, unless its name suggests that it publishes."""
    names = [arg for arg in call.operands[:1] if " test" not in call.name]
    for name in names:
        if not name.literal:
            call.ask("opaque-operand", "The script is unknown until the command runs.")
        elif name.text == "env":
            call.deny("secret", "Prints all environment variables.")
        elif is_risky(call, name.text):
            call.ask("publish", f"The script '{name.text}' looks like it publishes or deploys.")
        if re.match(r"\w+://|/|~|\.\.", name.text) and not _PATTERN.fullmatch(name.text):
            argument_kinds.judge_argument(call.judge, "script", name, call.context)
    rest = call.operands[len(names) :]
    call.judge.check_paths_in(rest, call.context)
    call.judge.check_destinations(call.name, rest, call.context)
    if any(_MOVES.match(arg.text) for arg in rest):
        call.deny("foreign-code", "Makes the runner use scripts or a shell from elsewhere.")
    if any(arg.unknown == 2 for arg in rest):
        call.ask("opaque-operand", "An argument is unknown until the command runs.")


_PATTERN = Lazy(r"/\^?[\w:.*|()-]+\$?/")
"""`pnpm run "/^test:/"` runs every script of a matching name."""


def script_name(call: Call) -> None:
    """`yarn lint`, `pnpm eslint src`: a known tool, or a script of the project."""
    if call.operands and profile_of(call.operands[0].text):
        run(call, call.operands)
    else:
        script_run(call)


def yarn_workspace(call: Call) -> None:
    run(call, [Arg("yarn"), *call.operands[1:]] if len(call.operands) > 1 else [])


def npx(call: Call) -> None:
    """Without `--no-install` a package may be fetched and run. In a sandbox the tools of everyday count as installed."""
    tool = call.operands[0].text if call.operands else ""
    installed = call.judge.policy.contained and is_installed(tool)
    if not installed and not call.given.has("--no-install", "--no", "--offline"):
        call.context.report.network += 1
        call.ask("install", "May download a package and run it.")
    if profile_of(tool) or installed:
        run(call, [Arg(tool.rpartition("/")[2]), *call.operands[1:]])
    else:
        call.judge.check_paths_in(call.operands, call.context)
        call.ask("unlisted", "Runs an unknown program.")


def pkg_set(call: Call) -> None:
    """`npm pkg set scripts.lint="eslint src"`: the command of a script that may run next."""
    for arg in call.operands:
        name, _, command = arg.text.partition("=")
        if name.startswith("scripts.") and arg.literal:
            in_shell(call, command)


_NPM_PLAIN = word_set("--no --offline --workspace -w --workspaces --if-present --include-workspace-root")


def npm_exec(call: Call) -> None:
    """`npm exec eslint` is `npx eslint`."""
    tool = call.operands[0].text if call.operands else ""
    options = {option.name for option in call.given.options}
    installed = call.judge.policy.contained and is_installed(tool) and options <= _NPM_PLAIN
    if installed:
        run(call, call.operands)
    else:
        call.judge.check_unknown_arguments(call.operands, call.context)
        call.context.report.network += 1
        call.ask("install", "May download a package and run it.")


def npm_version(call: Call) -> None:
    if call.name.endswith(" version") and call.operands and not call.given.has("--no-git-tag-version"):
        call.ask("publish", "Creates a release commit and a tag.")


def deno_eval(call: Call) -> None:
    for arg in call.operands[:1]:
        inline(call, arg)


def wrapper_maybe(call: Call) -> None:
    """`nyc mocha`, `c8 node test.js` run another command."""
    if call.name in {"c8", "nyc"}:
        run(call, call.operands)


def bundler(call: Call) -> None:
    word = call.operands[0].text if call.operands else ""
    serves = word in {"dev", "serve", "start", "preview", "watch"} or (
        call.name in {"vite", "next"} and not word
    )
    if serves:
        call.ask("serves", "Starts a server.")
    targets = [*call.operands, *call.given.values("-t", "--target", "--targets")]
    if any(is_risky(call, arg.text) for arg in targets):
        call.ask("publish", f"The task for '{call.name}' looks like it publishes or deploys.")
    if call.name == "turbo" and word in {"login", "logout", "link", "unlink", "daemon", "telemetry", "gen"}:
        call.ask("network", f"'turbo {word}' contacts a remote service.")
    if call.name == "nx" and word in {"run-commands", "exec", "generate", "g", "migrate", "add"}:
        call.ask("unlisted", f"'nx {word}' runs other commands or changes other files.")
