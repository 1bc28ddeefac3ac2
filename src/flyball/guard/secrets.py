"""Finds secrets in text: credentials of known providers, and literals beside a name that suggests a secret.

The change guard denies with the same rules with which journals and output are redacted.
"""

import json
import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterable
from functools import cache
from itertools import accumulate, chain, pairwise
from pkgutil import get_data
from typing import Any, NamedTuple, cast

from flyball.guard import secret_patterns as patterns, word_set
from flyball.guard.secret_values import (
    Secret,
    headers,
    is_monotonous,
    is_secret_value,
    is_token_body,
    is_weak,
    kind_of,
    logins,
    named,
    urls,
)
from flyball.reading.terminal import Lazy, from_base64

WINDOW = 10_000
OVERLAP = 500
"""A longer line is read in overlapping windows."""

COST_MOST = 48_000
"""How much of a million characters is checked in detail (see `cost`). In the rest, everything suspicious is redacted."""

URLS = ("://", "jdbc:oracle", "@tcp(", "@unix(")
"""Every URL with a password contains one of these."""

MOST_ESCAPED = 3
"""How often a text may be escaped inside another string."""

BLANKS = {"n": "\n", "r": "\n", "t": "\t"}

LOGIN_FILES = ("netrc", "pgpass", "htpasswd")
"""Every line of these files is a login."""


_HINTS = word_set(
    "pass pwd secret token key cred auth pw psk bearer basic jwt mnemonic seed phrase sessionid cookie pat dsn sas -u webhook"
    " identified redis-cli mysql mariadb accounts wallet login curl -a getconnection hmac aes. cipher zip"
)


def _hints(line: str) -> bool:
    """Can there be a name that suggests a secret? Every line is asked."""
    return any(map(line.lower().__contains__, _HINTS))


def find_secret(path: str, line: str, *, diff: bool = False) -> str | None:
    """The rule by which a line holds a secret, or None. With `diff` a removed line does not count."""
    if diff and line[:1] == "-" and line[:5] != "-----":
        return None
    text = line[1:] if diff and line[:1] in "+ " else line
    text = patterns.INVISIBLE.sub("", text)
    if not could_hold_secret(path, text):
        return None
    secret = next(iter(_in_line(path, text)), None)
    return secret.rule if secret else None


def find_in_lines(path: str, lines: Iterable[tuple[int, str]]) -> Iterable[tuple[int, str]]:
    """The numbered lines that hold a secret, with the rule; also a value alone below its name."""
    before = ""
    for number, line in lines:
        rule = find_secret(path, line) or next((one.rule for one in below_name(before, line)), None)
        before = line
        if rule:
            yield number, rule


def find_secrets(text: str, path: str = "", *, most: int = COST_MOST) -> list[Secret]:
    """Every secret in a text, in order. Overlapping ones are one, with the rule of the first."""
    plain = visible(text)
    if plain is None:
        return _secrets_of(text, path, most)
    return [Secret(one.rule, *plain.span(one.start, one.end)) for one in _secrets_of(plain.text, path, most)]


def _secrets_of(text: str, path: str, most: int) -> list[Secret]:
    secrets = _merged(_everywhere(path, text, _Budget(text, most)))
    parts = within_strings(text, [(one.start, one.end) for one in secrets])
    return _merged(Secret(one.rule, *part) for one, some in zip(secrets, parts, strict=True) for part in some)


def _merged(secrets: Iterable[Secret]) -> list[Secret]:
    merged: list[Secret] = []
    for one in sorted(secrets, key=lambda f: (f.start, -f.end)):
        if not merged or one.start >= merged[-1].end:
            merged.append(one)
        else:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, one.end))
    return merged


def redact(text: str, path: str = "", *, most: int = COST_MOST) -> str:
    """The text with every secret replaced by the name of its rule."""
    out: list[str] = []
    at = 0
    for secret in find_secrets(text, path, most=most):
        out += (text[at : secret.start], f"[redacted {secret.rule}]")
        at = secret.end
    return "".join((*out, text[at:]))


class _Budget:
    """The budget for checking a text in detail: a text full of names must not block everything."""

    def __init__(self, text: str, most: int) -> None:
        self.left = most * max(len(text), 1_000_000) // 1_000_000

    def reaches(self, line: str) -> bool:
        self.left -= cost(line)
        return self.left >= 0


def cost(line: str) -> int:
    """The cost of checking a line: itself, what may be encoded, and most of all every name that suggests a secret."""
    names = len(patterns.CORE.findall(line)) + line.count("-u") if _hints(line) else 0
    return 1 + 2 * len(patterns.B64.findall(line)) + 3 * names + 2 * (names > 0)


