"""Patterns for where a secret can be in a line: after which characters, in which files, in which commands.

The group `value` may be the secret; `secret_values` decides whether it is one.
"""

import re

from flyball.reading.terminal import Lazy

CODE = Lazy(
    r"\.(?:py|pyi|js|jsx|ts|tsx|mjs|cjs|go|rs|java|kt|kts|scala|rb|php|c|h|cc|cpp|hpp|cs|swift|dart|lua|"
    r"ex|exs|"
    r"clj|hs|ml|vue|svelte|groovy|gradle|m|mm|jl|r|pl|pm|sol|zig|nim|erl|fs|vb|proto|graphql|prisma)$",
    re.IGNORECASE,
)
LOCKS = Lazy(
    r"(?:^|/)(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.ya?ml|bun\.lockb?|poetry\.lock|"
    r"uv\.lock|pdm\.lock|pipfile\.lock|cargo\.lock|go\.sum|gemfile\.lock|composer\.lock|mix\.lock|"
    r"flake\.lock|"
    r"[\w.-]*\.lock|packages\.lock\.json|podfile\.lock|pubspec\.lock|deno\.lock|[\w.-]+\.min\.(?:js|"
    r"css)|[\w.-]+\.map)$",
    re.IGNORECASE,
)

CORE = Lazy(
    r"(?:pass|pwd|secret|token|key|cred|auth|pw|psk|jwt|bearer|sessionid|pat|dsn|sas|cookie|webhook)[\w$.-]*",
    re.IGNORECASE,
)
_UNREAD = r"(?P<value>(?!\[redacted )(?:[^\s\"'`,;<>&\\]|\\+[^\s\"'`\\]){6,4096})"
ANY_NAMED = Lazy(
    r"(?:pass|pwd|secret|token|key|cred|auth|pw|psk|jwt|bearer|sessionid|pat|dsn|sas|cookie|webhook)"
    r"[\w$.-]{0,60}\\{0,8}[\"'`\])>]{0,3}[ \t]{0,4}(?:[=:(,]{1,3}>?|[ \t]|(?<=>))[ \t]{0,4}"
    r"(?:[bBrRuUfF@$(\[{]{0,2}\\{0,8}[\"'`])?" + _UNREAD,
    re.IGNORECASE,
)
ANY_LONG = Lazy(r"(?<![A-Za-z0-9+/_=~-])(?P<value>(?=[A-Za-z+/_=~-]{0,200}[0-9])[A-Za-z0-9+/_=~-]{20,})")
ANY_LOGIN = Lazy(r"[\w.@-]{0,60}:(?P<value>[^\s\"'`,;<>\\/:@]{4,200})@")
ANY_OPTION = Lazy(
    r"(?<![\w-])(?:-[A-Za-z]{0,4}[uUpPak]|--user)[ =]{0,2}\\{0,8}[\"'`]?(?:[\w.@-]{1,60}:)?" + _UNREAD
)
"""What could be a secret by its place or its form alone, for texts that are too large to check in detail."""
OF_NAMES = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$@.-")
QUOTED = r"(?:[bBrRuUfFnNlL@$]{0,2})(?P<q>\\?[\"'`])(?P<value>(?:(?!(?P=q))[^\n]){1,4096}?)(?P=q)"
TYPE = r"(?:\s*:\s*(?:&\s*)?(?:'static\s+)?[A-Za-z][\w\[\]., |?<>&]{0,40}?)?"
WRAPPED = (
    r"(?:[\[(]\s*|(?:new\s+)?(?:\[\]byte|bytes(?:\.fromhex)?|bytearray|(?:base64\.)?b64decode|(?:binascii\.)?unhexlify|"
    r"Buffer\.from|Some|String(?:::from)?|Secret(?:Str|String|KeySpec)?)\(\s*)?"
)
"""What makes bytes or an option of a literal, or a list of several."""
ASSIGNED = Lazy(
    r"\\?(?:\[\d{0,5}\]|[\"'\]\)`]{0,3})"
    + TYPE
    + r"\s*(?:\?\?=|\|\|=|:=|=>|={1,3}|!=|:)\s*"
    + WRAPPED
    + QUOTED
)
GIVEN = Lazy(r"(?:[\"'`]\s*,|\s*\(|[\"'`)\]]{0,3}\s*(?:\|\||\?\?|\bor\b)|[\"'`]?,?\s+value\s*=)\s*" + QUOTED)
BARE = Lazy(r"[\"'\]`]{0,2}\s*(?:=>|:=|=(?!=)|:)\s*(?P<value>[^\s\"'`,;<>]{6,1024})")
"""`==` compares: without quotes the right side is another name, not a value."""
OPTION = Lazy(r"[ =]+[\"']?(?P<value>[^\s\"'-][^\s\"']{5,})")
SPACED = Lazy(r"\s+(?P<value>[A-Za-z0-9+/_-]{20,}={0,2})(?=[\s\"']|$)")
PAIR = Lazy(r"\s{0,20}(?:=\s{0,20})?[(\[]\s*[\"'][^\"']{0,200}[\"']\s*,\s*" + QUOTED)
LEADING = Lazy(r"[ \t]+(?=[\"'][^-\s])" + QUOTED)
"""A setting at the beginning of a line and its value, as in Groovy."""
SET_OFF = Lazy(
    r"(?:\s+(?:As\s+)?[A-Za-z]\w{1,20}\s*=|\s*[:=]\s*\{\s*[\"'][^\"']{0,60}[\"']\s*:|[\"']?\s*\{\s*default\s*=)\s*"
    + QUOTED
)
PLIST = Lazy(r"</key>\s*<string>(?P<value>[^<>\s]{6,})</")
NUMBER = Lazy(r"\s*(?:=|:)\s*(?P<value>0x[0-9a-fA-F]{64})\b")
TAG = Lazy(r"(?:\s[^>]{0,200})?>(?P<value>[^<>\s]{6,})</")
NAMED_TAG = Lazy(r"[\"'][^<>]{0,100}>(?P<value>[^<>\s]{6,})</")
FALLBACK = Lazy(r":?[-=](?P<value>[^}\s]{6,})\}")
ASKS = Lazy(
    r"(?i)(?:get|fetch|load|read|find|has|is|lookup|validate|check|verify|list|delete|create)_?[A-Z_a-z]"
)
"""A function with such a name takes the name of a secret, not the secret."""
PHRASE = Lazy(
    r"(?i)(?:mnemonic|seed[_ -]?phrase|"
    r"recovery[_ -]?phrase)\w*[\"']?\s*[:=]\s*[\"']?(?P<value>(?:[a-z]{3,8} ){11,23}[a-z]{3,8})"
)
PROSE = Lazy(
    r"(?i)\b(?:password|passwd|passphrase|pw|token|secret)\s+\(?(?:is|was|=|"
    r"to|currently)\s*:?\s+[\"'`]?(?P<value>[^\s\"'`]{8,})"
)

