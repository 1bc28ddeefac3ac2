"""EVID-6: commands are judged by where they run. In a working sandbox the checkout, the private home and /tmp are all that
a command can touch, so only what leaves the box is stopped: other machines, packages nobody declared, credentials,
Flyball and the sandbox themselves, and use of disk or processes without bound.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from functools import cache

from flyball.guard import word_set
from flyball.guard.change import Verdict
from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.argument_kinds import HERE, is_loopback, other_machine
from flyball.guard.commands.profiles import Arguments, Option, Profile, load
from flyball.reading.terminal import Lazy

_HOST_OPTION = re.compile(r"--(?:host|hostname|server|url|uri|remote|endpoint|registry|proxy)(?:=(.*))?")
_DATABASES = word_set(
    "psql mysql mariadb redis-cli mongosh mongo createdb pg_dump pg_restore pg_isready mysqldump mysqladmin mongodump mongoimport"
)
_HOSTS = word_set("-h -b --host --uri -H --url")
_ADDRESSES = ("-u", "-d", "--dbname", "--url", "--uri")
_CLIENTS = _DATABASES | word_set(
    "nslookup host dig curl wget http https xh httpie nc ncat netcat telnet ping ping6 wscat websocat grpcurl ab wrk hey siege vegeta curlie kcat kafkacat"
)
_OTHER_WAYS = word_set(
    "--proxy --preproxy --socks4 --socks4a --socks5 --socks5-hostname --connect-to --resolve --config --interface"
    " --unix-socket --abstract-unix-socket --execute --input-file --netrc"
)
_SHORT_WAYS = {
    "wget": ("-e", "-i"),
    "curl": ("-n", "-x", "-K"),
    **dict.fromkeys(("curlie", "nc", "ncat", "netcat"), ("-x", "-K")),
}
_METHODS = word_set("GET POST PUT PATCH DELETE HEAD OPTIONS")
_PLAIN = Lazy(r"(?!.*://)[\w@.,:/=+~%*-]*")
HARMLESS_NAME = Lazy(
    r".*release[_-]?(?:notes|info)|.*push[_-]?notif|.*[:._-](?:check|test|spec|dry-run|preview)$|--(?:no|skip)-|--deploy-url"
    r"|(?:tests?|check|lint)[:_.-]?(?!\w*and)\w+$|(?:build|assemble|bundle|compile|package)[:_.-]?release\w*$",
    re.IGNORECASE,
)
"""A script or an option that builds, tests or describes what such words stand for."""
_LEAVES = Lazy(
    r"(?:.*[.:_-])?(?:deploy|publish|release|upload|tunnel|push|login|logout|drop|wipe|nuke|destroy)(?:[:_-].*)?"
    r"|(?:migrate|db):(?:reset|drop|fresh|wipe)|--install-extension|--force-reset|netns",
)
_LOCAL_PACKAGE = Lazy(r"\.{1,2}(?:/.*|\[.*)?|[/~].*|file:.*|[\w./*-]+\.(?:whl|tgz|tar\.gz|nupkg|gem)")
_TAKES_VALUE = word_set(
    "-r -c -e -w -F -C -p --requirement --constraint --editable --group --extra --only-group --path --prefix --cache-dir --omit"
    " --include --workspace --filter --python --upgrade-strategy --only-binary --no-binary --cwd --dir --deployment --jobs -j"
    " --log-level --loglevel --only --with --without --target-dir --root --features --profile -o --package --config-settings --config-setting"
)
_SWITCHES = dict.fromkeys(("npm", "pnpm", "yarn", "bun"), word_set("-r -c -e -p -o -j")) | {
    "pnpm": word_set("-r -c -e -p -o -j -w")
}
"""What takes a value elsewhere, but not in these."""
_MANIFEST = Lazy(
    r"(?:^|/)(?:[\w.-]*requirements[\w.-]*\.(?:txt|in)|package(?:-lock)?\.json|pyproject\.toml|setup\.(?:py|cfg)|Pipfile|Cargo\.toml|go\.mod"
    r"|Gemfile|composer\.json|environment\.ya?ml|constraints\.txt)$"
)
_FILES = word_set("-r -c -e --requirement --constraint --editable --path --root")


@cache
def _words(which: str) -> frozenset[str]:
    """A list of names in sandbox.toml."""
    return frozenset(load("sandbox")[which].split())


@cache
def _listed_calls(which: str) -> frozenset[str]:
    """`"git pr: list view"` stands for `git pr list` and `git pr view`; `"virtualenv"` for all its calls."""
    rows = [row.partition(": ") for row in load("sandbox")[which]]
    return frozenset(
        f"{name} {word}".rstrip()
        for names, _, words in rows
        for name in names.split(", ")
        for word in words.split() or [""]
    )


def remaining(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts that the sandbox does not answer for."""
    return [verdict for verdict in verdicts if verdict.rule not in _words("rules")]


def is_installed(name: str) -> bool:
    """Is it a tool that JavaScript projects declare, so that `npx` need not download it?"""
    return name in _words("installed")


