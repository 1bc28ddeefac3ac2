"""A literal beside a name: does the name suggest a secret, and does the value look like one?

Only integers decide: lengths, kinds of characters, how much of the value reads as words.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain, pairwise
from typing import NamedTuple

from flyball.guard import secret_patterns as patterns, word_set
from flyball.reading.terminal import Lazy, from_base64


class Secret(NamedTuple):
    """A secret in a text: by which rule, and where."""

    rule: str
    start: int
    end: int


DEEPEST = 120
"""A name further than this from the start of a run without spaces or quotes is ignored."""
LONGEST_NAME = 200
AGAIN, AGAIN_AT_LEAST = 2, 2_000
"""Nested values are checked again up to this many times the line's length; beyond that they count as secrets."""

PASSWORDS = word_set("""
    password passwd pwd passphrase passcode pass pw psk passwort userpass dbpass storepass keypass sshpass
    mypass mailpass smtppass rootpass ftppass adminpass passwords kennwort
""")
LAST_ONLY = word_set("pass pw psk pat auth sas jwt cookie webhook dsn bearer")
"""Words that suggest a secret only at the end of a name."""
TELLING = word_set("""
    secret token apikey credential credentials bearer jwt authtoken accesstoken secretkey accesskey
    privatekey authkey apitoken pat clientsecret sessionid auth authorization sas dsn creds cred
    cookie webhook mnemonic secrets tokens
""")
KEY_KINDS = word_set("""
    api access secret private auth encryption encrypt encrypted signing sign master account client
    storage shared service deploy license hmac jwt session app application consumer subscription
    admin root aws ssh webhook aes crypto cipher token server functions host primary registry write
    openai anthropic stripe sendgrid twilio datadog algolia azure google gcp preshared tls ssl rsa enc
    decryption decrypt cookie gemini mistral cohere mailgun sentry github slack groq openrouter rapidapi
    mapbox firebase supabase pinecone wandb hf dd cf maps vapid
""")
PLAIN_KEYS = word_set("""
    cache primary foreign sort partition object query lookup group row item map dict public idempotency dedupe
    dedup registry storage state translation message i18n label feature index unique composite candidate natural
    surrogate hash range routing ordering order search
""")
"""Keys that are not secret."""
PASSIVE_ENDINGS = word_set("""
    id ids name names url uri urls path paths file files filename type types count field fields
    label header headers prefix suffix hash hashed length len size ttl expiry expires expiration
    limit policy regex pattern format column title hint placeholder message error errors help text
    desc description sha sha1 sha256 sha512 digest checksum fingerprint algorithm alg endpoint
    endpoints provider class selector ref arn version env var variable store manager service factory
    validator rules schema input form page route button link index idx position pos kind scope
    scopes audience issuer location dir directory folder mode strength min max usage public pub
    budget cost price limits address addr symbol decimals mgr realm encoder hasher stream span spans char chars kid at date
""")