URL = Lazy(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,30})://(?P<user>[^\s:/@\"'<>]{0,100}):(?P<value>[^\s/\"'<>]{2,200})@(?P<host>[^\s\"'/@:]+)"
)
EXAMPLE = Lazy(r"(?i)example|xxxx|placeholder|your|dummy|redacted|changeme|000000|notreal|fake")
SLASHED_URL = Lazy(
    r"[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s:/@\"'<>]{1,100}:(?!\d{1,5}/)(?P<value>[^\s/\"'<>?#@]{1,60}/[^\s\"'<>?#@]{1,100})@[\w.-]+(?=[:/\s]|$)"
)
"""A password with a slash, which should have been encoded."""
LINE = Lazy(r"[^\n]{5,}")
"""A line that is long enough for a secret."""
OPENS = Lazy(
    r"(?P<indent>[\s+{(,-]*)[\"']?(?P<name>[\w.-]{2,80})[\"']?\s*+[:=]\s*+(?:[|>][+-]?\d?[+-]?|\(|\\)?\s*+(?:#[^\n]*)?",
    re.ASCII,
)
BELOW = Lazy(
    r"(?P<indent>[\s+]*(?:-\s+)?)(?P<q>[\"']?)(?P<value>[^\s\"'#:,{}\[\]-][^\s\"']{5,4000}+)(?P=q)[\s,;)}\]]*+(?:#[^\n]*)?"
)
"""A name that ends its line but for a comment, and a value alone on the next one."""
TOKEN_URL = Lazy(r"https?://(?P<value>[A-Za-z0-9_-]{20,200})(?::x-oauth-basic)?@(?P<host>[\w.-]+)/")
HEADER = Lazy(
    r"(?i)\b(?P<scheme>bearer|basic|token|apikey|negotiate)\s+(?P<value>[A-Za-z0-9_.~+/:=-]{8,4096})"
)
ORACLE = Lazy(r"(?i)\bjdbc:oracle:\w+:(?P<user>[\w$#]{1,60})/(?P<value>[^\s\"'/@<>]{2,100})@")
DSN = Lazy(r"(?P<user>[\w.-]{1,60}):(?P<value>[^\s\"'@:/]{2,100})@(?:tcp|unix)\(")
SCHEME = Lazy(
    r"(?i)authorization[\"']?\s*[:=,]\s*[\"'`]?(?!basic\b|digest\b|aws4|signature\b)(?P<scheme>[a-z][\w-]{1,20})\s+"
    r"(?P<value>[\w.~+/:=-]{16,4096})"
)
LOGIN = Lazy(
    r"(?:(?:^|\s)(?:-u|--user)|\bcurl\b[^\n]{0,200}?\s-[A-Za-z]{0,4}u|\bhttps?\s(?:[^\n]{0,80}\s)?-a)[ =]?[\"']?(?P<user>[\w.@-]+):(?P<value>[^\s\"'@]{4,})"
)
SHORT_P = Lazy(
    r"\b(?:mysql|mysqldump|mysqladmin|mariadb|sshpass|docker\s+login|helm\s+registry\s+login|smbclient|"
    r"7z|unzip|zip|psql)\b[^\n]{0,200}?\s-[pP]\s?[\"']?(?P<value>[^\s\"'-][^\s\"']{5,})"
)
TOOLS = Lazy(
    r"\b(?:redis-cli\b[^\n]{0,200}?\s-a|openssl\b[^\n]{0,200}?\s-(?:k|pass\w*\s+pass:)|htpasswd\s+-\w*b\w*\s+\S+\s+\S+|"
    r"ConvertTo-SecureString(?:\s+-String)?)"
    r"\s*[\"']?(?P<value>[^\s\"'-][^\s\"']{5,})"
)
PGPASS = Lazy(r"^\s*\+?[^:\s]+:[^:\s]+:[^:\s]+:[^:\s]+:(?P<value>[^:\s]{4,})$")
HTPASSWD = Lazy(r"^\s*\+?[^:\s]+:(?P<value>(?:\$|\{SHA\})\S{10,})$")
SQL = Lazy(
    r"(?i)\b(?:identified\s+(?:with\s+\w+\s+)?by|"
    r"(?:with\s+)?(?:encrypted\s+)?password)\s+'(?P<value>[^'\s]{6,})'"
)
REQUIRE = Lazy(
    r"^\s*\+?\s*(?:requirepass|masterauth|rpcpassword|bindpw|rootpw)[\s=]+[\"']?(?P<value>[^\s\"']{6,})"
)
STDIN = Lazy(
    r"\becho\s+(?:-n\s+)?[\"']?(?:[\w.-]{1,40}:(?=.{0,80}chpasswd))?(?P<value>[^\s\"'$]{6,200})[\"']?\s*\|"
    r".{0,200}?(?:--password-stdin|sudo\s+-S|--passphrase-fd|chpasswd)"
)
CALLS = Lazy(
    r"\b(?:PDO|mysqli|mysqli?_connect|getConnection|login|\w{0,20}BasicAuth|\w{0,20}Credentials?|basic_auth|authenticate|"
    r"jwt\.(?:sign|verify|encode|decode))\s*\(\s*"
    r"(?:[^()\"']{0,60}|[\"'][^\"']{0,200}[\"'])(?:,\s*[\"'][^\"']{0,100}[\"']){0,1},\s*"
    r"(?:Some\()?[\"'](?P<value>[^\"'\s]{6,200})[\"']"
)
"""A call that takes a user and a password, the last of them."""
CIPHERS = Lazy(
    r"(?i)\b(?:hmac\.new|aes\.new|createhmac|createcipheriv|createdecipheriv)\(\s*(?:[\"'][\w-]{1,30}[\"']\s*,|[\w.]{1,30},)?"
    r"\s*(?:\[\]byte\()?b?[\"'](?P<value>[^\"'\s]{12,200})[\"']"
)
"""A call that takes a key."""
WALLET = Lazy(r"(?i)\b(?:accounts[\"']?\s*[:=]\s*\[\s*|wallet\(\s*)[\"'](?P<value>(?:0x)?[0-9a-f]{64})[\"']")
UNNAMED = Lazy(
    r"(?<![\w./-])(?P<prefix>[a-z][a-z0-9]{1,11}(?:[_-][a-z0-9]{2,10}){0,2})[_-](?P<value>[A-Za-z0-9]{30,256})(?![\w])"
)
"""The usual form of tokens today: a short word, then a long run of letters and digits."""
CLIENT = Lazy(r"(?i)(?:client|bot|api|sdk|login|fernet)\(\s*b?[\"'](?P<value>[\w+/-]{32,256}=?)[\"']")
PUBLIC_PREFIX = Lazy(
    r"^(?:pk|phc|pub\w*|publishable|ids?|msg|toolu|srvtoolu|resp|call|chatcmpl|req|evt|file|user|org|cus|run|thread|"
    r"asst|batch|sha\d*|md5|h1|chunk|main|index|img|image|vendor|css|js|ami|commit|rev|cs|pi|seti|"
    r"sub|price)(?:$|[_-])"
)

