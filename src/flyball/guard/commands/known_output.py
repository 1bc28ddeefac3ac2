"""What a command prints, as far as its text says: a number, a date or a hash, which is never a path; or names of files."""

from __future__ import annotations

import posixpath
import re

from flyball.guard import word_set
from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.command_policy import CommandPolicy
from flyball.guard.commands.context import Context, Stream
from flyball.guard.commands.expand import Host, expand_one, expand_words
from flyball.guard.commands.places import UNKNOWN, glob_place, place_of
from flyball.guard.commands.profiles import parse_arguments, profile_of
from flyball.guard.commands.syntax_tree import Redirect, Script, Simple, Sub
from flyball.guard.commands.words import unescaped
from flyball.reading.terminal import Lazy

_FACTS = word_set("nproc whoami uname arch id hostname")
_FLAG = Lazy(r"-{1,2}[a-z][a-z-]*", re.IGNORECASE)
_NUMBER = Lazy(r"-?\d+(?:\.\d+)?")
_SUM = Lazy(r"\d+|[-+*/%]")
_PROGRAM = Lazy(r"\w[\w.+-]*")
_FILE = Lazy(r"[\w./][\w./-]*")
_FORMAT = Lazy(r"\+(?:%[-\w:]|\w)(?:%[-_0^#]?:*\w|[\w:,/.+-])*")
_DIRECTIVE = Lazy(r"%[-_0^#]?:*[a-mo-su-zA-Y]")
_DATE_FLAG = Lazy(r"-u|-R|-I\w*|--utc|--universal|--rfc-\w+(?:=\w+)?|--iso-8601(?:=\w+)?|--date=.*")
_REVISION = Lazy(r"[\w@][\w./@{}~^-]*")
_SURE = Lazy(  # `git rev-parse` prints an unknown revision unchanged, and that could be any file name
    r"(?:HEAD|FETCH_HEAD|ORIG_HEAD|MERGE_HEAD|@|@\{(?:u|upstream|push)\}|[0-9a-f]{7,40}|main|master|develop|trunk"
    r"|(?:origin|upstream)/[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*)(?:[~^]\d*|\^\{(?:commit|tree)\})*"
)
_GIT = {
    "rev-parse": Lazy(r"--(?:short|verify|quiet|abbrev-ref|is-inside-work-tree|show-prefix)(?:=\d+)?|-q"),
    "merge-base": Lazy(r"--(?:fork-point|octopus)"),
    "rev-list": Lazy(
        r"--(?:count|max-count=\d+|all|no-merges|merges|first-parent|reverse|max-parents=0)|-n|-\d+|-n\d+"
    ),
    "describe": Lazy(r"--(?:tags|always|long|all|abbrev=\d+|exact-match|dirty|contains)"),
    "branch": Lazy(r"--show-current"),
    "config": Lazy(r"--get|user\.(?:name|email)"),
    "symbolic-ref": Lazy(r"--short|-q|--quiet"),
    "write-tree": Lazy(r"(?!)"),
    "log": Lazy(
        r"-\d+|-n|-n\d+|--max-count=\d+|--(?:format|pretty)=(?:format:)?%(?:H|h|T|t|ct|at|cs|cI)|--no-merges|--merges|--reverse"
    ),
}


def is_harmless(texts: list[str]) -> bool:
    """Is the output of this command harmless wherever it is used?"""
    name, rest = texts[0], texts[1:]
    if name == "git":
        return bool(rest) and rest[0] in _GIT and _git(rest[0], rest[1:])
    if name in _FACTS:
        return all(_FLAG.fullmatch(text) for text in rest)
    if name == "date":
        return _date(rest)
    if name == "wc":
        return all(_FLAG.fullmatch(text) or _FILE.fullmatch(text) for text in rest)
    pattern = {"seq": _NUMBER, "expr": _SUM, "getconf": _FILE}.get(name)
    return pattern is not None and all(pattern.fullmatch(text) for text in rest)


def is_chosen(texts: list[str]) -> bool:
    """Is the output a name that somebody chose: a branch, a tag, a word in a date format?"""
    if texts[0] == "date":
        return any(_has_a_word(text) for text in texts[1:] if text.startswith("+"))
    named = texts[1:2] in (["describe"], ["symbolic-ref"], ["branch"], ["config"])
    return texts[0] == "git" and (named or any(text.startswith("--abbrev-ref") for text in texts))


