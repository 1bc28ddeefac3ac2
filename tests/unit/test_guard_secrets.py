"""Secrets: providers' shapes and literals beside telling names are found; what only looks so is not."""

from __future__ import annotations

import base64
import json
import random
import sys
from collections import Counter
from types import FrameType

import pytest

from flyball.guard.secrets import COST_MOST, find_in_lines, find_secret, find_secrets, redact

# Nothing here is or was a credential; each is written in pieces.
RANDOM = "Xk9mP2vLq8Rt5Wy7" + "Zb3C"
LONG = "Xk9mP2vLq8Rt5Wy7" + "Zb3CXk9mP2vLq8Rt5Wy7"
HEX = "4c0883a69102937d" + "6231471b5dbb6204"
PASSWORD = "Xk9mP2" + "vLq8"

FOUND = [
    ("a.py", 'key = "' + "AKIA" + "W4PLX6QJ7KD2MZNB" + '"'),
    ("a.py", "t = '" + "ghp_" + LONG + "'"),
    ("a.yml", "token: " + "glpat-" + RANDOM),
    ("a.py", 'openai.api_key = "' + "sk-proj-" + LONG + '"'),
    ("a.py", 'k = "' + "sk-ant-" + "api03-" + LONG + '"'),
    ("a.py", 'k = "' + "hf_" + LONG + '"'),
    ("a.js", 'stripe("' + "sk_" + "live_" + RANDOM + '")'),
    ("a.js", 'const k = "' + "AIza" + "Sy" + LONG[:33] + '"'),
    ("a.py", 's = "' + "xoxb-" + "123456789012-" + RANDOM + '"'),
    ("a.py", "'https://hooks.slack." + "com/services/T0AB1CD2E/B0FG3HI4J/" + RANDOM + "'"),
    (".npmrc", "//registry.example/:_authToken=" + "npm_" + LONG),
    ("a.txt", "-----BEGIN OPENSSH " + "PRIVATE KEY-----"),
    ("a.txt", "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiI0MiJ9." + LONG),
    ("a.py", 'db = "postgres://app:' + PASSWORD + '@db.internal:5432/app"'),
    ("a.sh", "curl -H 'Authorization: Bearer " + RANDOM + "' https://x"),
    ("a.sh", "curl -u svc:" + PASSWORD + " https://x"),
    ("a.sh", "PGPASSWORD=" + PASSWORD + " psql"),
    ("a.tfvars", 'db_password = "' + "Vn6&yQ3" + '@kT8z"'),
    ("a.yml", "  password: " + PASSWORD),
    ("a.json", '"clientSecret": "' + RANDOM + '"'),
    ("a.py", 'pw = os.environ.get("DB_PASSWORD", "' + PASSWORD + '")'),
    ("a.js", 'const s = process.env.JWT_SECRET || "' + RANDOM + '"'),
    ("a.cs", '"Server=db;User Id=sa;Password=' + PASSWORD + ';"'),
    ("a.xml", "<password>" + PASSWORD + "</password>"),
    ("a.php", "define('DB_PASSWORD', '" + PASSWORD + "');"),
    ("a.rs", 'let api_key: &str = "' + RANDOM + '";'),
    ("a.yml", "DD_API_KEY: " + HEX),
    ("a.yml", "PW: ${DB_PASSWORD:-" + PASSWORD + "}"),
    ("a.py", 't = "gh' + 'p_" + "' + LONG + '"'),
    (".pgpass", "db:5432:app:svc:" + PASSWORD),
    ("a.py", 't = "' + "dapi" + HEX + '-2"'),
    ("a.py", 't = "' + "sl." + LONG * 3 + '"'),
    ("a.env", "V=" + "xoxc-" + "352961318574-579817999234-" + RANDOM),
    ("a.env", "V=" + "nobody_has_" + LONG),
    ("a.js", "twilio('AC" + HEX + "', '" + HEX[::-1] + "')"),
    ("a.json", '{"kty":"oct","k":"' + LONG + '"}'),
    ("k.pem", "MIIEpAIBAAKCAQEA" + LONG),
    ("a.yml", "tls.key: " + base64.b64encode(b"-----BEGIN EC PRIVATE" + b" KEY-----\nxxxxxx").decode()),
    (
        "a.yml",
        ".cfg: " + base64.b64encode(b'{"user": "a", "password": "' + PASSWORD.encode() + b'"}').decode(),
    ),
    ("a.java", '"jdbc:oracle:thin:scott/' + PASSWORD + '@//db:1521/orcl"'),
    ("a.go", 'sql.Open("mysql", "root:' + PASSWORD + '@tcp(db:3306)/app")'),
    ("a.go", 'var jwtSecret = []byte("' + RANDOM + '")'),
    ("a.go", 'var dbPassword string = "' + PASSWORD + '"'),
    ("a.c", 'static const char password[] = "' + PASSWORD + '";'),
    ("a.ino", '#define WIFI_PASS "' + PASSWORD + '"'),
    ("a.gradle", '    storePassword "' + PASSWORD + '"'),
    ("a.py", 'smtp.login("ann", "' + PASSWORD + '")'),
    ("a.cs", 'new NetworkCredential("ann", "' + PASSWORD + '")'),
    ("a.ts", 'jwt.sign(payload, "' + RANDOM + '")'),
    ("a.py", 'cohere.Client("' + LONG + '")'),
    ("a.xml", '<string name="api_key">' + RANDOM + "</string>"),
    ("a.sh", "curl -su svc:" + PASSWORD + " https://x"),
    ("a.sh", "mysql -uroot -p" + PASSWORD + " app"),
    ("a.sh", 'echo "root:' + PASSWORD + '" | chpasswd'),
    ("a.sh", "curl -H 'Authorization: GenieKey " + HEX + "' https://x"),
    ("a.ps1", 'Use-It -StorageAccountKey "' + LONG + '=="'),
    ("a.sql", "CREATE USER app IDENTIFIED BY 'oqwMTRUhHCID';"),
    ("a.env", "X=amqp://svc:" + PASSWORD + "*!q@mq/x"),
    ("a.env", "DB_PASSWORD=!" + PASSWORD),
    ("a.env", "RENDER_KEY=" + RANDOM),
    ("config/master.key", HEX),
]