def stays_here(profile: Profile, args: list[Arg], given: Arguments, writes: Iterable[str] = ()) -> bool:
    """Does this call need no approval in a sandbox, although it would without one? `writes`: files that the line writes."""
    words = [arg.text for arg in args]
    if profile.name in _words("wrappers"):
        return True
    if profile.name in _DRY_RUNS and "--dry-run" in words:
        return away(profile.name, args) is None
    if profile.verdict != "ask":
        return False
    if profile.name in {"kill", "pkill", "killall"}:
        return _stops_own(profile.name, args)
    if profile.name in _CLIENTS:
        return _calls_itself(profile.name, given)
    if profile.name in _FROM_PATH:
        source = [arg.text for arg in given.operands[_FROM_PATH[profile.name] :]][:1]
        return any(
            re.match(r"\.{0,2}/|~/|\.{1,2}$|file://", text) and not other_machine(text) for text in source
        )
    for called, packages in ((profile.name, args), (" ".join([profile.name, *words[:1]]), args[1:])):
        if called in _listed_calls("installs"):
            given_files = {posixpath.normpath(arg.text) for arg in packages}
            rewritten = [name for name in writes if name in given_files or _MANIFEST.search(name)]
            return undeclared(packages, profile.name) is None and not rewritten
    if not _is_listed(profile.name, _without_files(words)):
        return False
    word = leaving_word(args)
    return away(profile.name, args) is None and (word is None or word == profile.name.partition(" ")[2])


_FROM_PATH = {"git clone": 0, "git submodule add": 0, "git remote add": 1}
"""Which operand says where from: a folder of this machine may be cloned."""
_DRY_RUNS = frozenset({"cargo publish", "npm publish", "pnpm publish", "poetry publish"})


def leaving_word(args: Iterable[Arg]) -> str | None:
    """An argument that says it publishes, deploys or destroys. `db push` only changes a database on this machine."""
    before = ""
    given = list(args)
    if {"--help", "--version", "--dry-run"} & {arg.text for arg in given}:
        return None
    for arg in given:
        pair = f"{before} {arg.text}"
        destroys = _DESTROYS.fullmatch(pair) or _LEAVES.fullmatch(arg.text)
        if destroys and not _STAYS.fullmatch(pair) and not HARMLESS_NAME.match(arg.text):
            return arg.text
        before = arg.text
    return None


_SCHEMAS = "db|database|migrate|migration|migrations|schema|drizzle-kit"
_DESTROYS = Lazy(rf"(?:{_SCHEMAS}) reset|downgrade base|(?:addr|address|a|link|route) (?:set|add|del|flush)")
_STAYS = Lazy(
    rf"(?:{_SCHEMAS}) push|(?:check|install|sync|--dev|-d) --deploy|\S* --release(?:=.*)?|-\S+ release"
)
"""A database of this machine, Django's look at its settings, and how something is built."""


def secret_call(args: list[Arg]) -> str | None:
    """A subcommand that shows secrets: `rails credentials:show`, `dotnet user-secrets list`."""
    return next((arg.text for arg in args[:2] if _SECRET_CALL.fullmatch(arg.text)), None)


_SECRET_CALL = Lazy(r"(?:user-)?secrets?(?::\w+)?|credentials?(?::\w+)?|print-access-token|auth-token")


def outlives(args: list[Arg]) -> str | None:
    """An option that makes a server run on after its command: `--daemonize yes`, `php-fpm -D`."""
    words = [arg.text for arg in args]
    name = words[0].rpartition("/")[2]
    if name in _words("not_daemons") or words[-1] in {"--help", "--version"}:
        return None
    listed = _listed_calls("daemons")
    for word, value in zip(words[1:], [*words[2:], ""], strict=False):
        if (_DAEMON.fullmatch(word) and value not in {"no", "off", "false"}) or f"{name} {word}" in listed:
            return word
    return None


_DAEMON = Lazy(r"--?daemon(?:ize|ized)?(?:=(?:yes|on|true|1))?|--detach(?:ed)?|--fork|--background")


def installed_package(args: list[Arg]) -> str | None:
    """The package that an unknown tool is told to install: `tool install x`, `tool plugin install x`."""
    words = [arg.text for arg in args[:3]]
    given = [arg.text for arg in args if _DEPENDENCY.match(arg.text)]
    if given:
        return given[0]
    if words[:2] in (["plugin", "add"], ["plugins", "add"]):
        return undeclared(args[2:])
    return undeclared(args[words.index("install") + 1 :]) if "install" in words[:2] else None


_DEPENDENCY = Lazy(r"-Sdeps|--dep(?:endency)?(?:=|$)")


def _stops_own(name: str, args: list[Arg]) -> bool:
    """Are these jobs of the line or processes that the agent has started? Not the parent, nor whatever is called node."""
    targets = [
        arg for at, arg in enumerate(args) if arg.text[:1] != "-" and not (at == 1 and args[0].text == "-s")
    ]
    if name != "kill":
        return bool(targets) and all(arg.literal and _OWN_PROCESS.fullmatch(arg.text) for arg in targets)
    return all(
        re.fullmatch(r"%[\w%+-]*|[2-9]|[1-9]\d+", arg.text) or arg.from_output or _given_before(arg)
        for arg in targets
    )


