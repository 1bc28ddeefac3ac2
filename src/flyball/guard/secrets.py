"""Secrets in text: the shapes that providers give their credentials, and literals beside a telling name.

What the change guard refuses and what is hidden from journals and screens goes by the same rules.
"""

import base64
import binascii
import re
from collections.abc import Iterable
from typing import NamedTuple

from flyball.guard.secret_rules import PRIVATE_KEYS, PROVIDERS
from flyball.guard.secret_words import is_monotonous, is_secret_value, is_weak, kind_of

LONGEST_LINE = 20_000
"""Longer lines are data; only providers' shapes are looked for there."""


class Found(NamedTuple):
    """A secret in a text: by which rule, and where."""

    rule: str
    start: int
    end: int


_CODE = re.compile(
    r"\.(?:py|pyi|js|jsx|ts|tsx|mjs|cjs|go|rs|java|kt|kts|scala|rb|php|c|h|cc|cpp|hpp|cs|swift|dart|lua|ex|exs|"
    r"clj|hs|ml|vue|svelte|groovy|gradle|m|mm|jl|r|pl|pm|sol|zig|nim|erl|fs|vb|proto|graphql|prisma)$",
    re.IGNORECASE,
)
_LOCKS = re.compile(
    r"(?:^|/)(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.ya?ml|bun\.lockb?|poetry\.lock|"
    r"uv\.lock|pdm\.lock|pipfile\.lock|cargo\.lock|go\.sum|gemfile\.lock|composer\.lock|mix\.lock|flake\.lock|"
    r"[\w.-]*\.lock|packages\.lock\.json|podfile\.lock|pubspec\.lock|deno\.lock|[\w.-]+\.min\.(?:js|css)|[\w.-]+\.map)$",
    re.IGNORECASE,
)
_HINT = re.compile(
    r"pass|pwd|secret|token|key|cred|auth|pw|psk|bearer|basic|jwt|mnemonic|seed|phrase|sessionid|cookie|pat\b|dsn|sas|"
    r"-u\s|webhook|identified|redis-cli",
    re.IGNORECASE,
)

