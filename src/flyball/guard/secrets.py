"""Secrets in text: the shapes that providers give their credentials, and literals beside a telling name.

What the change guard refuses and what is hidden from journals and screens goes by the same rules.
"""

import base64
import binascii
import re
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from flyball.guard import secret_forms as forms
from flyball.guard.secret_rules import PRIVATE_KEYS, PROVIDERS
from flyball.guard.secret_words import is_monotonous, is_secret_value, is_weak, kind_of

WINDOW = 10_000
OVERLAP = 500
"""A longer line is read in windows, each of which begins a little before the last one ended."""

DEEPEST = 120
"""A name further than this from the beginning of a run without blanks or quotes is not looked at."""

MOST_NAMES = 400
"""So many telling names in one line are looked at; a line with more is not written by hand."""


LOGIN_FILES = ("netrc", "pgpass", "htpasswd")
"""Every line of these is a login."""


class Found(NamedTuple):
    """A secret in a text: by which rule, and where."""

    rule: str
    start: int
    end: int


def find_secret(path: str, line: str, *, diff: bool = False) -> str | None:
    """The rule by which a line holds a secret, or None. With `diff` a removed line is no new leak."""
    if diff and line[:1] == "-" and line[:5] != "-----":
        return None
    text = line[1:] if diff and line[:1] in "+ " else line
    if not could_hold_secret(path, text):
        return None
    found = next(iter(_in_line(path, text)), None)
    return found.rule if found else None


def find_secrets(text: str, path: str = "") -> list[Found]:
    """Every secret in a text, in order; overlapping ones are one, by the rule of the first."""
    found = sorted(_everywhere(path, text), key=lambda f: (f.start, -f.end))
    kept: list[Found] = []
    for one in found:
        if not kept or one.start >= kept[-1].end:
            kept.append(one)
        else:
            kept[-1] = kept[-1]._replace(end=max(kept[-1].end, one.end))
    return kept


def redact(text: str, path: str = "") -> str:
    """The text with every secret replaced by the name of its rule."""
    out: list[str] = []
    at = 0
    for found in find_secrets(text, path):
        out += (text[at : found.start], f"[redacted {found.rule}]")
        at = found.end
    return "".join((*out, text[at:]))


def _everywhere(path: str, text: str) -> Iterable[Found]:
    yield from _private_keys(text)
    start = 0
    for line in text.splitlines(keepends=True):
        for found in _providers(line):
            yield Found(found.rule, start + found.start, start + found.end)
        for found in _beside_names(path, line):
            yield Found(found.rule, start + found.start, start + found.end)
        start += len(line)


def could_hold_secret(path: str, line: str) -> bool:
    """No rule finds anything in a line without one of these; most lines have none."""
    return (
        forms.RUN.search(line) is not None
        or "://" in line
        or "-----" in line
        or "\\x" in line
        or forms.hints(line)
        or forms.JOINED.search(line) is not None
        or path.lower().endswith(LOGIN_FILES)
        or "PuTTY-User-Key" in line
    )


def _in_line(path: str, line: str) -> Iterable[Found]:
    yield from (found for found in _private_keys(line) if not _only_named(found, path, line))
    yield from _providers(line)
    yield from _beside_names(path, line)
    yield from _disguised(line)


def _only_named(found: Found, path: str, line: str) -> bool:
    """Code that looks for a key's header holds no key."""
    bare = "\\n" not in line[found.end :] and found.end - found.start < 60
    return bare and bool(forms.CODE.search(path)) and bool(forms.HEADER_CHECK.search(line))


def _private_keys(text: str) -> Iterable[Found]:
    if "-----BEGIN" not in text and "PuTTY-User-Key" not in text:
        return
    for pattern in PRIVATE_KEYS:
        for match in pattern.finditer(text):
            if not forms.KEY_STAND_IN.search(text[match.start() : match.end() + 40]):
                yield Found("private-key", match.start(), match.end())


def find_in_name(path: str) -> str | None:
    """The rule by which a file's own name is a credential of a known provider, or None."""
    return next((found.rule for found in _providers(path)), None)