def _given_before(arg: Arg) -> bool:
    """A process id in a variable that the line does not set: `$PPID` and its kin are refused by their names."""
    return arg.text == HOLE and not arg.number


_OWN_PROCESS = Lazy(
    r"(?!(?:node|nodejs|python[\d.]*|bash|sh|zsh|ssh|tmux|systemd|init|claude|codex|gemini|npm|java|ruby)$)[\w./: -]{3,}"
)


def _calls_itself(name: str, given: Arguments) -> bool:
    """Does a network tool only connect to this machine?"""
    texts = [arg.text for arg in (*given.operands, *given.values("--url")) if arg.text[:1] != "-"]
    texts = texts[:1] if name == "grpcurl" else texts  # the rest are services and methods
    if name not in _DATABASES and (given.has(*_OTHER_WAYS) or given.has(*_SHORT_WAYS.get(name, ()))):
        return False
    if name not in {"curl", "wget"} and away(name, given.operands):  # theirs are all addresses
        return False
    if name in _DATABASES:
        addresses = [*given.operands, *given.values(*_ADDRESSES)]
        hosts = re.findall(r"\bhost(?:addr)?=([^\s']+)", " ".join(arg.text for arg in addresses))
        if away(name, addresses) or not all(
            HERE.fullmatch(host) or re.fullmatch(r"[\w-]+|/.*", host) for host in hosts
        ):
            return False
        values = [option.value for option in given.options if option.value and option.name in _HOSTS]
        return all(HERE.fullmatch(value.text) or re.fullmatch(r"[\w-]+|/.*", value.text) for value in values)
    addressed = [text for text in texts if not text.isdecimal() and text not in _METHODS]
    if name in {"http", "https", "xh"}:
        addressed = [
            re.sub(r"^:", "localhost:", text) for text in addressed[:1]
        ]  # the rest are headers and fields
    return bool(addressed) and all(is_loopback(text) for text in addressed)


def loads_own_code(name: str, option: Option) -> bool:
    """An option that loads code or settings of the checkout: any script of the workspace may run there anyway."""
    listed = f"{name} {option.name}" in _listed_calls("loaders")
    return listed and _PLAIN.fullmatch(option.value.text if option.value else "") is not None


def _without_files(words: list[str]) -> list[str]:
    """`docker compose -f file ps` is `docker compose ps`."""
    while len(words) > 2 and words[0] in _BEFORE_CALL:
        words = words[2:]
    return words


_BEFORE_CALL = word_set("-f --file -p --project-name --profile --project-directory")


def _is_listed(name: str, words: list[str]) -> bool:
    listed = _listed_calls("reads") | _listed_calls("local")
    if name in listed:
        return True
    return any(" ".join([name, *words[:count]]) in listed for count in (1, 2)) or any(
        f"{name} {word}" in listed for word in words if word.startswith("-")
    )


def is_strict(name: str) -> bool:
    """A tool whose unknown subcommands may be aliases or calls to a remote service, not only plugins of the project."""
    return name.partition(" ")[0] in _words("strict")


def away(name: str, args: Iterable[Arg]) -> str | None:
    """What the arguments name on another machine, if anything."""
    before = ""
    for arg in args:
        host = _given_host(name, before, arg.text)
        if host and not is_loopback(host) and not HERE.fullmatch(host.partition(":")[0]):
            return host.replace(HOLE, "?")
        other = other_machine(arg.text)
        if other:
            return other
        before = arg.text
    return None


def _given_host(name: str, before: str, text: str) -> str:
    """The value of `--host`, in one word or two. A name without a dot is a neighbour in a test set-up."""
    attached = _HOST_OPTION.fullmatch(text)
    follows = _HOST_OPTION.fullmatch(before) or (before == "-h" and name in _DATABASES)
    value = attached[1] if attached and attached[1] else text if follows else ""
    if value.startswith(("sqlite:", "file:", "jdbc:h2:", "jdbc:sqlite:")):
        return ""
    return value if value[:1] != "-" and re.search(rf"[.:{HOLE}]", value) else ""


def undeclared(args: Iterable[Arg], name: str = "") -> str | None:
    """The first package that an install names itself, instead of leaving it to a manifest or lock file."""
    before = ""
    takes_value = _TAKES_VALUE - _SWITCHES.get(name.partition(" ")[0], frozenset())
    for arg in args:
        text = arg.text
        if HOLE in text or arg.pipe or other_machine(text) or "git+" in text:
            return text.replace(HOLE, "?")
        if before in _FILES and not _is_file(text):
            return text
        if text[:1] != "-" and before not in takes_value and not _LOCAL_PACKAGE.fullmatch(text):
            return text
        before = text
    return None


def _is_file(text: str) -> bool:
    """A file of the checkout: others may have been written to name a package."""
    return re.fullmatch(r"(?![/~-]|\.\./)[\w./~\[\],+-]+", text) is not None
