"""Finds secrets in text: credentials of known providers, and literals beside a name that suggests a secret.

The change guard denies by the same rules by which journals and screens are redacted.
"""

import base64
import binascii
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from flyball.guard import secret_patterns as patterns
from flyball.guard.secret_pieces import INVISIBLE, Pieces, visible, within_strings
from flyball.guard.secret_providers import PRIVATE_KEYS, PROVIDERS
from flyball.guard.secret_values import (
    is_expression,
    is_monotonous,
    is_secret_value,
    is_template,
    is_token_body,
    is_weak,
    kind_of,
)

WINDOW = 10_000
OVERLAP = 500
"""A longer line is read in overlapping windows."""

DEEPEST = 120
"""A name further than this from the start of a run without spaces or quotes is ignored."""

MOST_TOIL = 48_000
"""How much of a million characters is checked in detail (see `toil`). In the rest, everything suspicious is redacted."""

AGAIN, AGAIN_AT_LEAST = 2, 2_000
"""Nested values are checked again up to this many times the line's length; beyond that they count as secrets."""

LONGEST_NAME = 200

URLS = ("://", "jdbc:oracle", "@tcp(", "@unix(")
"""Every URL with a password contains one of these."""

MOST_ESCAPED = 3
"""How often a text may be escaped inside another string."""

BLANKS = {"n": "\n", "r": "\n", "t": "\t"}

LOGIN_FILES = ("netrc", "pgpass", "htpasswd")
"""Every line of these files is a login."""


class Secret(NamedTuple):
    """A secret in a text: by which rule, and where."""

    rule: str
    start: int
    end: int


def find_secret(path: str, line: str, *, diff: bool = False) -> str | None:
    """The rule by which a line holds a secret, or None. With `diff` a removed line does not count."""
    if diff and line[:1] == "-" and line[:5] != "-----":
        return None
    text = line[1:] if diff and line[:1] in "+ " else line
    text = INVISIBLE.sub("", text)
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


def find_secrets(text: str, path: str = "", *, most: int = MOST_TOIL) -> list[Secret]:
    """Every secret in a text, in order. Overlapping ones are one, with the rule of the first."""
    seen = visible(text)
    if seen is None:
        return _secrets_of(text, path, most)
    return [Secret(one.rule, *seen.span(one.start, one.end)) for one in _secrets_of(seen.text, path, most)]


def _secrets_of(text: str, path: str, most: int) -> list[Secret]:
    secrets = _merged(_everywhere(path, text, _Care(text, most)))
    parts = within_strings(text, [(one.start, one.end) for one in secrets])
    return _merged(Secret(one.rule, *part) for one, some in zip(secrets, parts, strict=True) for part in some)


def _merged(secrets: Iterable[Secret]) -> list[Secret]:
    kept: list[Secret] = []
    for one in sorted(secrets, key=lambda f: (f.start, -f.end)):
        if not kept or one.start >= kept[-1].end:
            kept.append(one)
        else:
            kept[-1] = kept[-1]._replace(end=max(kept[-1].end, one.end))
    return kept


def redact(text: str, path: str = "", *, most: int = MOST_TOIL) -> str:
    """The text with every secret replaced by the name of its rule."""
    out: list[str] = []
    at = 0
    for secret in find_secrets(text, path, most=most):
        out += (text[at : secret.start], f"[redacted {secret.rule}]")
        at = secret.end
    return "".join((*out, text[at:]))


class _Care:
    """The budget for checking a text in detail: a text full of names must not block everything."""

    def __init__(self, text: str, most: int) -> None:
        self.left = most * max(len(text), 1_000_000) // 1_000_000

    def reaches(self, line: str) -> bool:
        self.left -= toil(line)
        return self.left >= 0


def toil(line: str) -> int:
    """The cost of checking a line: itself, what may be encoded, and most of all every name that suggests a secret."""
    names = len(patterns.CORE.findall(line)) + line.count("-u") if patterns.hints(line) else 0
    return 1 + 2 * len(patterns.B64.findall(line)) + 3 * names + 2 * (names > 0)


def _everywhere(path: str, text: str, care: _Care, depth: int = 0) -> Iterable[Secret]:
    """Lines end at "\\n" only: other line breaks may be part of JSON."""
    yield from _private_keys(text)
    start, before = 0, ""
    for line in text.split("\n"):
        for secret in below_name(before, line):
            yield Secret(secret.rule, start + secret.start, start + secret.end)
        before = line
        if could_hold_secret(path, line):
            if care.left < 0:
                yield from _hastily(text, start)
                return
            for secret in _as_written(path, line, care, depth):
                yield Secret(secret.rule, start + secret.start, start + secret.end)
        start += len(line) + 1


