"""Expansion as bash does it: braces, tilde, variables, substitutions, fields. Results may be unknown, never wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from flyball.guard import word_set
from flyball.guard.change import Verdict
from flyball.guard.commands.args import HOLE, VALUE_MOST, Arg, merged, piece
from flyball.guard.commands.command_policy import CommandPolicy
from flyball.guard.commands.context import SOME_NUMBER, Context, Value
from flyball.guard.commands.syntax_tree import Lit, Part, Sub, Sum, Unreadable, Var, Word

WORDS_MOST = 256
TEXT_MOST = 8 * VALUE_MOST
ARGS_MOST = 4_000
RANGE_MOST = 200
ATOMS_MOST = 300
NAMES_MOST = 8

_USER = re.compile(r"[A-Za-z0-9_][\w.$-]*")
_SUFFIX = re.compile(r"[\w.-]+")
_COUNTS = word_set("? # $ ! RANDOM SECONDS LINENO UID EUID PPID BASHPID EPOCHSECONDS COLUMNS LINES")
_HARMLESS = word_set(
    "USER LOGNAME HOSTNAME SHELL LANG TERM PATH OSTYPE HOSTTYPE MACHTYPE BASH_VERSION CI EDITOR "
    "PAGER TZ BASH_REMATCH .."
)
_NO_TEXT = Lit("", True)
_NUMBER = Var("..", "", (), True)  # some number of a long range
_SECRET = re.compile(
    r".*(?:SECRET|TOKEN|PASSW(?:OR)?D|PASSPHRASE|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIAL|_PAT|AUTH_KEY).*",
    re.IGNORECASE,
)
_XDG = {
    "XDG_STATE_HOME": "/.local/state",
    "XDG_CONFIG_HOME": "/.config",
    "XDG_DATA_HOME": "/.local/share",
    "XDG_CACHE_HOME": "/.cache",
}
_BLANKS = re.compile(r"[ \t\n]+")
_NAMES = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RANGE = re.compile(r"(?:([-+]?\d{1,9})\.\.([-+]?\d{1,9})|([A-Za-z])\.\.([A-Za-z]))(?:\.\.([-+]?\d{1,9}))?")

_COUNTERS = re.compile(
    r"([A-Za-z_][A-Za-z0-9_]*)\s*(?:(?:[-+*/%&^|]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s*([A-Za-z_]\w*)"
)
_SET = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\s*=(?!=)")
UNKNOWN = Arg(HOLE, unknown=2)
COUNT = Arg("1", unknown=1)


class Host(Protocol):
    """What expansion needs from the judge."""

    policy: CommandPolicy

    def substitute(self, sub: Sub, context: Context) -> Arg: ...
    def is_dangerous(self, name: str) -> bool: ...
    def trusts_output(self) -> bool: ...
    def hidden(self, text: str, context: Context) -> None: ...


def expand_words(words: tuple[Word, ...], context: Context, host: Host) -> list[Arg]:
    return bounded(expand(word.parts, context, host) for word in words)


def bounded(words: Iterable[list[Arg]]) -> list[Arg]:
    """The arguments of all words, as long as they are not too many or too long."""
    args: list[Arg] = []
    length = 0
    for some in words:
        args += some
        length += sum(len(arg.text) for arg in some)
        if len(args) > ARGS_MOST or length > TEXT_MOST:
            raise Unreadable("too-long", "The arguments are too long to check. Split them up.")
    return args


def expand(parts: tuple[Part, ...], context: Context, host: Host) -> list[Arg]:
    """The arguments one word becomes: none, one or several."""
    if len(parts) == 2 and parts[0] == _NO_TEXT and isinstance(parts[1], Var) and parts[1].name == "@":
        parts = parts[1:]  # "$@" without arguments is nothing, not an empty argument
    args: list[Arg] = []
    for variant in _braces(parts):
        args.extend(_fields(variant, context, host))
        if len(args) > WORDS_MOST:
            raise Unreadable("too-long", "A word expands to too many arguments to check. Write them out.")
    return args


def expand_one(parts: tuple[Part, ...] | list[Part], context: Context, host: Host) -> Arg:
    """A value that is not split: an assignment, a heredoc, a redirection's target."""
    whole = [_unsplit(part) for part in _tilde(tuple(parts), host)]
    pieces = [piece for part in whole for field in _part(part, context, host) for piece in field]
    return merged(pieces) if pieces else Arg("")