_CORE = re.compile(
    r"(?:pass|pwd|secret|token|key|cred|auth|pw|psk|jwt|bearer|sessionid|pat|dsn|sas|cookie|webhook)[\w$.-]*",
    re.IGNORECASE,
)
_OF_NAMES = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$@.-")
_QUOTED = r"(?:[bBrRuUfF@$]{0,2})(?P<q>\\?[\"'`])(?P<value>(?:(?!(?P=q))[^\n]){1,4096}?)(?P=q)"
_TYPE = r"(?:\s*:\s*(?:&\s*)?(?:'static\s+)?[A-Za-z][\w\[\]., |?<>&]{0,40}?)?"
_ASSIGNED = re.compile(r"\\?[\"'\]\)`]{0,3}" + _TYPE + r"\s*(?:\?\?=|\|\|=|:=|=>|={1,3}|!=|:)\s*" + _QUOTED)
_GIVEN = re.compile(
    r"(?:[\"'`]\s*,|\s*\(|[\"'`)\]]{0,3}\s*(?:\|\||\?\?|\bor\b)|[\"'`]?,?\s+value\s*=)\s*" + _QUOTED
)
_BARE = re.compile(r"[\"'\]`]{0,2}\s*(?:=>|:=|=|:)\s*(?P<value>[^\s\"'`,;<>]{6,})")
_OPTION = re.compile(r"[ =]+[\"']?(?P<value>[^\s\"'-][^\s\"']{5,})")
_SPACED = re.compile(r"\s+(?P<value>[A-Za-z0-9+/_-]{20,}={0,2})(?=[\s\"']|$)")
_PAIR = re.compile(r"\s*=\s*[(\[]\s*[\"'][^\"']*[\"']\s*,\s*" + _QUOTED)
_SET_OFF = re.compile(r"(?:\s+As\s+\w+\s*=|[\"']?\s*\{\s*default\s*=)\s*" + _QUOTED)
_PLIST = re.compile(r"</key>\s*<string>(?P<value>[^<>\s]{6,})</")
_NUMBER = re.compile(r"\s*(?:=|:)\s*(?P<value>0x[0-9a-fA-F]{64})\b")
_TAG = re.compile(r"(?:\s[^>]{0,200})?>(?P<value>[^<>\s]{6,})</")
_FALLBACK = re.compile(r":?[-=](?P<value>[^}\s]{6,})\}")
_ASKS = re.compile(
    r"(?i)(?:get|fetch|load|read|find|has|is|lookup|validate|check|verify|list|delete|create)_?[A-Z_a-z]"
)
"""A function of such a name is given the name of a secret, not the secret."""
_PHRASE = re.compile(
    r"(?i)(?:mnemonic|seed[_ -]?phrase|recovery[_ -]?phrase)\w*[\"']?\s*[:=]\s*[\"']?(?P<value>(?:[a-z]{3,8} ){11,23}[a-z]{3,8})"
)
_PROSE = re.compile(
    r"(?i)\b(?:password|passwd|passphrase|pw|token|secret)\s+(?:is|was|=|to)\s*:?\s+[\"'`]?(?P<value>[^\s\"'`]{8,})"
)

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,30})://(?P<user>[^\s:/@\"'<>]{0,100}):(?P<value>[^\s/\"'<>]{2,200})@(?P<host>[^\s\"'/@:]+)"
)
_TOKEN_URL = re.compile(r"https?://(?P<value>[A-Za-z0-9_-]{20,200})(?::x-oauth-basic)?@(?P<host>[\w.-]+)/")
_HEADER = re.compile(
    r"(?i)\b(?P<scheme>bearer|basic|token|apikey|negotiate)\s+(?P<value>[A-Za-z0-9_.~+/:=-]{8,4096})"
)
_LOGIN = re.compile(r"(?:^|\s)(?:-u|--user)[ =]?[\"']?(?P<user>[\w.@-]+):(?P<value>[^\s\"'@]{4,})")
_SHORT_P = re.compile(
    r"\b(?:mysql|mysqldump|mysqladmin|mariadb|sshpass|docker\s+login|helm\s+registry\s+login|smbclient|7z|unzip|zip|psql)\b.*?\s-p\s?[\"']?(?P<value>[^\s\"'-][^\s\"']{5,})"
)
_TOOLS = re.compile(
    r"\b(?:redis-cli\b.*?\s-a|openssl\b.*?\s-(?:k|pass\w*\s+pass:)|htpasswd\s+-\w*b\w*\s+\S+\s+\S+|ConvertTo-SecureString(?:\s+-String)?)"
    r"\s*[\"']?(?P<value>[^\s\"'-][^\s\"']{5,})"
)
_PGPASS = re.compile(r"^\s*\+?[^:\s]+:[^:\s]+:[^:\s]+:[^:\s]+:(?P<value>[^:\s]{4,})$")
_HTPASSWD = re.compile(r"^\s*\+?[^:\s]+:(?P<value>(?:\$|\{SHA\})\S{10,})$")
_SQL = re.compile(
    r"(?i)\b(?:identified\s+(?:with\s+\w+\s+)?by|(?:with\s+)?(?:encrypted\s+)?password)\s+'(?P<value>[^'\s]{6,})'"
)
_REQUIRE = re.compile(
    r"^\s*\+?\s*(?:requirepass|masterauth|rpcpassword|bindpw|rootpw)[\s=]+[\"']?(?P<value>[^\s\"']{6,})"
)
_STDIN = re.compile(
    r"\becho\s+(?:-n\s+)?[\"']?(?P<value>[^\s\"'$]{6,})[\"']?\s*\|.*(?:--password-stdin|sudo\s+-S|--passphrase-fd)"
)
_NETRC = re.compile(r"\bpassword\s+(?P<value>\S{6,})")
_KEYSTORE = re.compile(r"(?:^\+?|:)_(?:auth|authToken|password)\s*=\s*[\"']?(?P<value>[^\s\"'$<{]{8,})")
_DATA_URL = re.compile(
    r"data:[\w/+.-]+;base64,[A-Za-z0-9+/=]+|\b(?:sha(?:1|256|384|512)|md5)[-:=][A-Za-z0-9+/=]{20,}"
)
_JOINED = re.compile(r"[\"'`]\s*(?:\+|\.|\.\.|<>|&|,)?\s*[fbru]?[\"'`]")
_B64 = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{24,4096}={0,2}")
_HEX = re.compile(
    r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}){20,2048}(?![0-9A-Fa-f])|(?:\\x[0-9A-Fa-f]{2}){20,2048}"
)
_COMMENT = re.compile(r"^\s*\+?\s*(?:#(?!\s*(?:define|include|if|el|pragma|undef))|\*|--|;)|//|/\*|\s# ")
_HEADER_CHECK = re.compile(
    r"(?i)startswith|starts_with|hasprefix|\.includes|contains|indexof|\bin\s+\w+|re\.(?:compile|search|match)|grep|\.test\(|assert|pattern|regex|==|!="
)
_RUN = re.compile(r"[A-Za-z0-9_+/=~%-]{15}")
_KEY_STAND_IN = re.compile(
    r"KEY(?: BLOCK)?-----[\s\\nr\"'+]{0,12}(?:X{3,}|x{3,}|\.{3}|<|\$\{|\{\{|YOUR|\*{3}|\[|(\w)\1{3}\W)"
)
_KNOWN_EXAMPLE = "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"