NETRC_LINE = Lazy(r"\blogin\s+\S{1,100}\s+password\s+[\"']?(?P<value>[^\s\"']{6,200})")
NETRC = Lazy(r"\bpassword\s+(?P<value>\S{6,})")
ALONE = Lazy(r"^\s*(?P<value>[^\s#<>\"'`]{8,200})\s*$")
KEYSTORE = Lazy(
    r"(?:(?:^\+?|:)_(?:auth|authToken|password)\s*=|npmAuthIdent[\"']?:)\s*[\"']?(?P<value>[^\s\"'$<{]{8,})"
)
HEAD = Lazy(r"(?:#define\s+|(?:^|[\s{(]):)$")
"""What may come before a setting whose value follows after a space."""
DATA_URL = Lazy(
    r"data:[\w/+.-]+;base64,[A-Za-z0-9+/=]+|\b(?:sha(?:1|256|384|512)|md5)[-:=][A-Za-z0-9+/=]{20,}"
)


JOINED = Lazy(r"(?<=[\w-])\\?[\"'`]\s{0,40}(?:(?:\+|\.\.?|<>|&|,)\s{0,40})?[fbru]?\\?[\"'`](?=[\w+/=-])")
"""Where two string literals are joined."""
B64 = Lazy(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{24,4096}={0,2}")
HEX = Lazy(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}){20,2048}(?![0-9A-Fa-f])|(?:\\x[0-9A-Fa-f]{2}){20,2048}")
ESCAPED = Lazy(r"\\([\"'/\\ntr])")
DOCUMENT = Lazy(r"^\s*[{\[].*[}\]]\s*$", re.DOTALL)
"""A line that is JSON as a whole: what it says is its text without the escapes."""
COMMENT = Lazy(r"^\s*\+?\s*(?:#(?!\s*(?:define|include|if|el|pragma|undef))|\*|--|;)|//|/\*|\s# ")
HEADER_CHECK = Lazy(
    r"(?i)startswith|starts_with|hasprefix|\.includes|contains|indexof|\bin\s+\w+|re\.(?:compile|search|"
    r"match)|grep|\.test\(|assert|pattern|regex|==|!="
)
SPACE = Lazy(r"[\s\"'`,;&]")
RUN = Lazy(r"[A-Za-z0-9_+/=~%-]{15}")
LONG_RUN = Lazy(r"[A-Za-z0-9+/_-]{30}")
KEY_STAND_IN = Lazy(
    r"KEY(?: BLOCK)?-----[\s\\nr\"'+]{0,12}(?:X{3,}|x{3,}|\.{3}|<|\$\{|\{\{|YOUR|\*{3}|\[|(\w)\1{3}\W)"
)
KNOWN_EXAMPLE = "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
INVISIBLE = Lazy(
    "\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\\\)"
    "|[\x00\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)
"""Colours and titles of a terminal, NULs (UTF-16 read as bytes), and characters without width."""
PRIVATE_KEYS = (
    Lazy(
        r"-----BEGIN (?:[A-Z0-9]+ ){0,3}(?:PRIVATE|SECRET) KEY(?: BLOCK)?-----"
        r"(?:(?:(?!-----BEGIN)[\s\S]){0,20000}?-----END (?:[A-Z0-9]+ ){0,3}(?:PRIVATE|SECRET) KEY(?: BLOCK)?-----)?"
    ),
    Lazy(r"PuTTY-User-Key-File-\d"),
    Lazy(r"---- BEGIN SSH2 (?:ENCRYPTED )?PRIVATE KEY ----"),
)
"""The header alone counts; with its end the whole block is the secret."""