def _unsplit(part: Part) -> Part:
    return msgspec.structs.replace(part, quoted=True) if isinstance(part, Var | Sub) else part


# --- braces


def _braces(parts: tuple[Part, ...]) -> list[tuple[Part, ...]]:
    if not any(isinstance(part, Lit) and not part.quoted and "{" in part.text for part in parts):
        return [parts]
    atoms: list[Part] = []
    for part in parts:
        if isinstance(part, Lit) and not part.quoted:
            atoms.extend(Lit(char, False) for char in part.text)
        else:
            atoms.append(part)
    if len(atoms) > ATOMS_MOST:
        raise Unreadable("too-long", "A word with braces is too long to check. Write it out.")
    return [tuple(_glued(variant)) for variant in _variants(atoms)]


def _variants(atoms: list[Part]) -> list[list[Part]]:
    span = _first_brace(atoms)
    if span is None:
        return [atoms]
    start, end, commas = span
    if start and isinstance(atoms[start - 1], Var):
        raise Unreadable("unreadable", "Braces right after a variable change its name. Write it out.")
    variants: list[list[Part]] = []
    tails = _variants(atoms[end + 1 :])
    for choice in _choices(atoms, start, end, commas):
        for inner in _variants(choice):
            variants.extend([*atoms[:start], *inner, *tail] for tail in tails)
            if len(variants) > RANGE_MOST:
                raise Unreadable("too-long", "A brace expansion is too large to check. Write it out.")
    return variants


def _first_brace(atoms: list[Part]) -> tuple[int, int, list[int]] | None:
    """The first `{…}` that expands: where it starts, ends, and its own commas (none for a range)."""
    for start, atom in enumerate(atoms):
        if _char(atom) != "{":
            continue
        tail = "".join(map(_char, atoms[start:]))
        if tail.startswith("{}") and re.match(r".*(?:,|\.\.).*\}", tail[2:]):
            raise Unreadable("unreadable", "Shells read empty braces in different ways. Quote them.")
        level, commas = 0, list[int]()
        for at in range(start + 1, len(atoms)):
            char = _char(atoms[at])
            if char == "}" and level == 0:
                inside = "".join(map(_char, atoms[start + 1 : at]))
                if ".." in inside and not all(map(_char, atoms[start + 1 : at])):
                    raise Unreadable(
                        "unreadable", "Shells read quotes in a range in different ways. Write it out."
                    )
                if commas or _RANGE.fullmatch(inside):
                    return start, at, commas
                if ".." in inside and "{" in inside:
                    raise Unreadable(
                        "unreadable", "Shells read braces in a range in different ways. Write it out."
                    )
                if re.search(
                    r"(?:,|\.\.).*\}", "".join(map(_char, atoms[at + 1 :]))
                ):  # bash looks on: `{a}b,c}` is `a}b c`
                    raise Unreadable("unreadable", "Shells read nested braces in different ways. Quote them.")
                break
            level += {"{": 1, "}": -1}.get(char, 0)
            if char == "," and level == 0:
                commas.append(at)
    return None


def _choices(atoms: list[Part], start: int, end: int, commas: list[int]) -> list[list[Part]]:
    if commas:
        cuts = [start, *commas, end]
        return [atoms[cuts[i] + 1 : cuts[i + 1]] for i in range(len(cuts) - 1)]
    return [[choice] for choice in _range("".join(map(_char, atoms[start + 1 : end])))]