BY_FILE_ALONE = (".pgpass", "config/master.key")
"""Lines that only their file makes a secret of."""

ORDINARY = [
    ("a.py", 'password = os.environ["DB_PASSWORD"]'),
    ("a.py", "password = getpass.getpass()"),
    ("a.py", "def reset_password(user, new_password): ..."),
    ("a.ts", "password: string;"),
    ("a.yml", "  db_password: ${DB_PASSWORD}"),
    ("a.yml", "  token: ${{ secrets.GITHUB_TOKEN }}"),
    ("a.md", "export API_KEY=<your-api-key>"),
    ("a.md", "OPENAI_API_KEY=sk-your-key-here"),
    ("a.md", "ghp_" + "x" * 36),
    ("a.md", "AKIA" + "IOSFODNN7EXAMPLE"),
    ("a.md", "postgres://user:password@localhost:5432/db"),
    ("a.py", 'url = f"postgres://{user}:{password}@{host}/{db}"'),
    ("package-lock.json", '"integrity": "sha512-' + LONG + LONG + '=="'),
    ("a.py", 'COMMIT = "' + HEX + '01234567"'),
    ("a.py", 'request_id = "550e8400-e29b-41d4-a716-446655440000"'),
    ("a.py", "max_tokens = 4096"),
    ("a.py", 'TOKEN_URL = "https://auth.example.com/oauth2/v1/token"'),
    ("a.py", 'cache_key = "user:42:profile:v2"'),
    ("a.ts", 'const STORAGE_KEY = "myapp.settings.v1";'),
    ("en.json", '"forgotPassword": "Forgot your password?",'),
    ("t.py", 'token = "fake_token_1234567890"'),
    ("t.py", 'client.login(username="a", password="test")'),
    ("a.py", 'ICON = "data:image/png;base64,' + LONG + '=="'),
    ("a.py", 'PATTERN = r"ghp_[A-Za-z0-9]{36}"'),
    ("a.py", "from app.authentication_token_refresh import AuthenticationTokenRefreshCoordinator"),
    ("a.pub", "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC7 me@host"),
    ("a.sh", "docker run -u 1000:1000 -p 8080:8080 app"),
    ("a.js", 'mapboxgl.accessToken = "pk.eyJ1IjoiYW5uIn0.' + RANDOM + '"'),
    ("a.vue", '<Password v-model="form.password" :feedback="false" />'),
    ("a.yml", "checksum/secret: " + HEX + HEX),
    ("a.json", '"tokenAddress": "0x' + HEX + '01234567"'),
    ("a.pem", "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A" + RANDOM),
    ("a.py", '".htpasswd": forms.HTPASSWD,'),
    ("a.py", 'cache_key = "' + RANDOM + '"'),
    ("a.js", 'chunk("main-' + LONG + '")'),
    ("a.md", "Pass `-Dpamconfdir=no` to meson"),
    ("a.py", 'hashed = "$2b$12$EixZaYVK1fsbw1ZfbX3OXePaWxn96p36WQoeG6Lruj3vjPGga31lW"'),
]