def below_name(before: str, line: str) -> Iterable[Secret]:
    """A value on the line after its name, as YAML allows."""
    name = patterns.OPENS.fullmatch(before) if before.rstrip()[-1:] in ":|>-+" else None
    value = patterns.BELOW.fullmatch(line) if name else None
    kind = kind_of(name["name"]) if name and value and len(value["indent"]) > len(name["indent"]) else ""
    if value and kind and is_secret_value(value["value"], kind):
        yield Secret(f"generic-{kind}", *value.span("value"))


def _hastily(text: str, start: int) -> Iterable[Secret]:
    """From here on, everything that could be a secret, without a closer check."""
    rest = text[start:]
    for secret in _providers(rest):
        yield Secret(secret.rule, start + secret.start, start + secret.end)
    for pattern in (patterns.ANY_NAMED, patterns.ANY_LONG, patterns.ANY_LOGIN, patterns.ANY_OPTION):
        for match in pattern.finditer(rest):
            yield Secret("generic-secret", start + match.start("value"), start + match.end("value"))


def _as_written(path: str, line: str, care: _Care, depth: int) -> Iterable[Secret]:
    """In a line as it is, and in its unescaped text: agents write lines of JSON."""
    escaped = depth < MOST_ESCAPED and "\\" in line and patterns.ESCAPED.search(line) is not None
    if escaped:
        yield from _unescaped(path, line, care, depth)
    if escaped and patterns.DOCUMENT.match(line):
        return
    yield from _weighed(path, line, care)


def _weighed(path: str, line: str, care: _Care) -> Iterable[Secret]:
    if care.reaches(line):
        yield from chain(_providers(line), _beside_names(path, line), _disguised(line))
    else:
        yield from _hastily(line, 0)


def _unescaped(path: str, line: str, care: _Care, depth: int) -> Iterable[Secret]:
    plain = patterns.ESCAPED.sub(lambda m: "\\" + BLANKS.get(m.group(1), m.group(1)), line)
    pieces = Pieces(plain, [(m.start(), m.start() + 1) for m in patterns.ESCAPED.finditer(line)])
    for secret in _everywhere(path, pieces.text, care, depth + 1):
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
        or patterns.hints(line)
        or patterns.JOINED.search(line) is not None
        or path.lower().endswith(LOGIN_FILES)
        or "PuTTY-User-Key" in line
    )


def _in_line(path: str, line: str) -> Iterable[Secret]:
    yield from (secret for secret in _private_keys(line) if not _only_named(secret, path, line))
    care = _Care(line, MOST_TOIL)
    yield from _weighed(path, line, care)
    if "\\" in line and patterns.ESCAPED.search(line):
        yield from (f for f in _unescaped(path, line, care, 0) if not _only_named(f, path, line))


def _only_named(secret: Secret, path: str, line: str) -> bool:
    """Code that searches for a key's header contains no key."""
    bare = "\\n" not in line[secret.end :] and secret.end - secret.start < 60
    return bare and bool(patterns.CODE.search(path)) and bool(patterns.HEADER_CHECK.search(line))


def _private_keys(text: str) -> Iterable[Secret]:
    if "-----BEGIN" not in text and "---- BEGIN" not in text and "PuTTY-User-Key" not in text:
        return
    for pattern in PRIVATE_KEYS:
        for match in pattern.finditer(text):
            if not patterns.KEY_STAND_IN.search(text[match.start() : match.end() + 40]):
                yield Secret("private-key", match.start(), match.end())


def find_in_name(path: str) -> str | None:
    """The rule by which a file's own name is a credential of a known provider, or None."""
    return next((secret.rule for secret in _providers(path)), None)


def _providers(line: str) -> Iterable[Secret]:
    if not patterns.RUN.search(line):
        return
    low = line.lower()
    for rule in PROVIDERS:
        if rule.hint not in low:
            continue
        group = "v" if "v" in rule.pattern.compiled.groupindex else 0
        for match in rule.pattern.finditer(line):
            if not _is_example(match.group(group)):
                yield Secret(rule.name, match.start(group), match.end(group))