def _providers(line: str) -> Iterable[Found]:
    if not forms.RUN.search(line):
        return
    low = line.lower()
    for rule in PROVIDERS:
        if rule.hint not in low:
            continue
        group = "v" if "v" in rule.pattern.compiled.groupindex else 0
        for match in rule.pattern.finditer(line):
            if not _is_example(match.group(group)):
                yield Found(rule.name, match.start(group), match.end(group))


def _is_example(token: str) -> bool:
    """A token that says of itself that it is none."""
    low = token.lower()
    body = re.split(r"[_.-]", token, maxsplit=1)[-1] or token
    said = (
        "example",
        "xxxx",
        "placeholder",
        "your",
        "dummy",
        "redacted",
        "changeme",
        "000000",
        "notreal",
        "fake",
    )
    return any(word in low for word in said) or is_monotonous(body) or forms.KNOWN_EXAMPLE in token


def _beside_names(path: str, line: str) -> Iterable[Found]:
    for start in range(0, max(1, len(line) - OVERLAP), WINDOW - OVERLAP):
        for found in _in_window(path, line[start : start + WINDOW]):
            yield Found(found.rule, start + found.start, start + found.end)


def _in_window(path: str, line: str) -> Iterable[Found]:
    if "://" in line:
        yield from _urls(line)
    yield from _in_login_files(path, line)
    if not forms.hints(line) or forms.LOCKS.search(path):
        return
    plain = forms.DATA_URL.sub(lambda m: " " * len(m.group()), line)
    yield from _headers(plain)
    yield from _named(path, plain)
    yield from _logins(plain)


def _urls(line: str) -> Iterable[Found]:
    for match in forms.URL.finditer(line):
        user, value = match.group("user").lower(), match.group("value")
        if value.lower() != user and not is_weak(value) and not _is_template(value):
            yield Found("url-credentials", match.start("value"), match.end("value"))
    for match in forms.TOKEN_URL.finditer(line):
        if is_secret_value(match.group("value"), "token") and "sentry" not in match.group("host"):
            yield Found("url-credentials", match.start("value"), match.end("value"))


def _is_template(value: str) -> bool:
    return any(mark in value for mark in ("$", "{", "}", "%s", "%(", "<", "*", "..."))


def _headers(line: str) -> Iterable[Found]:
    for match in forms.HEADER.finditer(line):
        scheme, value = match.group("scheme").lower(), match.group("value")
        if scheme == "basic":
            real = _is_real_login(value)
        else:
            real = is_secret_value(value, "token") and len(value) >= 16
        if real:
            yield Found(f"{scheme}-header", match.start("value"), match.end("value"))


def _is_real_login(value: str) -> bool:
    decoded = _decoded(value) or ""
    user, colon, password = decoded.partition(":")
    return bool(colon) and len(password) >= 4 and password != user and not is_weak(password)


def _named(path: str, line: str) -> Iterable[Found]:
    code = bool(forms.CODE.search(path))
    for core in islice(forms.CORE.finditer(line), MOST_NAMES):
        start = _start_of_name(line, core.start())
        name = line[start : core.end()]
        kind = kind_of(name)
        if kind and _is_near_space(line, start):
            yield from _beside(name, kind, line, start, core.end(), code)
    for match in forms.PHRASE.finditer(line):
        yield Found("seed-phrase", match.start("value"), match.end("value"))
    for match in forms.PROSE.finditer(line):
        if not code or _within_text(line, match.start()):
            yield from _if_secret(match, "", "token")


def _is_near_space(line: str, start: int) -> bool:
    """Names in the midst of a long run of characters belong to data."""
    return start < DEEPEST or forms.SPACE.search(line, start - DEEPEST, start) is not None


def _start_of_name(line: str, at: int) -> int:
    while at and line[at - 1] in forms.OF_NAMES:
        at -= 1
    return at


def _beside(name: str, kind: str, line: str, start: int, end: int, code: bool) -> Iterable[Found]:
    """What stands after a telling name, in each of the ways in which a value can."""
    before = line[:start][-2:]
    tails = [forms.ASSIGNED, forms.GIVEN, forms.SET_OFF, forms.PLIST, forms.NUMBER]
    if name.lower().endswith(("auth", "credentials", "creds")):
        tails.append(forms.PAIR)
    if before[-1:] == "<":
        tails.append(forms.TAG)
    if before == "${":
        tails.append(forms.FALLBACK)
    if name.startswith("--"):
        tails.append(forms.OPTION)
    if not code or _within_text(line, start):
        tails += (forms.BARE, forms.SPACED)
    for tail in tails:
        match = tail.match(line, end)
        if match and not (match.group().startswith("(") and forms.ASKS.match(name.rpartition(".")[2])):
            yield from _if_secret(match, name, kind if tail is not forms.SPACED else "token")