@pytest.mark.parametrize(("path", "line"), FOUND)
def test_a_secret_is_found_and_hidden(path: str, line: str) -> None:
    assert find_secret(path, line)
    hidden = redact(line, path)
    if path not in BY_FILE_ALONE:
        assert "[redacted " in redact(line)
    assert "[redacted " in hidden
    assert RANDOM[4:] not in hidden and PASSWORD not in hidden


@pytest.mark.parametrize(("path", "line"), [row for row in FOUND if row[0] not in BY_FILE_ALONE])
@pytest.mark.parametrize("times", [1, 2])
def test_a_secret_in_a_string_of_json_is_hidden_and_the_json_stays_whole(
    path: str, line: str, times: int
) -> None:
    said = f"so:\n{line}\nthat is it"
    for _ in range(times):
        said = json.dumps({"type": "text", "text": said, "n": 1})
    hidden = redact(said)
    assert RANDOM[4:] not in hidden and PASSWORD not in hidden and hidden != said
    assert json.loads(hidden)["n"] == 1
    assert find_secret("a.jsonl", said)


BELOW_NAMES = [
    "password:\n  VALUE\n",
    "db_password: |\n    VALUE\n",
    "api_key:  # of the test system\n  VALUE  # until May\n",
    "api_token:\n  - VALUE\n",
    '"password":\n"VALUE",\n',
    '{"password":\n  "VALUE"}\n',
    'password = (\n    "VALUE"\n)\n',
    'password = \\\n  "VALUE"\n',
]


@pytest.mark.parametrize("text", BELOW_NAMES)
def test_a_secret_below_its_name_is_hidden_and_nothing_else(text: str) -> None:
    whole = text.replace("VALUE", RANDOM)
    hidden = redact(whole)
    assert RANDOM not in hidden and "[redacted generic-" in hidden
    kept = text.partition("VALUE")
    assert hidden.startswith(kept[0]) and hidden.endswith(kept[2])
    assert [number for number, _ in find_in_lines("a.yml", enumerate(whole.splitlines(), 1))] == [2]


@pytest.mark.parametrize(
    "text", ["password:\n- name: x\n", "token:\n  type: string\n", "password = (\n    ask()\n)\n"]
)
def test_what_is_no_value_below_a_name_stays(text: str) -> None:
    assert redact(text) == text


def test_of_a_token_in_pieces_each_piece_is_hidden_and_what_joins_them_stays() -> None:
    line = 't = "gh' + 'p_" + "' + LONG + '" + x'
    assert redact(line) == 't = "[redacted github-token]" + "[redacted github-token]" + x'