def _everywhere(path: str, text: str, budget: _Budget, depth: int = 0) -> Iterable[Secret]:
    """Lines end at "\\n" only: other line breaks may be part of JSON."""
    yield from _private_keys(text)
    for match in patterns.LINE.finditer(text):
        line, start = match.group(), match.start()
        before = text[text.rfind("\n", 0, max(0, start - 1)) + 1 : max(0, start - 1)]
        for secret in below_name(before, line):
            yield Secret(secret.rule, start + secret.start, start + secret.end)
        if could_hold_secret(path, line):
            if budget.left < 0:
                yield from _suspicions(text, start)
                return
            for secret in _as_written(path, line, budget, depth):
                yield Secret(secret.rule, start + secret.start, start + secret.end)


def below_name(before: str, line: str) -> Iterable[Secret]:
    """A value on the line after its name, as YAML, JSON and code allow; one without quotes is further to the right."""
    name = patterns.OPENS.fullmatch(before) if ":" in before or "=" in before else None
    value = patterns.BELOW.fullmatch(line) if name else None
    if name is None or value is None or not (value["q"] or len(value["indent"]) > len(name["indent"])):
        return
    kind, text = kind_of(name["name"]), value["value"]
    text = text if value["q"] else text.rstrip(",;)}]")
    if kind and is_secret_value(text, kind):
        start = value.start("value")
        yield Secret(f"generic-{kind}", start, start + len(text))


def _suspicions(text: str, start: int) -> Iterable[Secret]:
    """From here on, everything that could be a secret, without a closer check."""
    rest = text[start:]
    for secret in _providers(rest):
        yield Secret(secret.rule, start + secret.start, start + secret.end)
    for pattern in (patterns.ANY_NAMED, patterns.ANY_LONG, patterns.ANY_LOGIN, patterns.ANY_OPTION):
        for match in pattern.finditer(rest):
            yield Secret("generic-secret", start + match.start("value"), start + match.end("value"))


def _as_written(path: str, line: str, budget: _Budget, depth: int) -> Iterable[Secret]:
    """In a line as it is, and in its unescaped text: agents write lines of JSON."""
    escaped = depth < MOST_ESCAPED and "\\" in line and patterns.ESCAPED.search(line) is not None
    if escaped:
        yield from _unescaped(path, line, budget, depth)
    if escaped and patterns.DOCUMENT.match(line):
        return
    yield from _weighed(path, line, budget)


def _weighed(path: str, line: str, budget: _Budget) -> Iterable[Secret]:
    if budget.reaches(line):
        yield from chain(_providers(line), _beside_names(path, line), _disguised(line))
    else:
        yield from _suspicions(line, 0)


def _unescaped(path: str, line: str, budget: _Budget, depth: int) -> Iterable[Secret]:
    plain = patterns.ESCAPED.sub(lambda m: "\\" + BLANKS.get(m.group(1), m.group(1)), line)
    pieces = Pieces(plain, [(m.start(), m.start() + 1) for m in patterns.ESCAPED.finditer(line)])
    for secret in _everywhere(path, pieces.text, budget, depth + 1):
        start, end = pieces.span(secret.start, secret.end)
        first = secret.start == pieces.begins[pieces.at(secret.start)]
        whole = first and start > 0 and line[start - 1] == "\\"
        yield Secret(secret.rule, start - whole, end)


def could_hold_secret(path: str, line: str) -> bool:
    """A quick test: no rule matches a line without one of these."""
    return (
        patterns.RUN.search(line) is not None
        or any(map(line.__contains__, URLS))
        or "----" in line
        or "\\x" in line
        or _hints(line)
        or patterns.JOINED.search(line) is not None
        or path.lower().endswith(LOGIN_FILES)
        or "PuTTY-User-Key" in line
    )


def _in_line(path: str, line: str) -> Iterable[Secret]:
    yield from (secret for secret in _private_keys(line) if not _only_named(secret, path, line))
    budget = _Budget(line, COST_MOST)
    yield from _weighed(path, line, budget)
    if "\\" in line and patterns.ESCAPED.search(line):
        yield from (f for f in _unescaped(path, line, budget, 0) if not _only_named(f, path, line))


def _only_named(secret: Secret, path: str, line: str) -> bool:
    """Code that searches for a key's header contains no key."""
    bare = "\\n" not in line[secret.end :] and secret.end - secret.start < 60
    return bare and bool(patterns.CODE.search(path)) and bool(patterns.HEADER_CHECK.search(line))


def _private_keys(text: str) -> Iterable[Secret]:
    if "-----BEGIN" not in text and "---- BEGIN" not in text and "PuTTY-User-Key" not in text:
        return
    for pattern in patterns.PRIVATE_KEYS:
        for match in pattern.finditer(text):
            if not patterns.KEY_STAND_IN.search(text[match.start() : match.end() + 40]):
                yield Secret("private-key", match.start(), match.end())