def _has_a_word(form: str) -> bool:
    """Two letters in a row, where `%p` may be empty."""
    rest = _DIRECTIVE.sub(lambda match: "" if match[0][-1] in "pP" else "0", form)
    return "%" in rest or re.search("[A-Za-z]{2}", rest) is not None


def _git(sub: str, rest: list[str]) -> bool:
    known = all(_GIT[sub].fullmatch(text) or _REVISION.fullmatch(text) for text in rest)
    if sub == "config":
        return known and rest[-1:] in (["user.name"], ["user.email"])
    if sub == "rev-parse" and "--verify" not in rest:
        return known and all(text.startswith("-") or _SURE.fullmatch(text) for text in rest)
    formatted = sub != "log" or any(text.startswith(("--format", "--pretty")) for text in rest)
    return known and formatted


def _date(rest: list[str]) -> bool:
    at = 0
    while at < len(rest):
        if rest[at] in {"-d", "-r"}:
            at += 2
        elif _DATE_FLAG.fullmatch(rest[at]) or (_FORMAT.fullmatch(rest[at]) and ".." not in rest[at]):
            at += 1
        else:
            return False
    return True


# --- commands that print only file names: what uses their output uses those files

_ORDINARY = frozenset(
    {"inside", "workspace", "delicate", "harmless", "unknown", "guard-settings", "tool-settings"}
)
_NAMES_ONLY = word_set("-l -L --files --files-with-matches --files-without-match")
_LONG_LISTING = word_set("-l -s -i -g -n -o -m --size --inode --numeric-uid-gid")
_TELLS_MORE = re.compile(
    r"-[a-zA-Z]*[stvfupUS][a-zA-Z]*|--(?:stage|unmerged|format|debug|eol|stat|numstat|patch|raw|summary).*"
)
_PLAIN_FORMAT = re.compile(r"(?:%[pPfh]|\\[n0]|/)*")
_PROTECTED = re.compile(r"(?:^|[/*^\\])\.(?:git/|env\b(?!\.)|ssh\b|aws\b)|\.?flyball")
_NAMES_SOME = re.compile(r"^[^-].*[A-Za-z0-9]|^[A-Za-z0-9]")
_HIDDEN = word_set("-a -A -f --all --almost-all")
_PRINTS_MORE = word_set("-exec -execdir -ok -okdir -ls -x -X --exec --exec-batch --list-details -l")
_NARROWING = word_set(
    "-name -iname -path -ipath -wholename -regex -iregex -mtime -atime -ctime -mmin -amin -cmin "
    "-newer -size -perm -empty -newermt -samefile -inum -lname -user"
)


def file_listing(texts: list[str], cwds: tuple[str, ...], policy: CommandPolicy) -> Stream | None:
    """The output of a listing command: one path that stands for all its files. None for other commands."""
    if not texts or not _lists(texts) or UNKNOWN in cwds:
        return None
    for text in texts[1:]:
        if text.startswith(("/", "~", "..")) and place_of(text, cwds[0], policy) not in _ORDINARY:
            return Stream("listed", posixpath.join(text, "listed"))
    narrow = any(map(_NAMES_SOME.search, texts[1:])) if texts[0] == "ls" else is_narrow(texts[1:])
    return Stream("listed", stand_in_path("./", texts[1:], policy), whole=not narrow)


def _lists(texts: list[str]) -> bool:
    if texts[0] in {"find", "fd", "fdfind"}:
        return _only_names(texts)
    if texts[:2] == ["git", "grep"]:
        return _lists(texts[1:])
    profile = profile_of(texts[0])
    if profile and texts[0] in {"rg", "grep", "ag", "egrep", "ls"}:
        given = {
            option.name for option in parse_arguments(profile, [Arg(text) for text in texts[1:]]).options
        }
        return given.isdisjoint(_LONG_LISTING | _HIDDEN) if texts[0] == "ls" else bool(given & _NAMES_ONLY)
    tells_more = any(_TELLS_MORE.fullmatch(text) for text in texts[2:])
    return not tells_more and (
        texts[:2] == ["git", "ls-files"] or texts[:3] == ["git", "diff", "--name-only"]
    )