def find_secret(path: str, line: str, *, diff: bool = False) -> str | None:
    """The rule by which a line holds a secret, or None. With `diff` a removed line is no new leak."""
    if diff and line[:1] == "-" and line[:5] != "-----":
        return None
    text = line[1:] if diff and line[:1] in "+ " else line
    found = next(iter(_in_line(path, text)), None)
    return found.rule if found else None


def find_secrets(text: str, path: str = "") -> list[Found]:
    """Every secret in a text, in order; of overlapping ones the first and longest."""
    found = sorted(_everywhere(path, text), key=lambda f: (f.start, -f.end))
    kept: list[Found] = []
    for one in found:
        if not kept or one.start >= kept[-1].end:
            kept.append(one)
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


def _in_line(path: str, line: str) -> Iterable[Found]:
    yield from (found for found in _private_keys(line) if not _only_named(found, path, line))
    yield from _providers(line)
    yield from _beside_names(path, line)
    yield from _disguised(line)


def _only_named(found: Found, path: str, line: str) -> bool:
    """Code that looks for a key's header holds no key."""
    bare = "\\n" not in line[found.end :] and found.end - found.start < 60
    return bare and bool(_CODE.search(path)) and bool(_HEADER_CHECK.search(line))


def _private_keys(text: str) -> Iterable[Found]:
    if "-----BEGIN" not in text and "PuTTY-User-Key" not in text:
        return
    for pattern in PRIVATE_KEYS:
        for match in pattern.finditer(text):
            if not _KEY_STAND_IN.search(text[match.start() : match.end() + 40]):
                yield Found("private-key", match.start(), match.end())


def _providers(line: str) -> Iterable[Found]:
    if not _RUN.search(line):
        return
    low = line.lower()
    for rule in PROVIDERS:
        if rule.hint not in low:
            continue
        group = "v" if "v" in rule.pattern.groupindex else 0
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
    return any(word in low for word in said) or is_monotonous(body) or _KNOWN_EXAMPLE in token


def _beside_names(path: str, line: str) -> Iterable[Found]:
    if len(line) > LONGEST_LINE:
        return
    if "://" in line:
        yield from _urls(line)
    yield from _in_login_files(path, line)
    if not _HINT.search(line) or _LOCKS.search(path):
        return
    plain = _DATA_URL.sub(lambda m: " " * len(m.group()), line)
    yield from _headers(plain)
    yield from _named(path, plain)
    yield from _logins(plain)