def _if_secret(match: re.Match[str], name: str, kind: str) -> Iterable[Found]:
    value, start = match.group("value"), match.start("value")
    bare = "q" not in match.re.groupindex
    value = value.rstrip(").]}\\") if bare else value
    if name.lower() == value.lower() or (bare and _is_expression(value)) or _is_spoken_in_base64(value):
        return
    if is_secret_value(value, kind) or _is_hidden(value):
        yield Found(f"generic-{kind}", start, start + len(value))


def _is_spoken_in_base64(value: str) -> bool:
    """Base64 of a sentence that says it is no password."""
    decoded = _decoded(value) if len(value) >= 12 and len(value) % 4 == 0 else None
    return decoded is not None and decoded.isprintable() and is_weak(decoded.rpartition(":")[2])


def _is_expression(value: str) -> bool:
    """A call, a lookup or a member rather than a literal."""
    return re.search(r"^[\w.$]+[(\[{]|^\$|\w\(|[)}\]]\.\w", value) is not None


def _is_hidden(value: str) -> bool:
    """A value in base64 that holds a password, as in a Kubernetes secret."""
    decoded = _decoded(value) if len(value) >= 12 and len(value) % 4 == 0 and value.isascii() else None
    return (
        bool(decoded)
        and decoded is not None
        and decoded.isprintable()
        and is_secret_value(decoded, "password")
    )


def _within_text(line: str, at: int) -> bool:
    """Is this place part of a literal or of a comment rather than code?"""
    before = line[:at]
    quotes = sum(before.count(mark) for mark in "\"'`")
    return quotes % 2 == 1 or forms.COMMENT.search(before) is not None


def _logins(line: str) -> Iterable[Found]:
    for pattern in (
        forms.LOGIN,
        forms.SHORT_P,
        forms.KEYSTORE,
        forms.SQL,
        forms.REQUIRE,
        forms.STDIN,
        forms.TOOLS,
    ):
        for match in pattern.finditer(line):
            if is_secret_value(match.group("value"), "password"):
                yield Found("login", match.start("value"), match.end("value"))


def _in_login_files(path: str, line: str) -> Iterable[Found]:
    """Files whose every line is a login."""
    name = path.rpartition("/")[2].lower()
    pattern = {
        ".netrc": forms.NETRC,
        "_netrc": forms.NETRC,
        ".pgpass": forms.PGPASS,
        ".htpasswd": forms.HTPASSWD,
    }.get(name)
    match = pattern.search(line) if pattern else None
    if match and not is_weak(match.group("value")[1:] or "x"):
        yield Found("login", match.start("value"), match.end("value"))


def _disguised(line: str) -> Iterable[Found]:
    """Tokens in pieces, backwards, or encoded."""
    joined = forms.JOINED.sub("", line)
    whole = Found("", 0, len(line))
    if joined != line:
        yield from (whole._replace(rule=found.rule) for found in _providers(joined))
    if "[::-1]" in line or "reverse" in line.lower():
        yield from (whole._replace(rule=found.rule) for found in _providers(line[::-1]))
    bare = forms.DATA_URL.sub("", line) if forms.has_data(line) else line
    for match in forms.B64.finditer(bare):
        decoded = _decoded(match.group())
        if decoded and decoded.isascii():
            yield from (whole._replace(rule=found.rule) for found in _providers(decoded))
    for match in forms.HEX.finditer(line) if forms.RUN.search(line) or "\\x" in line else ():
        decoded = bytes.fromhex(match.group().replace("\\x", "")).decode("latin-1")
        if decoded.isascii():
            yield from (whole._replace(rule=found.rule) for found in _providers(decoded))


def _decoded(value: str) -> str | None:
    padded = value.replace("-", "+").replace("_", "/").rstrip("=")
    try:
        raw = base64.b64decode(padded + "=" * (-len(padded) % 4), validate=True)
        return raw.decode("utf-8")
    except (binascii.Error, ValueError):
        return None