def _only_names(texts: list[str]) -> bool:
    """Does a find print only names? If it prints more, or runs something, its output is unknown."""
    if not _PRINTS_MORE.isdisjoint(texts):
        return False
    formats = [texts[at + 1] for at, text in enumerate(texts[:-1]) if text == "-printf"]
    return all(_PLAIN_FORMAT.fullmatch(form) for form in formats)


def stand_in_path(root: str, texts: list[str], policy: CommandPolicy) -> str:
    """A path that stands for the files listed: a protected one, if the command searches for it."""
    for at, text in enumerate(texts):
        left_out = texts[max(at - 2, 0) : at - 1] in (["!"], ["-not"]) or texts[at + 1 : at + 2] == ["-prune"]
        if left_out or text[:1] in "-!(" or len(text) > 200:
            continue
        if _PROTECTED.search(text):
            return posixpath.join(root, _stands_for(text))
        name = posixpath.join(policy.workspace, posixpath.basename(text.rstrip("/")))
        place = (glob_place if re.search(r"[*?\[]", name) else place_of)(name, policy.workspace, policy)
        if place not in _ORDINARY:
            return posixpath.join(root, posixpath.basename(text))
    return posixpath.join(root, "listed")


def _stands_for(text: str) -> str:
    return ".flyball/policy.toml" if "flyball" in text else ".git/config" if ".git" in text else ".env"


def is_narrow(words: list[str]) -> bool:
    """Does a find search for something in particular?"""
    for at, word in enumerate(words):
        value = words[at + 1] if at + 1 < len(words) else ""
        negated = words[at - 1 : at] in (["!"], ["-not"])
        if (
            word in _NARROWING
            and not negated
            and "-prune" not in words[at + 1 : at + 3]
            and value.strip("*./")
        ):
            return True
    return False


# --- substitutions whose result can be known without running them: `$(echo x)`, `$(pwd)`, `$(date)`

_FOLDERS = {
    "go env GOPATH": "~/go",
    "go env GOBIN": "~/go/bin",
    "python -m site --user-base": "~/.local",
    "npm bin": "node_modules/.bin",
    "npm root": "node_modules",
    "yarn bin": "node_modules/.bin",
}
"""Where tools say that they keep what is installed."""
_SETS_UP_SHELL = Lazy(
    r"(?:pyenv|rbenv|nodenv|goenv|jenv|plenv) (?:virtualenv-)?init -?(?: --?[\w-]+)*(?: (?:bash|zsh|sh))?"
    r"|fnm env(?: --?[\w-]+(?:=\w+)?)*|(?:conda|micromamba) shell\.?(?:hook|bash|posix)?(?: -s)?(?: (?:bash|posix|hook))*"
    r"|(?:mise|rtx) (?:activate|hook-env)(?: -s)?(?: (?:bash|zsh|sh))?(?: --shims)?|opam env(?: --?[\w-]+(?:=[\w.-]+)?)*"
    r"|brew shellenv|luarocks path(?: --[\w-]+)*|dircolors -b|poetry env activate|pdm venv activate"
)
SETS_UP_SHELL = Arg(":")
"""What tools print that set up a shell for themselves: it is trusted as they are when they run."""
_DISPUTED = re.compile(r"\\(?![nt])")
_FLAGS = re.compile(r"-[neE]+")


def result_of(body: Script, context: Context, host: Host) -> Arg | None:
    """The output of a substitution, as far as it is known; None if it is unknown."""
    stages = [item.pipe.stages for item in body.items]
    if len(stages) != 1 or not isinstance(stages[0][-1], Simple):
        return None
    simple = stages[0][-1]
    args = expand_words(simple.words, context.aside(), _Quiet(host))
    if not args or not all(arg.literal for arg in args):
        return Arg("x1", unknown=1, from_output=True) if args and _names_of_files(args) else None
    texts = [arg.text for arg in args]
    if texts == ["cat"] and len(stages[0]) == 1 and [r.op for r in simple.redirects] in (["<<"], ["<<<"]):
        return _quoted(simple.redirects[0], context, host)
    if len(stages[0]) > 1 or simple.redirects:
        return _printed(texts, simple)
    return _answer(texts, simple, context, host)