def _range(text: str) -> list[Part]:
    """Every member of `{1..9}`, `{01..10}`, `{a..f}`; a long range is just some number."""
    match = _RANGE.fullmatch(text)
    first, last = (match[1] or match[3], match[2] or match[4]) if match else ("", "")
    if first.isalpha():
        return [Lit(chr(code), True) for code in _steps(ord(first), ord(last), match)]
    members = _steps(int(first), int(last), match)
    if len(members) > RANGE_MOST:
        return [_NUMBER]
    width = max(map(len, (first, last))) if any(re.match(r"[-+]?0\d", end) for end in (first, last)) else 0
    return [Lit(f"{number:0{width}d}" if width else str(number), False) for number in members]


def _steps(first: int, last: int, match: re.Match[str] | None) -> range:
    step = abs(int(match[5] or 1)) if match else 1
    return range(first, last + 1, step or 1) if first <= last else range(first, last - 1, -(step or 1))


def _char(atom: Part) -> str:
    return atom.text if isinstance(atom, Lit) and not atom.quoted else ""


def _glued(parts: list[Part]) -> list[Part]:
    glued: list[Part] = []
    for part in parts:
        last = glued[-1] if glued else None
        if isinstance(part, Lit) and isinstance(last, Lit) and not part.quoted and not last.quoted:
            glued[-1] = Lit(last.text + part.text, False)
        else:
            glued.append(part)
    return glued


# --- tilde, parts, fields


def _tilde(parts: tuple[Part, ...], host: Host) -> tuple[Part, ...]:
    first = parts[0] if parts else None
    if not isinstance(first, Lit) or first.quoted or not first.text.startswith("~"):
        return parts
    user, slash, rest = first.text[1:].partition("/")
    if not slash and len(parts) > 1:
        return parts  # quotes or an expansion in the name: the tilde is literal
    if user in {"+", "-"}:
        return (Var("PWD" if user == "+" else "OLDPWD", "", (), True), Lit(slash + rest, False), *parts[1:])
    if user and not _USER.fullmatch(user):
        return parts  # not a user name, so the tilde is literal
    if user and ".." in rest:
        raise Unreadable("unreadable", f"The home directory '~{user}' is unknown. Write the path out.")
    folder = f"/home/{user}" if user else host.policy.home
    return (Lit(folder, True), Lit(slash + rest, False), *parts[1:])


def _fields(parts: tuple[Part, ...], context: Context, host: Host) -> list[Arg]:
    result: list[Arg] = []
    current: list[Arg] = []
    for part in _tilde(parts, host):
        for number, field in enumerate(_part(part, context, host)):
            if number and current:
                result.append(merged(current))
                current = []
            current.extend(field)
    return [*result, merged(current)] if current else result


def _part(part: Part, context: Context, host: Host) -> list[list[Arg]]:
    """The fields of one part. The first joins the text before it, the last the text after it."""
    if isinstance(part, Lit):
        return [[piece(part.text, part.quoted)]]
    if isinstance(part, Var):
        return _variable(part, context, host)
    if isinstance(part, Sum):
        return [[_sum(part, context, host)]]
    return _substituted(part, context, host)


def _substituted(part: Sub, context: Context, host: Host) -> list[list[Arg]]:
    value = host.substitute(part, context)
    whole = part.quoted or value.unknown or value.pipe or value.many
    return [[_loosened(value, part.quoted)]] if whole else _split(value.text)


def _loosened(value: Arg, quoted: bool) -> Arg:
    """Unknown text that is not in quotes may become several arguments."""
    loose = value.unknown == 2 and not quoted
    return value if value.loose == loose else msgspec.structs.replace(value, loose=loose)


def _split(value: str) -> list[list[Arg]]:
    chunks = _BLANKS.split(value)
    return [[piece(chunk, False)] if chunk else [] for chunk in chunks]


def _variable(part: Var, context: Context, host: Host) -> list[list[Arg]]:
    several = part.name in {"@", "*"} or part.op == "["
    fields = _held(part, context, host)
    return [[_loosened(arg, part.quoted and not several) for arg in field] for field in fields]


