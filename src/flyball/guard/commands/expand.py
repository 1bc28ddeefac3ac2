"""Expansion as bash does it: braces, tilde, variables, substitutions, fields. Results may be unknown, never wrong."""

from __future__ import annotations

import re
from typing import Protocol

import msgspec

from flyball.guard.commands.args import HOLE, Arg, merged, piece
from flyball.guard.commands.command_policy import CommandPolicy
from flyball.guard.commands.names import names
from flyball.guard.commands.scene import Scene, Value
from flyball.guard.commands.shaped import shaped
from flyball.guard.commands.tree import Lit, Part, Sub, Sum, Unreadable, Var, Word
from flyball.guard.verdict import Verdict

WORDS_MOST = 64
RANGE_MOST = 200
ATOMS_MOST = 300

_USER = re.compile(r"[A-Za-z0-9_][\w.$-]*")
_COUNTS = names("? # $ ! RANDOM SECONDS LINENO UID EUID PPID BASHPID EPOCHSECONDS COLUMNS LINES")
_HARMLESS = names(
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
UNKNOWN = Arg(HOLE, unknown=2)
COUNT = Arg("1", unknown=1)


class Host(Protocol):
    """Whoever expands must be able to judge what an expansion runs."""

    policy: CommandPolicy

    def substitute(self, sub: Sub, scene: Scene) -> Arg: ...
    def add(self, verdict: Verdict) -> None: ...
    def is_dangerous(self, name: str) -> bool: ...
    def hidden(self, text: str, scene: Scene) -> None: ...


def expand_words(words: tuple[Word, ...], scene: Scene, host: Host) -> list[Arg]:
    return [arg for word in words for arg in expand(word.parts, scene, host)]


def expand(parts: tuple[Part, ...], scene: Scene, host: Host) -> list[Arg]:
    """The arguments one word becomes: none, one or several."""
    if len(parts) == 2 and parts[0] == _NO_TEXT and isinstance(parts[1], Var) and parts[1].name == "@":
        parts = parts[1:]  # "$@" without arguments is nothing, not an empty argument
    found: list[Arg] = []
    for variant in _braces(parts):
        found.extend(_fields(variant, scene, host))
        if len(found) > WORDS_MOST * 4:
            raise Unreadable("too-long", "A word expands to too many arguments to judge; write them out.")
    return found


def expand_one(parts: tuple[Part, ...] | list[Part], scene: Scene, host: Host) -> Arg:
    """A value that is not split: an assignment, a heredoc, a redirection's target."""
    whole = [_unsplit(part) for part in _tilde(tuple(parts), host)]
    pieces = [piece for part in whole for field in _part(part, scene, host) for piece in field]
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
        raise Unreadable("too-long", "A word with braces is too long to judge; write it out.")
    return [tuple(_glued(variant)) for variant in _variants(atoms)]


def _variants(atoms: list[Part]) -> list[list[Part]]:
    span = _first_brace(atoms)
    if span is None:
        return [atoms]
    start, end, commas = span
    if start and isinstance(atoms[start - 1], Var):
        raise Unreadable("unreadable", "Braces right after a variable change its name; write it out.")
    found: list[list[Part]] = []
    tails = _variants(atoms[end + 1 :])
    for choice in _choices(atoms, start, end, commas):
        for inner in _variants(choice):
            found.extend([*atoms[:start], *inner, *tail] for tail in tails)
            if len(found) > RANGE_MOST:
                raise Unreadable("too-long", "A brace expansion is too large to judge; write it out.")
    return found


def _first_brace(atoms: list[Part]) -> tuple[int, int, list[int]] | None:
    """The first `{…}` that expands: where it starts, ends, and its own commas (none for a range)."""
    for start, atom in enumerate(atoms):
        if _char(atom) != "{":
            continue
        tail = "".join(map(_char, atoms[start:]))
        if tail.startswith("{}") and re.match(r".*(?:,|\.\.).*\}", tail[2:]):
            raise Unreadable("unreadable", "Braces that close at once are read in strange ways; quote them.")
        level, commas = 0, list[int]()
        for at in range(start + 1, len(atoms)):
            char = _char(atoms[at])
            if char == "}" and level == 0:
                inside = "".join(map(_char, atoms[start + 1 : at]))
                if ".." in inside and not all(map(_char, atoms[start + 1 : at])):
                    raise Unreadable(
                        "unreadable", "Quotes in a range are read in strange ways; write it out."
                    )
                if commas or _RANGE.fullmatch(inside):
                    return start, at, commas
                if ".." in inside and "{" in inside:
                    raise Unreadable(
                        "unreadable", "Braces in a range are read in strange ways; write it out."
                    )
                if re.search(
                    r"(?:,|\.\.).*\}", "".join(map(_char, atoms[at + 1 :]))
                ):  # bash looks on: `{a}b,c}` is `a}b c`
                    raise Unreadable(
                        "unreadable", "Braces after braces are read in strange ways; quote them."
                    )
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
    """Every member of `{1..9}`, `{01..10}`, `{a..f}`; of a long one only that it is a number."""
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
        return parts  # quotes or an expansion in the name: it is no tilde
    if user in {"+", "-"}:
        return (Var("PWD" if user == "+" else "OLDPWD", "", (), True), Lit(slash + rest, False), *parts[1:])
    if user and not _USER.fullmatch(user):
        return parts  # nobody can be called that, so it stands as it is
    if user and ".." in rest:
        raise Unreadable("unreadable", f"Nobody knows where '~{user}' is; write the path out.")
    folder = f"/home/{user}" if user else host.policy.home
    return (Lit(folder, True), Lit(slash + rest, False), *parts[1:])


def _fields(parts: tuple[Part, ...], scene: Scene, host: Host) -> list[Arg]:
    done: list[Arg] = []
    current: list[Arg] = []
    for part in _tilde(parts, host):
        for number, field in enumerate(_part(part, scene, host)):
            if number and current:
                done.append(merged(current))
                current = []
            current.extend(field)
    return [*done, merged(current)] if current else done


def _part(part: Part, scene: Scene, host: Host) -> list[list[Arg]]:
    """The fields one part becomes; the first joins what stands before it, the last what follows."""
    if isinstance(part, Lit):
        return [[piece(part.text, part.quoted)]]
    if isinstance(part, Var):
        return _variable(part, scene, host)
    if isinstance(part, Sum):
        return [[_sum(part, scene, host)]]
    return _substituted(part, scene, host)


def _substituted(part: Sub, scene: Scene, host: Host) -> list[list[Arg]]:
    value = host.substitute(part, scene)
    whole = part.quoted or value.unknown or value.pipe or value.many
    return [[_loosened(value, part.quoted)]] if whole else _split(value.text)


def _loosened(value: Arg, quoted: bool) -> Arg:
    """Unknown text that is not in quotes may become several arguments."""
    loose = value.unknown == 2 and not quoted
    return value if value.loose == loose else msgspec.structs.replace(value, loose=loose)


def _split(value: str) -> list[list[Arg]]:
    chunks = _BLANKS.split(value)
    return [[piece(chunk, False)] if chunk else [] for chunk in chunks]


def _variable(part: Var, scene: Scene, host: Host) -> list[list[Arg]]:
    several = part.name in {"@", "*"} or part.op == "["
    fields = _held(part, scene, host)
    return [[_loosened(arg, part.quoted and not several) for arg in field] for field in fields]


def _held(part: Var, scene: Scene, host: Host) -> list[list[Arg]]:
    inner = expand_one(part.arg, scene, host) if part.arg else None
    if _SECRET.fullmatch(part.name) and scene.variables.get(part.name) is None:
        host.add(
            Verdict("deny", "secret-variable", f"'${part.name}' looks like a secret; do not hand it on.")
        )
    if part.op in {":=", "="} and host.is_dangerous(part.name):
        host.add(Verdict("deny", "environment", f"'{part.name}' changes what commands run or read."))
    if part.op.startswith("@P"):
        host.add(Verdict("deny", "hidden-command", f"'${{{part.name}@P}}' runs what the variable holds."))
    if part.op in {"", "[", ":-", "-", ":=", "=", ":?", "?"}:
        return _plain_variable(part, inner, scene, host)
    value = _known(part.name, scene, host)
    if part.op == "!" and isinstance(value, str) and _NAMES.fullmatch(value):
        return _held(Var(value, "", (), part.quoted), scene, host)
    made = shaped(part.op, value, inner.text if inner else "") if isinstance(value, str) else None
    if made is not None and (inner is None or inner.literal):
        return [[piece(made, True)]] if part.quoted else _split(made)
    return [[COUNT if part.op == "length" else UNKNOWN]]


def _plain_variable(part: Var, inner: Arg | None, scene: Scene, host: Host) -> list[list[Arg]]:
    value = _known(part.name, scene, host)
    if isinstance(value, Arg):
        return [[value]]
    if isinstance(value, tuple):
        whole = part.name == "@" or (part.op == "[" and inner is not None and inner.text in {"@[", "*["})
        return [[piece(item, part.quoted)] for item in value] if whole else [[UNKNOWN]]
    if part.op == "[":
        return [[UNKNOWN]]
    known = part.name in scene.variables
    unsure = known and (value is None or (not value and part.op in {"-", "="}))
    if not value and inner and part.op in {":-", "-", ":=", "="} and not unsure:
        _assigned(part, inner, scene)
        return _default(part, scene, host)
    if value is None or unsure:
        _assigned(part, None, scene)
        return [[UNKNOWN]]
    return [[piece(value, True)]] if part.quoted else _split(value)


def _assigned(part: Var, value: Arg | None, scene: Scene) -> None:
    """`${x:=word}` leaves the word in x."""
    if part.op in {":=", "="}:
        scene.hold(part.name, value.text if value and value.literal else None)


def _default(part: Var, scene: Scene, host: Host) -> list[list[Arg]]:
    """`${x:-word}` where x is empty: the word, split where it is not quoted."""
    if part.quoted:
        return [[expand_one(part.arg, scene, host)]]
    found: list[list[Arg]] = [[]]
    for piece_of_word in part.arg:
        first, *rest = _part(piece_of_word, scene, host) or [[]]
        found[-1].extend(first)
        found.extend(rest)
    return found


def _known(name: str, scene: Scene, host: Host) -> Value:
    """What a variable holds; an Arg where only its nature is known."""
    if name in scene.variables:
        return scene.variables[name]
    if name == "HOME":
        return host.policy.home
    if name in _XDG:
        return host.policy.home + _XDG[name]
    if name == "PWD" and len(scene.cwds) == 1:
        return scene.cwds[0] if scene.cwds[0].startswith("/") else None
    if name == "IFS":
        return " \t\n"
    if name == "!":
        return Arg("2", unknown=1)  # a job of this line, never the first process
    if name in _COUNTS:
        return COUNT
    if name in _HARMLESS:
        return Arg(HOLE, unknown=1)
    if name.isidentifier():
        host.add(Verdict("ask", "opaque-variable", f"Nobody can tell what '${name}' holds."))
    return None


def _sum(part: Sum, scene: Scene, host: Host) -> Arg:
    """Arithmetic over numbers is a number; a name's value is evaluated again, subscripts run substitutions."""
    text = expand_one(part.parts, scene, host).text
    host.hidden(text, scene)
    known = True
    for name in counted(text):
        scene.hold(name, COUNT)
    for name in _NAMES.findall(text):
        value = scene.variables.get(name)
        if isinstance(value, str):
            host.hidden(value, scene)
        known = known and name in scene.variables
    return COUNT if known and HOLE not in text and "[" not in text else UNKNOWN


def counted(text: str) -> list[str]:
    """The variables that arithmetic assigns a number to."""
    return [one or other for one, other in _COUNTERS.findall(text)]