def find_in_name(path: str) -> str | None:
    """The rule by which a file's own name is a credential of a known provider, or None."""
    return next((secret.rule for secret in _providers(path)), None)


class Provider(NamedTuple):
    """The credentials of one provider; `hint` is part of every match, in lower case."""

    name: str
    hint: str
    pattern: Lazy


_BORDERS = {
    "word": (r"(?<![A-Za-z0-9])", "", 0),
    "whole": (r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])", 0),
    "anywhere": ("", "", re.IGNORECASE),
    "as-written": ("", "", 0),
}


@cache
def providers() -> tuple[Provider, ...]:
    """The table of providers.toml, in its order."""
    text = (get_data("flyball.guard", "policies/providers.toml") or b"").decode()
    rows = chain.from_iterable(cast("dict[str, list[list[str]]]", tomllib.loads(text)).values())
    return tuple(_provider(*row) for row in rows)


def _provider(name: str, where: str, hint: str, pattern: str) -> Provider:
    start, end, flags = _BORDERS[where]
    return Provider(name, hint, Lazy(start + pattern + end, flags))


def _providers(line: str) -> Iterable[Secret]:
    if not patterns.RUN.search(line):
        return
    low = line.lower()
    for rule in providers():
        if rule.hint not in low:
            continue
        group = "v" if "v" in rule.pattern.compiled.groupindex else 0
        for match in rule.pattern.finditer(line):
            if not _is_example(match.group(group)):
                yield Secret(rule.name, match.start(group), match.end(group))


def _is_example(token: str) -> bool:
    """A token that is marked as an example."""
    body = max(re.split(r"[_.-]", token), key=len)
    is_example = patterns.EXAMPLE.search(token) is not None or patterns.KNOWN_EXAMPLE in token
    return is_example or is_monotonous(body, fold=False)


def _beside_names(path: str, line: str) -> Iterable[Secret]:
    for start in range(0, max(1, len(line) - OVERLAP), WINDOW - OVERLAP):
        for secret in _in_window(path, line[start : start + WINDOW]):
            yield Secret(secret.rule, start + secret.start, start + secret.end)


def _in_window(path: str, line: str) -> Iterable[Secret]:
    if any(map(line.__contains__, URLS)):
        yield from urls(line)
    yield from _in_login_files(path, line)
    yield from _unnamed(path, line)
    if not _hints(line) or patterns.LOCKS.search(path):
        return
    plain = patterns.DATA_URL.sub(lambda m: " " * len(m.group()), line)
    yield from headers(plain)
    yield from named(path, plain)
    yield from logins(plain)


def _unnamed(path: str, line: str) -> Iterable[Secret]:
    """A token of an unknown provider."""
    if patterns.LONG_RUN.search(line) is None or patterns.LOCKS.search(path):
        return
    for match in patterns.UNNAMED.finditer(line):
        if not patterns.PUBLIC_PREFIX.match(match.group("prefix")) and is_token_body(match.group("value")):
            yield Secret("prefixed-token", match.start(), match.end())
    for match in patterns.CLIENT.finditer(line):
        if is_token_body(match.group("value")):
            yield Secret("client-key", match.start("value"), match.end("value"))


def _in_login_files(path: str, line: str) -> Iterable[Secret]:
    """Files whose every line is a login."""
    name = path.rpartition("/")[2].lower()
    pattern = {
        ".netrc": patterns.NETRC,
        "_netrc": patterns.NETRC,
        ".pgpass": patterns.PGPASS,
        ".htpasswd": patterns.HTPASSWD,
    }.get(name)
    match = pattern.search(line) if pattern else None
    if match and not is_weak(match.group("value")[1:] or "x"):
        yield Secret("login", match.start("value"), match.end("value"))
    kind = kind_of(name.removesuffix(".txt")) if "." in name and not patterns.CODE.search(name) else ""
    alone = patterns.ALONE.match(line) if kind else None
    if alone and is_secret_value(alone.group("value"), "token"):
        yield Secret("secret-file", alone.start("value"), alone.end("value"))


def _disguised(line: str) -> Iterable[Secret]:
    """Tokens in pieces, backwards, or encoded."""
    yield from _in_pieces(line)
    if "[::-1]" in line or "reverse" in line.lower():
        for secret in _providers(line[::-1]):
            yield Secret(secret.rule, len(line) - secret.end, len(line) - secret.start)
    bare = patterns.DATA_URL.sub(lambda m: " " * len(m.group()), line)
    for match in patterns.B64.finditer(bare):
        yield from _encoded(match, from_base64(match.group()))
    for match in patterns.HEX.finditer(line) if patterns.RUN.search(line) or "\\x" in line else ():
        yield from _encoded(match, bytes.fromhex(match.group().replace("\\x", "")).decode("latin-1"))