@pytest.mark.parametrize("how", ["backwards", "base64", "hex"])
def test_a_disguised_token_is_hidden_where_it_stands(how: str) -> None:
    token = "ghp_" + LONG
    coded = {
        "backwards": token[::-1] + '"[::-1]',
        "base64": base64.b64encode(token.encode()).decode() + '")',
        "hex": token.encode().hex() + '")',
    }[how]
    hidden = redact('before = 1; t = ("' + coded)
    assert hidden.startswith('before = 1; t = ("[redacted github-token]"')


@pytest.mark.parametrize(("path", "line"), ORDINARY)
def test_what_is_no_secret_is_left_alone(path: str, line: str) -> None:
    assert find_secret(path, line) is None
    assert redact(line, path) == line


def test_a_removed_line_of_a_diff_is_no_new_leak() -> None:
    line = "TOKEN = '" + "ghp_" + LONG + "'"
    assert find_secret("a.py", "-" + line, diff=True) is None
    assert find_secret("a.py", "+" + line, diff=True) == "github-token"
    assert find_secret("k", "-----BEGIN RSA " + "PRIVATE KEY-----", diff=True) == "private-key"


def test_a_private_key_is_hidden_from_begin_to_end() -> None:
    key = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIB\nAbCd\n-----END RSA " + "PRIVATE KEY-----"
    assert redact(f"before\n{key}\nafter") == "before\n[redacted private-key]\nafter"


def test_code_that_looks_for_a_key_holds_none() -> None:
    header = "-----BEGIN RSA " + "PRIVATE KEY-----"
    assert find_secret("a.py", f'if line.startswith("{header}"):') is None
    assert find_secret("a.py", f'KEY = "{header}"') == "private-key"


def test_all_secrets_of_a_text_are_found_in_order() -> None:
    text = "a ghp_" + LONG + "\nb\npassword: " + PASSWORD + "\n"
    found = find_secrets(text, "a.yml")
    assert [f.rule for f in found] == ["github-token", "generic-password"]
    assert text[found[1].start : found[1].end] == PASSWORD


def test_redacting_twice_changes_nothing_more() -> None:
    once = redact('{"token": "' + "ghp_" + LONG + '", "n": 1}')
    assert once == '{"token": "[redacted github-token]", "n": 1}'
    assert redact(once) == once