def _printed(texts: list[str], simple: Simple) -> Arg | None:
    """A number, a date, a hash; or a name."""
    chosen = is_chosen(texts) or bool(simple.assigns)
    return Arg("x1", unknown=1, from_output=True, word=chosen) if is_harmless(texts) else None


def _quoted(redirect: Redirect, context: Context, host: Host) -> Arg | None:
    """`$(cat <<'EOF' …)`: the text itself."""
    parts = redirect.body if redirect.op == "<<" else redirect.target.parts
    value = expand_one(parts, context.aside(), _Quiet(host))
    return Arg(value.text.rstrip("\n"), from_output=True) if value.literal else None


def _names_of_files(args: list[Arg]) -> bool:
    """`basename "$f"` and `wc -l *.py` over files of the workspace."""
    if args[0].text not in {"wc", "basename"}:
        return False
    return all(arg.literal or ((arg.many or arg.glob) and HOLE not in arg.text) for arg in args)


def _answer(texts: list[str], simple: Simple, context: Context, host: Host) -> Arg | None:
    name, rest = texts[0], texts[1:]
    if host.policy.contained and name not in context.functions and _SETS_UP_SHELL.fullmatch(" ".join(texts)):
        return SETS_UP_SHELL
    names = file_listing(texts, context.cwds, host.policy)
    if names and name != "ls":
        return Arg(names.text, many=True, from_output=True)
    if name in {"echo", "printf"}:
        text = printed_text(name, rest)
        return None if text is None else Arg(text.rstrip("\n"))
    folder = _FOLDERS.get(" ".join(texts)) if name not in context.functions else None
    if folder and host.policy.contained:
        return Arg(folder.replace("~", host.policy.home))
    if name == "which" and len(rest) == 1 and _PROGRAM.fullmatch(rest[0]):
        return Arg(f"/usr/bin/{rest[0]}")
    if name == "pwd" and len(context.cwds) == 1:
        return Arg(context.cwds[0])
    if (
        name == "mktemp"
        and host.policy.contained
        and all(re.fullmatch(r"-[dqt]+|[\w.-]+", text) for text in rest)
    ):
        return Arg("/tmp/tmp.x1", from_output=True)
    if texts == ["git", "rev-parse", "--show-toplevel"]:
        return Arg(host.policy.workspace)
    if len(rest) != 1 or rest[0].startswith("-"):
        return _printed(texts, simple)
    if name == "basename":
        return Arg(posixpath.basename(rest[0].rstrip("/")))
    if name == "dirname":
        return Arg(posixpath.dirname(rest[0].rstrip("/")) or ("/" if rest[0][:1] == "/" else "."))
    return _printed(texts, simple)


def printed_text(name: str, rest: list[str]) -> str | None:
    """The output of echo or printf; None where shells differ (backslashes)."""
    if any(_DISPUTED.search(text) for text in rest):
        return None
    if name == "echo":
        flags = ""
        while rest and _FLAGS.fullmatch(rest[0]):
            flags += rest[0]
            rest = rest[1:]
        line = " ".join(rest)
        return line if "\\" not in line else unescaped(line) if "e" in flags else None
    rest = rest[1:] if rest[:1] == ["--"] else rest
    shape = unescaped(rest[0]) if rest else ""
    return _formatted(shape, rest[1:])


def _formatted(shape: str, values: list[str]) -> str | None:
    """printf goes through its format until the values are used up."""
    count = len(re.findall(r"%s", shape.replace("%%", "")))
    if re.search(r"%[^s%]", shape) or len(values) > 64:
        return None
    rounds = [values[at : at + count] for at in range(0, len(values), count)] if count else []
    return "".join(_filled(shape, some) for some in rounds or [[]])


def _filled(shape: str, values: list[str]) -> str:
    remaining = iter(values)
    return re.sub("%[s%]", lambda match: "%" if match[0] == "%%" else next(remaining, ""), shape)


class _Quiet:
    """Expands once more without judging again; nested substitutions stay unknown."""

    def __init__(self, host: Host) -> None:
        self.policy = host.policy

    def substitute(self, sub: Sub, context: Context) -> Arg:
        return Arg(HOLE, unknown=2)

    def is_dangerous(self, name: str) -> bool:
        return False

    def trusts_output(self) -> bool:
        return False

    def hidden(self, text: str, context: Context) -> None: ...