def _encoded(match: re.Match[str], decoded: str | None) -> Iterable[Secret]:
    if decoded and decoded.isascii():
        inside = chain(_providers(decoded), named("", decoded) if decoded.isprintable() else ())
        yield from (Secret(secret.rule, match.start(), match.end()) for secret in inside)


def _in_pieces(line: str) -> Iterable[Secret]:
    """The pieces of a token that a line joins; the text between them stays."""
    seams = [match.span() for match in patterns.JOINED.finditer(line)]
    if not seams:
        return
    pieces = Pieces(line, seams)
    joined = list(_providers(pieces.text))
    whole = {secret.start for secret in _providers(line)} if joined else ()
    for secret in joined:
        for at in range(pieces.at(secret.start), pieces.at(secret.end - 1) + 1):
            start, end = pieces.kept[at]
            offset = start - pieces.begins[at]
            if offset + secret.start in whole:
                break
            first, last = offset + secret.start, offset + secret.end
            yield Secret(secret.rule, max(start, first), min(end, last))


# --- text with parts left out, and where its places are in the whole text: a secret may be cut by colour codes, by
# characters that nobody sees, by escapes or by joined strings


class Pieces:
    """What is left of a text between its seams."""

    def __init__(self, text: str, seams: list[tuple[int, int]]) -> None:
        self.kept = [(a, b) for (_, a), (b, _) in pairwise([(0, 0), *seams, (len(text), 0)]) if a < b]
        self.begins = [0, *accumulate(end - start for start, end in self.kept)][:-1]
        self.text = "".join(text[start:end] for start, end in self.kept)

    def at(self, place: int) -> int:
        """Which piece a place of the shortened text is in."""
        return bisect_right(self.begins, place) - 1

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The same part in the whole text."""
        first, last = self.at(start), self.at(end - 1)
        return self.kept[first][0] + start - self.begins[first], self.kept[last][0] + end - self.begins[last]


def visible(text: str) -> Pieces | None:
    """The text without what cannot be seen; None where all of it can."""
    seams = [match.span() for match in patterns.INVISIBLE.finditer(text)]
    return Pieces(text, seams) if seams else None


# --- lines of JSON: if only spans inside their strings are replaced, by letters, they stay JSON

Span = tuple[int, int]

_STRING = Lazy(r"\"((?:[^\"\\]|\\.)*+)\"")
_ESCAPE = Lazy(r"\\(?:u[0-9A-Fa-f]{4}|.)")


class _Line(NamedTuple):
    """A line of a text: from where to where, and in it the strings and the escapes, if it is JSON."""

    start: int
    end: int
    strings: list[Span] | None = None
    escapes: list[Span] | None = None


def within_strings(text: str, spans: Iterable[Span]) -> list[list[Span]]:
    """For each span, in order, the parts of it that can be replaced."""
    line = _Line(0, -1)
    parts: list[list[Span]] = []
    for start, end in spans:
        parts.append([])
        at = start
        while at < end:
            line = line if at <= line.end else _line_at(text, at)
            parts[-1] += _parts(line, at, min(end, line.end + 1))
            at = line.end + 1
        if _joined(parts[-1]):
            parts[-1] = [(parts[-1][0][0], parts[-1][-1][1])]
    return parts


def _joined(parts: list[Span]) -> bool:
    """Is there nothing between the parts? Then none of their lines was JSON, and they are one."""
    return len(parts) > 1 and all(a[1] == b[0] for a, b in pairwise(parts))


def _line_at(text: str, at: int) -> _Line:
    start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    end = len(text) if end < 0 else end
    line = text[start:end]
    if not _is_json(line):
        return _Line(start, end)
    strings = [(start + m.start(1), start + m.end(1)) for m in _STRING.finditer(line)]
    return _Line(start, end, strings, [(start + m.start(), start + m.end()) for m in _ESCAPE.finditer(line)])


def _is_json(line: str) -> bool:
    if line.lstrip()[:1] not in ("{", "[", '"'):
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _parts(line: _Line, start: int, end: int) -> Iterable[Span]:
    if line.strings is None or line.escapes is None:
        yield start, end
        return
    first = max(0, bisect_right(line.strings, start, key=_start_of) - 1)
    for at in range(first, bisect_right(line.strings, end - 1, key=_start_of)):
        begin, close = max(start, line.strings[at][0]), min(end, line.strings[at][1])
        if begin < close:
            yield _around(line.escapes, begin)[0], _around(line.escapes, close - 1)[1]


def _start_of(span: Span) -> Any:
    return span[0]


def _around(escapes: list[Span], at: int) -> Span:
    """The escape in which this place is, or the place alone."""
    before = bisect_right(escapes, at, key=_start_of) - 1
    return escapes[before] if before >= 0 and escapes[before][1] > at else (at, at + 1)
