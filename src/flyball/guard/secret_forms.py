"""The forms in which a secret stands in a line: after which signs, in which files, in which commands.

The group `value` is what may be the secret; whether it is one, `secret_words` decides.
"""

import re

CODE = re.compile(
    r"\.(?:py|pyi|js|jsx|ts|tsx|mjs|cjs|go|rs|java|kt|kts|scala|rb|php|c|h|cc|cpp|hpp|cs|swift|dart|lua|"
    r"ex|exs|"
    r"clj|hs|ml|vue|svelte|groovy|gradle|m|mm|jl|r|pl|pm|sol|zig|nim|erl|fs|vb|proto|graphql|prisma)$",
    re.IGNORECASE,
)
LOCKS = re.compile(
    r"(?:^|/)(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.ya?ml|bun\.lockb?|poetry\.lock|"
    r"uv\.lock|pdm\.lock|pipfile\.lock|cargo\.lock|go\.sum|gemfile\.lock|composer\.lock|mix\.lock|"
    r"flake\.lock|"
    r"[\w.-]*\.lock|packages\.lock\.json|podfile\.lock|pubspec\.lock|deno\.lock|[\w.-]+\.min\.(?:js|"
    r"css)|[\w.-]+\.map)$",
    re.IGNORECASE,
)
_HINTS = (
    r"pass|pwd|secret|token|key|cred|auth|pw|psk|bearer|basic|jwt|mnemonic|seed|phrase|sessionid|cookie|"
    r"pat\b|dsn|sas|"
    r"-u\s|webhook|identified|redis-cli"
)
HINT, _HINT_IN_SMALL = re.compile(_HINTS, re.IGNORECASE), re.compile(_HINTS)


_ROUGHLY = (
    *(
        "pass",
        "pwd",
        "secret",
        "token",
        "key",
        "cred",
        "auth",
        "pw",
        "psk",
        "bearer",
        "basic",
        "jwt",
        "mnemonic",
        "seed",
    ),
    *("phrase", "sessionid", "cookie", "pat", "dsn", "sas", "-u", "webhook", "identified", "redis-cli"),
)


def hints(line: str) -> bool:
    """Does HINT occur? Asked of every line, so roughly first, then in small letters: that is ten times as fast."""
    if line.isascii() and not any(map(line.lower().__contains__, _ROUGHLY)):
        return False
    found = _HINT_IN_SMALL.search(line.lower()) if line.isascii() else HINT.search(line)
    return found is not None


CORE = re.compile(
    r"(?:pass|pwd|secret|token|key|cred|auth|pw|psk|jwt|bearer|sessionid|pat|dsn|sas|cookie|webhook)[\w$.-]*",
    re.IGNORECASE,
)
OF_NAMES = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$@.-")
QUOTED = r"(?:[bBrRuUfF@$]{0,2})(?P<q>\\?[\"'`])(?P<value>(?:(?!(?P=q))[^\n]){1,4096}?)(?P=q)"
TYPE = r"(?:\s*:\s*(?:&\s*)?(?:'static\s+)?[A-Za-z][\w\[\]., |?<>&]{0,40}?)?"
ASSIGNED = re.compile(r"\\?[\"'\]\)`]{0,3}" + TYPE + r"\s*(?:\?\?=|\|\|=|:=|=>|={1,3}|!=|:)\s*" + QUOTED)
GIVEN = re.compile(
    r"(?:[\"'`]\s*,|\s*\(|[\"'`)\]]{0,3}\s*(?:\|\||\?\?|\bor\b)|[\"'`]?,?\s+value\s*=)\s*" + QUOTED
)
BARE = re.compile(r"[\"'\]`]{0,2}\s*(?:=>|:=|=|:)\s*(?P<value>[^\s\"'`,;<>]{6,1024})")
OPTION = re.compile(r"[ =]+[\"']?(?P<value>[^\s\"'-][^\s\"']{5,})")
SPACED = re.compile(r"\s+(?P<value>[A-Za-z0-9+/_-]{20,}={0,2})(?=[\s\"']|$)")
PAIR = re.compile(r"\s*=\s*[(\[]\s*[\"'][^\"']*[\"']\s*,\s*" + QUOTED)
SET_OFF = re.compile(r"(?:\s+As\s+\w+\s*=|[\"']?\s*\{\s*default\s*=)\s*" + QUOTED)
PLIST = re.compile(r"</key>\s*<string>(?P<value>[^<>\s]{6,})</")
NUMBER = re.compile(r"\s*(?:=|:)\s*(?P<value>0x[0-9a-fA-F]{64})\b")
TAG = re.compile(r"(?:\s[^>]{0,200})?>(?P<value>[^<>\s]{6,})</")
FALLBACK = re.compile(r":?[-=](?P<value>[^}\s]{6,})\}")
ASKS = re.compile(
    r"(?i)(?:get|fetch|load|read|find|has|is|lookup|validate|check|verify|list|delete|create)_?[A-Z_a-z]"
)
"""A function of such a name is given the name of a secret, not the secret."""
PHRASE = re.compile(
    r"(?i)(?:mnemonic|seed[_ -]?phrase|"
    r"recovery[_ -]?phrase)\w*[\"']?\s*[:=]\s*[\"']?(?P<value>(?:[a-z]{3,8} ){11,23}[a-z]{3,8})"
)
PROSE = re.compile(
    r"(?i)\b(?:password|passwd|passphrase|pw|token|secret)\s+(?:is|was|=|"
    r"to)\s*:?\s+[\"'`]?(?P<value>[^\s\"'`]{8,})"
)

URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,30})://(?P<user>[^\s:/@\"'<>]{0,100}):(?P<value>[^\s/\"'<>]{2,200})@(?P<host>[^\s\"'/@:]+)"
)
TOKEN_URL = re.compile(r"https?://(?P<value>[A-Za-z0-9_-]{20,200})(?::x-oauth-basic)?@(?P<host>[\w.-]+)/")
HEADER = re.compile(
    r"(?i)\b(?P<scheme>bearer|basic|token|apikey|negotiate)\s+(?P<value>[A-Za-z0-9_.~+/:=-]{8,4096})"
)
LOGIN = re.compile(r"(?:^|\s)(?:-u|--user)[ =]?[\"']?(?P<user>[\w.@-]+):(?P<value>[^\s\"'@]{4,})")
SHORT_P = re.compile(
    r"\b(?:mysql|mysqldump|mysqladmin|mariadb|sshpass|docker\s+login|helm\s+registry\s+login|smbclient|"
    r"7z|unzip|zip|psql)\b.*?\s-p\s?[\"']?(?P<value>[^\s\"'-][^\s\"']{5,})"
)
TOOLS = re.compile(
    r"\b(?:redis-cli\b.*?\s-a|openssl\b.*?\s-(?:k|pass\w*\s+pass:)|htpasswd\s+-\w*b\w*\s+\S+\s+\S+|"
    r"ConvertTo-SecureString(?:\s+-String)?)"
    r"\s*[\"']?(?P<value>[^\s\"'-][^\s\"']{5,})"
)
PGPASS = re.compile(r"^\s*\+?[^:\s]+:[^:\s]+:[^:\s]+:[^:\s]+:(?P<value>[^:\s]{4,})$")
HTPASSWD = re.compile(r"^\s*\+?[^:\s]+:(?P<value>(?:\$|\{SHA\})\S{10,})$")
SQL = re.compile(
    r"(?i)\b(?:identified\s+(?:with\s+\w+\s+)?by|"
    r"(?:with\s+)?(?:encrypted\s+)?password)\s+'(?P<value>[^'\s]{6,})'"
)
REQUIRE = re.compile(
    r"^\s*\+?\s*(?:requirepass|masterauth|rpcpassword|bindpw|rootpw)[\s=]+[\"']?(?P<value>[^\s\"']{6,})"
)
STDIN = re.compile(
    r"\becho\s+(?:-n\s+)?[\"']?(?P<value>[^\s\"'$]{6,})[\"']?\s*\|.*(?:--password-stdin|sudo\s+-S|"
    r"--passphrase-fd)"
)
NETRC = re.compile(r"\bpassword\s+(?P<value>\S{6,})")
KEYSTORE = re.compile(r"(?:^\+?|:)_(?:auth|authToken|password)\s*=\s*[\"']?(?P<value>[^\s\"'$<{]{8,})")
DATA_URL = re.compile(
    r"data:[\w/+.-]+;base64,[A-Za-z0-9+/=]+|\b(?:sha(?:1|256|384|512)|md5)[-:=][A-Za-z0-9+/=]{20,}"
)


def has_data(line: str) -> bool:
    """Can DATA_URL occur at all?"""
    return "base64" in line or "sha" in line or "md5" in line


JOINED = re.compile(r"[\"'`]\s*(?:\+|\.|\.\.|<>|&|,)?\s*[fbru]?[\"'`]")
B64 = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{24,4096}={0,2}")
HEX = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}){20,2048}(?![0-9A-Fa-f])|(?:\\x[0-9A-Fa-f]{2}){20,2048}")
COMMENT = re.compile(r"^\s*\+?\s*(?:#(?!\s*(?:define|include|if|el|pragma|undef))|\*|--|;)|//|/\*|\s# ")
HEADER_CHECK = re.compile(
    r"(?i)startswith|starts_with|hasprefix|\.includes|contains|indexof|\bin\s+\w+|re\.(?:compile|search|"
    r"match)|grep|\.test\(|assert|pattern|regex|==|!="
)
SPACE = re.compile(r"[\s\"'`,;&]")
RUN = re.compile(r"[A-Za-z0-9_+/=~%-]{15}")
KEY_STAND_IN = re.compile(
    r"KEY(?: BLOCK)?-----[\s\\nr\"'+]{0,12}(?:X{3,}|x{3,}|\.{3}|<|\$\{|\{\{|YOUR|\*{3}|\[|(\w)\1{3}\W)"
)
KNOWN_EXAMPLE = "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