_CAMEL = Lazy(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_WORDS = Lazy(r"[A-Z]?[a-z]{3,}|[A-Z]{4,}")
_VOWELS = Lazy(r"[aeiouyAEIOUY]")

_SAID = Lazy(
    r"(?i)example|sample|dummy|placeholder|change[-_ ]?(?:me|this|it)\b|changeme|your[-_ ]|yourpass|"
    r"replace[-_ ]|"
    r"insert[-_ ]|redacted|not[-_ ]?(?:a[-_ ]?)?(?:real|secret|set)|x{4,}|\*{3,}|\.{3}|foobar|"
    r"goes[-_ ]?here|^<|<\w[\w -]*>|>$"
)
"""Words that mark a value as a placeholder, however long it is."""
_DUMMY = Lazy(
    r"(?i)fake|[-_ ]your|\bmy[-_ ]|^my(?:pass|pw|secret|token|key|api|db|app|user)\w*$|replace|todo|fixme|\btbd\b|lorem|dev[-_]?only|\bfoo|\bbar\b|test|mock|stub|"
    r"invalid|unused|"
    r"ci[-_]only|local[-_]?dev|default|[-_]here\b|secret[-_]?(?:key|token|value)|password|insecure|unsafe|"
    r"^(?:super[-_]?|top[-_]?)?secret\w{0,3}$|^p(?:a|@|4)ssw(?:o|0)rd\W?\d{0,4}\W?$|^s3cr(?:e|3)t$|"
    r"^(?:abc|qwerty|letmein|admin|root|guest|user|pass|pwd|pw|demo|none|null|true|false|undefined|nil|"
    r"string|str|"
    r"postgres|postgresql|mysql|redis|rabbit|mongo|minio|minioadmin|docker|key|token|username|"
    r"name)\d{0,4}!?$|"
    r"^(?:abc|xyz|123)[-_]?(?:def|123|456|abc)"
)
_TERM = Lazy(
    r"(?i)^(?:base(?:16|32|58|64)(?:url)?|utf-?(?:8|16|32)|sha-?\d+|md5|aes-?\d*(?:-\w+)*|"
    r"[hreps]s(?:256|384|512)|"
    r"ed25519|latin-?1|oauth2?|http2?|ipv[46]|win(?:32|64)|x86_64|arm64|iso-?8859-?\d+|argon2\w*|"
    r"bcrypt\w*|pbkdf2\w*)$"
)
"""Technical terms with digits in them."""
_LOOKUP = Lazy(
    r"^(?:\\x[0-9a-f]{2}|\$(?:\w+$|\W)|\{|\[|%(?:\w+%|[sd]\b|\()|#\{|[&*!@][A-Za-z_.-]*\d?\W?$|~/|\.{1,2}/|file:|https?:|arn:|vault:|op://|ssm:|"
    r"ref\+|env[:.(]|sops|ENC\[|"
    r"projects/|secretRef|secretKeyRef|AQICAH|gAAAA|Ag[A-D][\w+/]{50})|os\.environ|getenv|process\.env|System\.get|ENV\[|"
    r"\$\{|\{\{|<%|\(\)|config\(|secrets?\.|vault\.|import\.meta"
)
_PATH = Lazy(r"^/[\w.~-]*(?:/|$)")
_PUBLIC = Lazy(r"^(?:0x[0-9a-fA-F]{40}$|pk[._]|phc_|sb_publishable_|age1|AAAA[BCE][23]|ssh-)")
"""Values that are public."""
_HASHED = Lazy(
    r"^(?:\$(?:2[abxy]|argon2\w*|5|6|1|apr1|scrypt)\$|pbkdf2[_:]|scrypt:|bcrypt|sha\d+[-:$]|md5[-:$]|\{S?SHA)"
)
_REGEX = Lazy(r"\[\^?(?:a-z|A-Z|0-9|\\[wdsS])|\\[wdsSb]|\(\?[:=!P]|\.\*|\{\d+,?\d*\}")
_CONSTANT = Lazy(r"^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+){2,}$")
_UUID = Lazy(r"^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$")
_IDENTIFIER = Lazy(r"^[A-Za-z_][A-Za-z]*(?:[-_.:/ ][A-Za-z]+)*[-_.:/]?$")
_VERSIONISH = Lazy(r"^[v^~>=<]*\d+(?:[.:/-]\d+)*(?:\w{0,4})$")


@lru_cache(maxsize=4096)
def kind_of(name: str) -> str:
    """`password`, `token` or nothing: what a variable of this name holds."""
    parts = [part.lower() for part in _CAMEL.findall(name)]
    while parts and (
        parts[-1].isdigit() or parts[-1] in ("value", "prod", "production", "dev", "old", "new", "live")
    ):
        parts.pop()
    if not parts or parts[-1] in PASSIVE_ENDINGS or "public" in parts or "publishable" in parts:
        return ""
    if parts[-1] in LAST_ONLY:
        return "password" if parts[-1] in PASSWORDS else "token"
    others = [part for part in parts if part not in LAST_ONLY]
    if any(part in PASSWORDS or part.endswith(("password", "passwd", "passphrase")) for part in others):
        return "password"
    if _is_key(parts) or any(
        part in TELLING or part.endswith(("secret", "token", "apikey")) for part in others
    ):
        return "token"
    return "key" if parts[-1] == "key" and not PLAIN_KEYS.intersection(parts) else ""


def _is_key(parts: list[str]) -> bool:
    return any(part in ("key", "keys") and parts[at - 1] in KEY_KINDS for at, part in enumerate(parts) if at)


def is_secret_value(value: str, kind: str) -> bool:
    """Would a person with this literal beside such a name have to change their password?"""
    value = value.removeprefix("django-insecure-")
    if len(value) < 6 or len(value) > 4096 or is_stand_in(value) or _PUBLIC.match(value):
        return False
    if " " in value:
        return _is_noise(value)
    if _TERM.match(value) or _HASHED.match(value) or _VERSIONISH.match(value) or _is_reference(value):
        return False
    if kind == "key":
        return len(value) >= 20 and is_random(value) and _is_dense(value)
    return _is_password(value) if kind == "password" else is_random(value)


def _is_dense(value: str) -> bool:
    """Lower and upper case letters and digits, well mixed: no name looks like that."""
    kinds = (any(map(str.islower, value)), any(map(str.isupper, value)), any(map(str.isdigit, value)))
    return all(kinds) and len(_CAMEL.findall(value)) * 7 >= len(value) * 2


def is_token_body(value: str) -> bool:
    """Is this a token, judged without a name?"""
    return _is_dense(value) and is_random(value) and not is_stand_in(value)


def _is_noise(value: str) -> bool:
    """Text with spaces is usually a sentence; with this many symbols and digits it is a key."""
    marks = sum(1 for c in value if not c.isalnum() and c not in " ,.'\"()-")
    return len(value) >= 24 and marks * 8 >= len(value) and worded(value) * 4 < len(value)


def is_stand_in(value: str) -> bool:
    """A placeholder, a lookup, a dummy, or a value whose characters only count up or repeat."""
    return (
        bool(_LOOKUP.search(value))
        or bool(_SAID.search(value))
        or (not _is_long_random(value) and bool(_DUMMY.search(value) or _is_path(value)))
        or (_IDENTIFIER.match(value) is not None and not _mixed(value) and not _unspoken(value))
        or is_monotonous(value)
    )


def _is_path(value: str) -> bool:
    """Does it start with a folder? A slash before random characters does not make a path."""
    return _PATH.match(value) is not None and not ("/" not in value[1:] and is_random(value[1:]))


def is_weak(value: str) -> bool:
    """A placeholder password. A plain word in the place of a password counts as one, unless it is a known placeholder."""
    names_itself = re.search(r"(?i)pass|secret|token|key|user|pwd", value) is not None
    plain = value.isalpha() and not names_itself and not _DUMMY.search(value) and len(value) >= 6
    return not plain and is_stand_in(value)


def _is_long_random(value: str) -> bool:
    return len(value) >= 20 and any(c.isdigit() for c in value) and worded(value) * 3 < len(value)


def is_monotonous(value: str, *, fold: bool = True) -> bool:
    """`xxxx`, `0000`, `1234567890`, `abcdef…`: few different characters, or mostly one after the other."""
    low = value.lower() if fold else value
    distinct = len(set(low))
    steps = sum(1 for a, b in pairwise(low) if ord(b) - ord(a) in (0, 1, -1))
    return distinct <= 3 or (len(low) >= 16 and distinct <= 5) or steps * 10 >= len(low) * 6


def _is_reference(value: str) -> bool:
    """A path, a host name or a dotted name rather than a literal; or a pattern for such a literal."""
    if _CONSTANT.match(value) or _is_phrase(re.split(r"[-_/.:]", value)):
        return True
    pieces = re.split(r"[/.:]", value)
    printed_text = sum(
        1 for piece in pieces if piece.isalpha() and (piece.islower() or worded(piece) * 2 >= len(piece))
    )
    return (len(pieces) > 2 and printed_text * 2 >= len(pieces)) or bool(_REGEX.search(value))


def _is_phrase(pieces: list[str]) -> bool:
    """Words joined by hyphens or underscores, most of them without a digit."""
    words = sum(
        1 for p in pieces if p.isalpha() and (p.islower() or p.isupper() or p.istitle()) and len(p) > 1
    )
    return len(pieces) > 2 and words * 3 >= len(pieces) * 2


def _is_password(value: str) -> bool:
    letters = any(c.isalpha() for c in value)
    digits = any(c.isdigit() for c in value)
    marks = any(not c.isalnum() and c not in "-_.:/" for c in value)
    if not letters or value.endswith(("(", "[", "{")) or (_UUID.match(value) and len(value) < 36):
        return False
    return digits or (marks and len(value) >= 8) or _mixed(value)


def is_random(value: str) -> bool:
    """Long, of several kinds of characters, and not made of words."""
    core = value.removesuffix("=").removesuffix("=")
    if len(core) < 8:
        return False
    kinds = sum(
        (any(c.islower() for c in core), any(c.isupper() for c in core), any(c.isdigit() for c in core))
    )
    marks = any(c in "!@#$%^&*?+~" for c in core)
    if len(core) < 16:
        return kinds + marks >= 3 and worded(core) * 2 < len(core) and (kinds == 3 or marks)
    switches = sum(1 for a, b in pairwise(core) if a.isdigit() != b.isdigit())
    if core.isalnum() and len(core) >= 24 and switches * 5 >= len(core):
        return len(set(core)) >= 8
    if len(core) >= 20 and _is_dense(core):
        return len(set(core)) >= 9
    hexadecimal = all(c in "0123456789abcdefABCDEF-" for c in core)
    if hexadecimal:
        return len(core) >= 20 and kinds >= 2 and len(set(core)) >= 8
    return (
        len(set(core)) >= 9
        and worded(core) * 2 < len(core)
        and (kinds >= 2 or _unspoken(core))
        and (any(c.isdigit() for c in core) or _mixed(core) or _unspoken(core))
    )


def worded(value: str) -> int:
    """How many characters belong to something that reads as a word."""
    return sum(len(word) for word in _WORDS.findall(value) if len(word) >= 4 and _reads(word))


def _reads(word: str) -> bool:
    vowels = len(_VOWELS.findall(word))
    return vowels * 5 >= len(word) and (len(word) - vowels) * 5 >= len(word)


def _mixed(value: str) -> bool:
    """Upper and lower case alternate as they do in no name."""
    pieces = _CAMEL.findall(value)
    cases = any(c.islower() for c in value) and any(c.isupper() for c in value)
    turns = sum(max(1, len(p) // 2) if p.isupper() and value.isalpha() else 1 for p in pieces)
    printed_text = sum(
        len(piece) for piece in pieces if len(piece) >= 4 and piece[1:].islower() and _reads(piece)
    )
    return len(value) >= 10 and cases and turns * 3 >= len(value) and printed_text * 2 < len(value)


def _unspoken(value: str) -> bool:
    letters = [c for c in value if c.isalpha()]
    vowels = sum(1 for c in letters if c in "aeiouAEIOU")
    return len(letters) >= 20 and vowels * 6 < len(letters)


def is_template(value: str) -> bool:
    """A value that something else is filled into."""
    return (
        value[0] == "$"
        or value[0] == value[-1] == "%"
        or any(mark in value for mark in ("${", "$(", "{", "}", "%s", "%(", "<", "***", "..."))
    )


def is_expression(value: str) -> bool:
    """A call, a lookup or a member rather than a literal."""
    return re.search(r"^[\w.$]+[(\[{]|^[a-z:-]+=$|^\$|\w\(|[)}\]]\.\w", value) is not None


# --- where such a literal stands in a line


def urls(line: str) -> Iterable[Secret]:
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


def headers(line: str) -> Iterable[Secret]:
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
    user, colon, password = (from_base64(value) or "").partition(":")
    return bool(colon) and len(password) >= 4 and password != user and not is_weak(password)


def named(path: str, line: str) -> Iterable[Secret]:
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
    plain = from_base64(value) if len(value) >= 12 and len(value) % 4 == 0 else None
    hidden = plain if plain and plain.isprintable() else ""  # a password in base64, as in a Kubernetes secret
    if name.lower() == value.lower() or (bare and is_expression(value)):
        return
    if hidden and is_weak(hidden.rpartition(":")[2]):
        return
    if is_secret_value(value, kind) or (hidden and is_secret_value(hidden, "password")):
        yield Secret(f"generic-{kind}", start, start + len(value))


def _within_text(line: str, at: int) -> bool:
    """Is this place part of a literal or of a comment rather than code?"""
    quotes = sum(line.count(mark, 0, at) for mark in "\"'`")
    return quotes % 2 == 1 or _first_comment(line) <= at


@lru_cache(maxsize=2)
def _first_comment(line: str) -> int:
    """Where the first comment's text begins; beyond the end if there is none."""
    match = patterns.COMMENT.search(line)
    return match.end() if match else len(line) + 1


def logins(line: str) -> Iterable[Secret]:
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