def _is_example(token: str) -> bool:
    """A token that is marked as an example."""
    body = max(re.split(r"[_.-]", token), key=len)
    named = patterns.EXAMPLE.search(token) is not None or patterns.KNOWN_EXAMPLE in token
    return named or is_monotonous(body, fold=False)


def _beside_names(path: str, line: str) -> Iterable[Secret]:
    for start in range(0, max(1, len(line) - OVERLAP), WINDOW - OVERLAP):
        for secret in _in_window(path, line[start : start + WINDOW]):
            yield Secret(secret.rule, start + secret.start, start + secret.end)


def _in_window(path: str, line: str) -> Iterable[Secret]:
    if any(map(line.__contains__, URLS)):
        yield from _urls(line)
    yield from _in_login_files(path, line)
    yield from _unnamed(path, line)
    if not patterns.hints(line) or patterns.LOCKS.search(path):
        return
    plain = patterns.DATA_URL.sub(lambda m: " " * len(m.group()), line)
    yield from _headers(plain)
    yield from _named(path, plain)
    yield from _logins(plain)


def _urls(line: str) -> Iterable[Secret]:
    for match in patterns.SLASHED_URL.finditer(line):
        if is_secret_value(match.group("value"), "password"):
            yield Secret("url-credentials", match.start("value"), match.end("value"))
    for match in patterns.URL.finditer(line):
        user, value = match.group("user").lower(), match.group("value")
        if value.lower() != user and not is_weak(value) and not is_template(value):
            yield Secret("url-credentials", match.start("value"), match.end("value"))
    for match in chain(patterns.ORACLE.finditer(line), patterns.DSN.finditer(line)):
        if match.group("value") != match.group("user") and not is_weak(match.group("value")):
            yield Secret("url-credentials", match.start("value"), match.end("value"))
    for match in patterns.TOKEN_URL.finditer(line):
        if is_secret_value(match.group("value"), "token") and "sentry" not in match.group("host"):
            yield Secret("url-credentials", match.start("value"), match.end("value"))


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


def _headers(line: str) -> Iterable[Secret]:
    for match in patterns.HEADER.finditer(line):
        scheme, value = match.group("scheme").lower(), match.group("value")
        if scheme == "basic":
            real = _is_real_login(value)
        else:
            real = is_secret_value(value, "token") and len(value) >= 16
        if real:
            yield Secret(f"{scheme}-header", match.start("value"), match.end("value"))
    for match in patterns.SCHEME.finditer(line):
        if is_secret_value(match.group("value"), "token"):
            yield Secret("authorization-header", match.start("value"), match.end("value"))


def _is_real_login(value: str) -> bool:
    decoded = _decoded(value) or ""
    user, colon, password = decoded.partition(":")
    return bool(colon) and len(password) >= 4 and password != user and not is_weak(password)


def _named(path: str, line: str) -> Iterable[Secret]:
    code = bool(patterns.CODE.search(path))
    again = _Again(len(line))
    for core in patterns.CORE.finditer(line):
        start = _start_of_name(line, core.start())
        name = line[start : core.end()]
        kind = kind_of(name)
        if kind and _is_near_space(line, start) and not line.endswith("checksum/", 0, start):
            yield from _beside(name, kind, line, start, core.end(), code, again)
    for match in patterns.PHRASE.finditer(line):
        yield Secret("seed-phrase", match.start("value"), match.end("value"))
    for match in patterns.PROSE.finditer(line):
        if not code or _within_text(line, match.start()):
            yield from _if_secret(match, "", "token")


def _is_near_space(line: str, start: int) -> bool:
    """A name inside a long run of characters is part of data."""
    return start < DEEPEST or patterns.SPACE.search(line, start - DEEPEST, start) is not None


class _Again:
    """How much of a line may still be checked twice."""

    def __init__(self, length: int) -> None:
        self.left, self.until = AGAIN * length + AGAIN_AT_LEAST, 0

    def allows(self, start: int, end: int) -> bool:
        self.left -= max(0, min(end, self.until) - start)
        self.until = max(self.until, end)
        return self.left >= 0


def _start_of_name(line: str, at: int) -> int:
    first = max(0, at - LONGEST_NAME)
    while at > first and line[at - 1] in patterns.OF_NAMES:
        at -= 1
    return at