@pytest.mark.parametrize("before", [0, 9_490, 9_995, 10_000, 40_000])
def test_a_secret_is_found_anywhere_in_a_long_line(before: int) -> None:
    line = '{"a": "' + "x " * (before // 2) + '", "password": "' + PASSWORD + '", "b": 1}'
    assert find_secret("a.json", line) == "generic-password"
    assert PASSWORD not in redact(line, "a.json")


@pytest.mark.parametrize(
    "odd",
    [
        *("", "\0", "\ud800", "=" * 50_000, "password=" * 2_000, '"' * 9_999, "a:b@" * 5_000),
        *('"' + " " * 1_000_000, "auth" + " " * 200_000, "redis-cli " * 10_000, "echo a|" * 10_000),
        *("chat.googleapis.com/v1/spaces/" * 5_000, "maker.ifttt.com/trigger/a" * 5_000),
        *("\\n" * 50_000, "\\" * 200_000, '\\"password=' * 3_000, "a" * 1_000_000),
    ],
    ids=lambda odd: repr(odd[:12]),
)
def test_odd_text_is_survived(odd: str) -> None:
    assert isinstance(redact(odd), str)
    assert find_secret(odd[:50], odd) is None or isinstance(find_secret("", odd), str)


PIECES = [
    *(
        "password",
        "token",
        "=",
        ": ",
        "'",
        '"',
        "\\",
        "\n",
        "\r",
        " ",
        "n",
        ",",
        "{",
        "}",
        "==",
        "'+'",
        "-u a:",
        "é",
    ),
    *("\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\0", "bearer ", PASSWORD, RANDOM),
    *("ghp_" + LONG, "-----BEGIN RSA " + "PRIVATE KEY-----", "-----END RSA " + "PRIVATE KEY-----"),
]


@pytest.mark.parametrize("most", [COST_MOST, 0])
@pytest.mark.parametrize("seed", range(10))
def test_a_line_of_json_stays_json_whatever_is_said_in_it(seed: int, most: int) -> None:
    draw = random.Random(seed)
    for _ in range(60):
        said = ["".join(draw.choices(PIECES, k=draw.randint(1, 14))) for _ in range(3)]
        row = {said[0]: said[1], "password": [json.dumps(said[2]), said[2]], "n": 1}
        line = json.dumps(row, ensure_ascii=draw.random() < 0.3)
        hidden = redact(f"{line}\n{line}", most=most).split("\n")
        assert [len(json.loads(one)) for one in (*hidden, redact(line, most=most))]
        assert len(hidden) == 2


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
def test_a_sign_that_ends_no_line_of_a_stream_hides_no_secret(sign: str) -> None:
    line = json.dumps({"a": f"one{sign}two\npassword = {PASSWORD}\nthree{sign}"}, ensure_ascii=False)
    said = json.loads(redact(line))["a"]
    assert said == f"one{sign}two\npassword = [redacted generic-password]\nthree{sign}"


@pytest.mark.parametrize(
    "line",
    [
        *(
            "b.password===c.token?x:y",
            "b.password==c.token1?x:y",
            "if(a.token!==b.Secret2x)return",
            "a.pwd!=b.c1d2e3",
        ),
        *("if (token == other.Token2) {", "password ===this.state.Password2&&go()"),
    ],
)
@pytest.mark.parametrize("path", ["", "a.js"])
def test_a_comparison_with_another_name_is_no_assignment(path: str, line: str) -> None:
    assert redact(line, path) == line
    assert PASSWORD not in redact(f'if (password == "{PASSWORD}")', path)


PACKED = [
    *(
        "key=abcdef&token=abc123&",
        "password==",
        "secret=",
        "@key@token",
        "key:a/token:b/",
        "'key'\"token\"`auth`",
    ),
    *("password=aB3\\n", "token='a\" ", "oauth\n", "--password=a", "https://h/?token=a1b2c3&key=abc&"),
]


def weighed(text: str, most: int) -> Counter[str]:
    """How many names are looked at when a text is redacted, and how many characters of values."""
    count: Counter[str] = Counter()

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == "is_secret_value":
            count["characters"] += len(frame.f_locals["value"])
        elif event == "call" and frame.f_code.co_name == "_is_near_space":
            count["names"] += 1

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        redact(text, most=most)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("packed", PACKED)
def test_the_care_for_a_text_packed_with_names_grows_no_faster_than_the_text(packed: str) -> None:
    text = packed * (50_000 // len(packed))
    count = weighed(text, most=3_000)
    assert count["names"] <= 3_000
    assert count["characters"] <= 6 * len(text)


def test_what_is_weighed_is_counted() -> None:
    assert weighed(f"password={PASSWORD}\n" * 3, most=100) == {"names": 3, "characters": 3 * len(PASSWORD)}


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize(
    "end", ["password=" + PASSWORD, '"token": "' + RANDOM + '"', " ghp_" + LONG, " " + LONG]
)
def test_a_secret_after_more_names_than_can_be_weighed_is_hidden(packed: str, end: str) -> None:
    hidden = redact(packed * 200 + " and " + end, most=100)
    assert PASSWORD not in hidden and RANDOM[4:] not in hidden


def test_a_text_of_ordinary_size_is_weighed_with_care_to_its_end() -> None:
    page = "".join(f"{line}\n" for _, line in ORDINARY if "authentication_token" not in line)
    assert redact(page * 20) == page * 20
    row = json.dumps([{"key": f"a name of {n}", "value": n} for n in range(3_000)])
    assert redact(row) == row