def _held(part: Var, context: Context, host: Host) -> list[list[Arg]]:
    inner = expand_one(part.arg, context, host) if part.arg else None
    if (
        inner
        and part.op in {":", "["}
        and inner.text not in {"@[", "*["}
        and part.name not in context.state.odd
    ):
        evaluate(inner, context, host)
    if _SECRET.fullmatch(part.name) and context.variables.get(part.name) is None:
        context.add(Verdict("deny", "secret-variable", f"Uses '${part.name}', which looks like a secret."))
    if part.op in {":=", "="} and host.is_dangerous(part.name):
        context.add(Verdict("deny", "environment", f"'{part.name}' changes what commands run or read."))
    if part.op.startswith("@P"):
        context.add(Verdict("deny", "hidden-command", f"'${{{part.name}@P}}' runs commands in the value."))
    if part.op in {"", "[", ":-", "-", ":=", "=", ":?", "?"}:
        return _plain_variable(part, inner, context, host)
    value = _known(part.name, context, host)
    if part.op == "!" and isinstance(value, str) and _NAMES.fullmatch(value):
        return _held(Var(value, "", (), part.quoted), context, host)
    if (
        isinstance(value, Arg)
        and value.many
        and part.op in {"%", "%%"}
        and inner
        and _SUFFIX.fullmatch(inner.text)
    ):
        folder, slash, _ = value.text.rpartition("/")
        return [[msgspec.structs.replace(value, text=f"{folder}{slash}*")]]  # a file of the same folder
    text = transform(part.op, value, inner.text if inner else "") if isinstance(value, str) else None
    if text is not None and (inner is None or inner.literal):
        return [[piece(text, True)]] if part.quoted else _split(text)
    if part.op == "![" and part.name not in context.state.odd:
        return [[SOME_NUMBER]]  # the indexes of an array that is not associative
    return [[COUNT if part.op == "length" else UNKNOWN]]


def _plain_variable(part: Var, inner: Arg | None, context: Context, host: Host) -> list[list[Arg]]:
    value = _known(part.name, context, host)
    if isinstance(value, Arg):
        return [[value]]
    if isinstance(value, tuple):
        whole = part.name == "@" or (part.op == "[" and inner is not None and inner.text in {"@[", "*["})
        return [[piece(item, part.quoted)] for item in value] if whole else [[UNKNOWN]]
    if part.op == "[":
        return [[UNKNOWN]]
    known = part.name in context.variables
    unsure = known and (value is None or (not value and part.op in {"-", "="}))
    if not value and inner and part.op in {":-", "-", ":=", "="} and not unsure:
        _assigned(part, inner, context)
        return _default(part, context, host)
    if value is None or unsure:
        _assigned(part, None, context)
        return [[UNKNOWN]]
    return [[piece(value, True)]] if part.quoted else _split(value)


def _assigned(part: Var, value: Arg | None, context: Context) -> None:
    """`${x:=word}` assigns the word to x."""
    if part.op in {":=", "="}:
        context.state.hold(part.name, value.text if value and value.literal else None)


def _default(part: Var, context: Context, host: Host) -> list[list[Arg]]:
    """`${x:-word}` where x is empty: the word, split where it is not quoted."""
    if part.quoted:
        return [[expand_one(part.arg, context, host)]]
    fields: list[list[Arg]] = [[]]
    for piece_of_word in part.arg:
        first, *rest = _part(piece_of_word, context, host) or [[]]
        fields[-1].extend(first)
        fields.extend(rest)
    return fields


def _known(name: str, context: Context, host: Host) -> Value:
    """The value of a variable; an Arg if it is known only in part."""
    if name in context.variables:
        return context.variables[name]
    if name == "TMPDIR" and host.policy.contained:
        return "/tmp"
    if name == "PATH" and host.policy.contained:
        return "/usr/local/bin:/usr/bin:/bin"
    if name == "HOME":
        return host.policy.home
    if name in _XDG:
        return host.policy.home + _XDG[name]
    if name == "PWD" and len(context.cwds) == 1:
        return context.cwds[0] if context.cwds[0].startswith("/") else None
    if name == "IFS":
        return " \t\n"
    if name == "!":
        return Arg("2", unknown=1)  # a job of this line, never the first process
    if name in _COUNTS:
        return COUNT
    if name in _HARMLESS:
        return Arg(HOLE, unknown=1)
    if name.isidentifier():
        context.add(Verdict("ask", "opaque-variable", f"The value of '${name}' is unknown."))
    return None