def _beside(
    name: str, kind: str, line: str, start: int, end: int, code: bool, again: _Again
) -> Iterable[Secret]:
    """What follows a name that suggests a secret, in each form that a value can have."""
    before = line[:start][-2:]
    tails = [patterns.ASSIGNED, patterns.GIVEN, patterns.SET_OFF, patterns.PLIST, patterns.NUMBER]
    if name.lower().endswith(("auth", "credentials", "creds")):
        tails.append(patterns.PAIR)
    if before[-1:] == "<":
        tails.append(patterns.TAG)
    if before in ('="', "='"):
        tails.append(patterns.NAMED_TAG)
    if patterns.HEAD.search(line[max(0, start - 16) : start]) or not line[:start].strip(" \t+"):
        tails.append(patterns.LEADING)
    if before == "${":
        tails.append(patterns.FALLBACK)
    if name.startswith("--") or (name.startswith("-") and not code):
        tails.append(patterns.OPTION)
    if not code or _within_text(line, start):
        tails += (patterns.BARE, patterns.SPACED)
    for tail in tails:
        match = tail.match(line, end)
        if match is None or (match.group().startswith("(") and patterns.ASKS.match(name.rpartition(".")[2])):
            continue
        if again.allows(*match.span("value")):
            yield from _if_secret(match, name, kind if tail is not patterns.SPACED else "token")
        else:
            yield Secret(f"generic-{kind}", *match.span("value"))


def _if_secret(match: re.Match[str], name: str, kind: str) -> Iterable[Secret]:
    value, start = match.group("value"), match.start("value")
    bare = "q" not in match.re.groupindex
    value = value.rstrip(").]}\\") if bare else value
    if name.lower() == value.lower() or (bare and is_expression(value)) or _is_spoken_in_base64(value):
        return
    if is_secret_value(value, kind) or _is_hidden(value):
        yield Secret(f"generic-{kind}", start, start + len(value))


def _is_spoken_in_base64(value: str) -> bool:
    """Base64 of a sentence that says it is no password."""
    decoded = _decoded(value) if len(value) >= 12 and len(value) % 4 == 0 else None
    return decoded is not None and decoded.isprintable() and is_weak(decoded.rpartition(":")[2])


def _is_hidden(value: str) -> bool:
    """A value in base64 that holds a password, as in a Kubernetes secret."""
    decoded = _decoded(value) if len(value) >= 12 and len(value) % 4 == 0 and value.isascii() else None
    return bool(decoded) and decoded.isprintable() and is_secret_value(decoded, "password")


def _within_text(line: str, at: int) -> bool:
    """Is this place part of a literal or of a comment rather than code?"""
    quotes = sum(line.count(mark, 0, at) for mark in "\"'`")
    return quotes % 2 == 1 or _first_comment(line) <= at


@lru_cache(maxsize=2)
def _first_comment(line: str) -> int:
    """Where the first comment's text begins; beyond the end if there is none."""
    match = patterns.COMMENT.search(line)
    return match.end() if match else len(line) + 1


def _logins(line: str) -> Iterable[Secret]:
    for pattern in (
        patterns.LOGIN,
        patterns.SHORT_P,
        patterns.KEYSTORE,
        patterns.SQL,
        patterns.REQUIRE,
        patterns.STDIN,
        patterns.TOOLS,
        patterns.CALLS,
        patterns.CIPHERS,
        patterns.NETRC_LINE,
        patterns.WALLET,
    ):
        for match in pattern.finditer(line):
            value = match.group("value")
            sure = pattern is patterns.SQL or pattern is patterns.REQUIRE
            if is_secret_value(value, "password") or (sure and not is_weak(value)):
                yield Secret("login", match.start("value"), match.end("value"))


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
    bare = patterns.DATA_URL.sub(lambda m: " " * len(m.group()), line) if patterns.has_data(line) else line
    for match in patterns.B64.finditer(bare):
        yield from _encoded(match, _decoded(match.group()))
    for match in patterns.HEX.finditer(line) if patterns.RUN.search(line) or "\\x" in line else ():
        yield from _encoded(match, bytes.fromhex(match.group().replace("\\x", "")).decode("latin-1"))


def _encoded(match: re.Match[str], decoded: str | None) -> Iterable[Secret]:
    if decoded and decoded.isascii():
        inside = chain(_providers(decoded), _named("", decoded) if decoded.isprintable() else ())
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


def _decoded(value: str) -> str | None:
    padded = value.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        raw = base64.b64decode(padded + "=" * (-len(padded) % 4), validate=True)
        return raw.decode("utf-8")
    except (binascii.Error, ValueError):
        return None