def _urls(line: str) -> Iterable[Found]:
    for match in _URL.finditer(line):
        user, value = match.group("user").lower(), match.group("value")
        if value.lower() != user and not is_weak(value) and not _is_template(value):
            yield Found("url-credentials", match.start("value"), match.end("value"))
    for match in _TOKEN_URL.finditer(line):
        if is_secret_value(match.group("value"), "token") and "sentry" not in match.group("host"):
            yield Found("url-credentials", match.start("value"), match.end("value"))


def _is_template(value: str) -> bool:
    return any(mark in value for mark in ("$", "{", "}", "%s", "%(", "<", "*", "..."))


def _headers(line: str) -> Iterable[Found]:
    for match in _HEADER.finditer(line):
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
    code = bool(_CODE.search(path))
    for core in _CORE.finditer(line):
        start = _start_of_name(line, core.start())
        name = line[start : core.end()]
        kind = kind_of(name)
        if kind:
            yield from _beside(name, kind, line, start, core.end(), code)
    for match in _PHRASE.finditer(line):
        yield Found("seed-phrase", match.start("value"), match.end("value"))
    for match in _PROSE.finditer(line):
        if not code or _within_text(line, match.start()):
            yield from _if_secret(match, "", "token")


def _start_of_name(line: str, at: int) -> int:
    while at and line[at - 1] in _OF_NAMES:
        at -= 1
    return at


def _beside(name: str, kind: str, line: str, start: int, end: int, code: bool) -> Iterable[Found]:
    """What stands after a telling name, in each of the ways in which a value can."""
    before = line[:start][-2:]
    tails = [_ASSIGNED, _GIVEN, _SET_OFF, _PLIST, _NUMBER]
    if name.lower().endswith(("auth", "credentials", "creds")):
        tails.append(_PAIR)
    if before[-1:] == "<":
        tails.append(_TAG)
    if before == "${":
        tails.append(_FALLBACK)
    if name.startswith("--"):
        tails.append(_OPTION)
    if not code or _within_text(line, start):
        tails += (_BARE, _SPACED)
    for tail in tails:
        match = tail.match(line, end)
        if match and not (match.group().startswith("(") and _ASKS.match(name.rpartition(".")[2])):
            yield from _if_secret(match, name, kind if tail is not _SPACED else "token")


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
    return quotes % 2 == 1 or _COMMENT.search(before) is not None


def _logins(line: str) -> Iterable[Found]:
    for pattern in (_LOGIN, _SHORT_P, _KEYSTORE, _SQL, _REQUIRE, _STDIN, _TOOLS):
        for match in pattern.finditer(line):
            if is_secret_value(match.group("value"), "password"):
                yield Found("login", match.start("value"), match.end("value"))


def _in_login_files(path: str, line: str) -> Iterable[Found]:
    """Files whose every line is a login."""
    name = path.rpartition("/")[2].lower()
    pattern = {".netrc": _NETRC, "_netrc": _NETRC, ".pgpass": _PGPASS, ".htpasswd": _HTPASSWD}.get(name)
    match = pattern.search(line) if pattern else None
    if match and not is_weak(match.group("value")[1:] or "x"):
        yield Found("login", match.start("value"), match.end("value"))


def _disguised(line: str) -> Iterable[Found]:
    """Tokens in pieces, backwards, or encoded."""
    joined = _JOINED.sub("", line)
    whole = Found("", 0, len(line))
    if joined != line:
        yield from (whole._replace(rule=found.rule) for found in _providers(joined))
    if "[::-1]" in line or "reverse" in line.lower():
        yield from (whole._replace(rule=found.rule) for found in _providers(line[::-1]))
    for match in _B64.finditer(_DATA_URL.sub("", line)):
        decoded = _decoded(match.group())
        if decoded and decoded.isascii():
            yield from (whole._replace(rule=found.rule) for found in _providers(decoded))
    for match in _HEX.finditer(line):
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