# --- arithmetic


def _sum(part: Sum, context: Context, host: Host) -> Arg:
    """`$((…))`: a number, if every name in it is known."""
    value = expand_one(part.parts, context, host)
    for name in evaluate(value, context, host):
        context.state.hold(name, COUNT)
    known = all(name in context.variables for name in _NAMES.findall(value.text))
    return COUNT if known and HOLE not in value.text and "[" not in value.text else SOME_NUMBER


def evaluate(value: Arg, context: Context, host: Host) -> list[str]:
    """A text that bash evaluates as arithmetic. Returns the variables that it sets.

    Bash evaluates the value of each name as arithmetic again, and a subscript there can run a command.
    """
    host.hidden(value.text, context)
    texts, unknown = [value.text], _may_run(value, host)
    for _ in range(NAMES_MOST):
        if not texts or unknown:
            break
        for name in _NAMES.findall(_SET.sub("", texts.pop())):
            value_of_name = context.variables.get(name, "")
            unknown = unknown or _may_run(value_of_name, host)
            text = value_of_name.text if isinstance(value_of_name, Arg) else value_of_name
            if isinstance(text, str) and not text.isdecimal():
                host.hidden(text, context)
                texts.append(text)
    if texts or unknown:
        context.ask("opaque-arithmetic", "Evaluates an unknown value as arithmetic, which can run a command.")
    return [one or other for one, other in _COUNTERS.findall(value.text)]


def name_again(value: Arg, context: Context, host: Host) -> None:
    """A text that bash takes for the name of a variable: a subscript in it is arithmetic."""
    host.hidden(value.text, context)
    if _may_run(value, host):
        context.ask(
            "opaque-arithmetic", "Takes an unknown value for a variable's name, which can run a command."
        )


def _may_run(value: Value, host: Host) -> bool:
    """Is the value unknown, and not sure to be a number?"""
    if isinstance(value, Arg):
        if value.from_output and not value.remote and host.trusts_output():
            return False
        return (value.unknown == 2 and not value.number) or value.word or value.many
    return value is None or isinstance(value, tuple)


# --- operators: `${x%y}`, `${x#y}`, `${x/y/z}`, `${x:1:2}`, `${x^^}` of a known value and a plain word

_PLAIN = re.compile(r"[\w./ :@=,+-]*")
_SPAN = re.compile(r" *(\d{1,6})(?::(\d{1,6}))? *")
_CASES: dict[str, Callable[[str], str]] = {
    "^^": str.upper,
    ",,": str.lower,
    "^": lambda text: text[:1].upper() + text[1:],
    ",": lambda text: text[:1].lower() + text[1:],
}


def transform(operator: str, value: str, word: str) -> str | None:
    """The new text, or None if a pattern or a letter outside ASCII makes it uncertain."""
    if not value.isascii() or not _PLAIN.fullmatch(word):
        return None
    if operator in _CASES:
        return None if word else _CASES[operator](value)
    if operator in {"%", "%%"}:
        return value.removesuffix(word)
    if operator in {"#", "##"}:
        return value.removeprefix(word)
    if operator in {"/", "//"}:
        return _replaced(value, word, everywhere=operator == "//")
    return _cut(value, word) if operator == ":" else None


def _replaced(value: str, word: str, everywhere: bool) -> str | None:
    old, _, new = word.partition("/")
    if not old or value.count(old) * len(new) > VALUE_MOST:
        return None
    return value.replace(old, new, -1 if everywhere else 1)


def _cut(value: str, word: str) -> str | None:
    span = _SPAN.fullmatch(word)
    if not span:
        return None
    start = int(span[1])
    return value[start : start + int(span[2])] if span[2] else value[start:]
