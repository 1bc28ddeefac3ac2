"""The agents that Flyball knows by name: what each needs from the user, what is installed, what it can do (AGENT-6).

A row names an agent's login, its variables and the hosts of its model. It is found by the name of the program, so that
`claude`, `acp:gemini --acp` and `command:aider …` are all known. What a row does not name stays outside the sandbox;
`[agents.NAME]` adds to it.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path, PurePath
from urllib.parse import urlsplit

from msgspec import Struct

from flyball.agents.adapter import ASSIGNMENT, name_of, words_of

FILE_MOST = 1 << 20


class LoginFile(Struct, frozen=True, kw_only=True):
    """A file in the user's home that is lent to the agent as a copy in its private home.

    `rotates`: what the agent writes to it goes back to the user's file. A folder named by the variable `moved`
    takes the place of the path's first part. Of a JSON file with `only`, nothing but these keys is lent. A file that
    does not rotate is a login where it holds the words `key`.
    """

    path: str
    rotates: bool = False
    moved: str = ""
    key: str = ""
    only: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The first folder of the path, which `moved` can replace."""
        depth = 2 if self.moved == "XDG_DATA_HOME" else 1
        return "/".join(self.path.split("/")[:-1][:depth])

    @property
    def rest(self) -> str:
        return self.path.removeprefix(f"{self.folder}/")


class Account(Struct, frozen=True, kw_only=True):
    programs: tuple[str, ...]
    env: tuple[str, ...] = ()  # passed on where they are set; `*` at the end matches any rest
    urls: tuple[
        str, ...
    ] = ()  # variables that hold the model's address: passed on, and their host may be reached
    files: tuple[LoginFile, ...] = ()
    helper: tuple[str, str, str] | None = None  # file, key in it, variable: a command that prints an API key
    hosts: tuple[str, ...] = ()
    proxied: bool = True  # it goes through HTTPS_PROXY
    log_in: str  # what a person does to log in


ANTHROPIC = ("api.anthropic.com", "console.anthropic.com", "platform.claude.com")
OPENAI = ("api.openai.com", "auth.openai.com", "chatgpt.com")
GOOGLE = ("generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "oauth2.googleapis.com")
KEYS = (
    *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY"),
    *("DEEPSEEK_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY", "XAI_API_KEY"),
)
BASES = (
    *("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE", "OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_HOST"),
    *("GOOGLE_GEMINI_BASE_URL", "OLLAMA_HOST", "OLLAMA_API_BASE"),
)
ANY_PROVIDER = (
    *("api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com", "openrouter.ai"),
    *("api.deepseek.com", "api.groq.com", "api.mistral.ai", "api.x.ai"),
)

CLAUDE = Account(
    programs=("claude", "claude-agent-acp", "claude-code-acp"),
    env=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_*MODEL*"),
    urls=("ANTHROPIC_BASE_URL",),
    files=(
        LoginFile(path=".claude/.credentials.json", rotates=True, moved="CLAUDE_CONFIG_DIR"),
        LoginFile(
            path=".claude.json",
            moved="CLAUDE_CONFIG_DIR",
            key='"primaryApiKey"',
            only=(
                *("oauthAccount", "userID", "primaryApiKey", "customApiKeyResponses"),
                *("hasCompletedOnboarding", "hasAvailableSubscription"),
            ),
        ),
    ),
    helper=(".claude/settings.json", "apiKeyHelper", "ANTHROPIC_API_KEY"),
    hosts=ANTHROPIC,
    log_in="run `claude` and type /login, or set ANTHROPIC_API_KEY",
)
CODEX = Account(
    programs=("codex", "codex-acp"),
    env=("OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_ORGANIZATION", "OPENAI_PROJECT"),
    urls=("OPENAI_BASE_URL",),
    files=(
        LoginFile(path=".codex/auth.json", rotates=True, moved="CODEX_HOME"),
        LoginFile(path=".codex/config.toml", moved="CODEX_HOME"),
    ),
    hosts=OPENAI,
    log_in="run `codex login`, or set OPENAI_API_KEY",
)
GEMINI = Account(
    programs=("gemini",),
    env=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GEMINI_MODEL", "GOOGLE_CLOUD_*", "GOOGLE_GENAI_USE_*"),
    urls=("GOOGLE_GEMINI_BASE_URL",),
    files=(
        LoginFile(path=".gemini/oauth_creds.json", rotates=True),
        LoginFile(path=".gemini/google_accounts.json", rotates=True),
        LoginFile(path=".gemini/.env", key="_API_KEY="),
        LoginFile(path=".gemini/installation_id"),
        LoginFile(path=".gemini/settings.json", only=("security", "selectedAuthType", "model", "privacy")),
    ),
    hosts=GOOGLE,
    log_in="run `gemini` and choose how to log in, or set GEMINI_API_KEY",
)
OPENCODE = Account(
    programs=("opencode",),
    env=(*KEYS, "OPENCODE_API_KEY", "OPENCODE_CONFIG_CONTENT"),
    urls=BASES,
    files=(
        LoginFile(path=".local/share/opencode/auth.json", rotates=True, moved="XDG_DATA_HOME"),
        LoginFile(path=".config/opencode/opencode.json", moved="XDG_CONFIG_HOME", key='"apiKey"'),
        LoginFile(path=".config/opencode/opencode.jsonc", moved="XDG_CONFIG_HOME", key='"apiKey"'),
    ),
    hosts=(*ANY_PROVIDER, *ANTHROPIC, *OPENAI, "opencode.ai", "models.dev"),
    log_in="run `opencode auth login`, or set your provider's API key",
)
SEVERAL = Account(  # CLIs for any provider, by an API key
    programs=("aider", "goose", "mini", "mini-swe-agent", "llm", "crush", "qwen"),
    env=(*KEYS, "AIDER_MODEL", "GOOSE_PROVIDER", "GOOSE_MODEL", "MSWEA_*"),
    urls=BASES,
    hosts=ANY_PROVIDER,
    log_in="set your provider's API key, for example OPENAI_API_KEY",
)
ACCOUNTS = (CLAUDE, CODEX, GEMINI, OPENCODE, SEVERAL)


def account_of(agent: str) -> Account | None:
    """The account that an agent uses, by the first program of its command line that is known."""
    names = [PurePath(word).name for word in words_of(agent)]
    return next((a for name in names for a in ACCOUNTS if name in a.programs), None)


def how_to_log_in(agent: str) -> str:
    """A sentence for a person whose agent's login was refused; "" if the agent is not known."""
    account = account_of(agent)
    return f"To log in, {account.log_in}." if account else ""


def variables(account: Account, environment: Mapping[str, str]) -> dict[str, str]:
    """The account's own variables, where the user has set them."""
    patterns = [re.compile(re.escape(name).replace(r"\*", ".*")) for name in (*account.env, *account.urls)]
    return {name: value for name, value in environment.items() if any(p.fullmatch(name) for p in patterns)}


def addresses(account: Account | None, agent: str, environment: Mapping[str, str]) -> Iterator[str]:
    """HOST:PORT of each model address that a variable or the command line itself names."""
    assignments = dict(word.split("=", 1) for word in words_of(agent) if ASSIGNMENT.match(word))
    for name in account.urls if account else BASES:
        value = assignments.get(name) or environment.get(name, "")
        if value:
            yield from address(value)


BASE_URL = re.compile(r"""base_?url["']?\s*[:=]\s*["'](https?://[^"'\s]+)""", re.IGNORECASE)
ENV_KEY = re.compile(r"""env_key["']?\s*[:=]\s*["'](\w+)""")


def configured(account: Account, environment: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Model addresses (HOST:PORT) and names of key variables in the CLI's own configuration, file or variable."""
    files = [theirs(file, environment) for file in account.files if not file.rotates and not file.only]
    texts = [environment.get(name, "") for name in account.env if name.endswith("_CONTENT")]
    for file in files:
        with contextlib.suppress(OSError):
            texts.append(file.read_text("utf-8", "replace") if file.stat().st_size < FILE_MOST else "")
    urls = [url for text in texts for url in BASE_URL.findall(text)]
    return [where for url in urls for where in address(url)], [
        n for text in texts for n in ENV_KEY.findall(text)
    ]


def theirs(file: LoginFile, environment: Mapping[str, str]) -> Path:
    """The user's own file, at the place that the user's variables name."""
    moved = environment.get(file.moved) if file.moved else None
    return Path(moved, file.rest) if moved else Path(environment.get("HOME", "/nowhere"), file.path)


def address(url: str) -> Iterator[str]:
    """HOST:PORT of a URL, or of a bare host with a port; nothing if it is neither."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return
    if parts.hostname and port:
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        yield f"{host}:{port}"


VERSION_S = 15


class KnownAgent(Struct, frozen=True, kw_only=True):
    """An agent, its program, and what its command line can do. With `budget` it can be stopped within a turn."""

    agent: str
    program: str
    can: tuple[str, ...]


KNOWN = (
    KnownAgent(
        agent="claude",
        program="claude",
        can=("mcp", "hooks", "asks", "defers", "interrupt", "resume", "cost", "budget"),
    ),
    KnownAgent(agent="codex", program="codex", can=("mcp", "hooks", "resume", "tokens", "budget")),
    KnownAgent(
        agent="acp:gemini --acp",
        program="gemini",
        can=("mcp", "asks", "interrupt", "resume", "tokens", "budget"),
    ),
    KnownAgent(
        agent="acp:opencode acp", program="opencode", can=("mcp", "asks", "interrupt", "resume", "cost")
    ),
)


def reports(agent: str) -> bool:
    """Whether an agent with a model tells what it uses, in tokens or money."""
    return any(agent_.program == name_of(agent) for agent_ in KNOWN)


class Status(Struct, frozen=True, kw_only=True):
    agent: str
    program: str | None = None
    version: str | None = None
    login: str | None = None
    can: tuple[str, ...] = ()

    @property
    def problem(self) -> str:
        if self.program is None:
            return "not installed"
        return "" if self.login else "not logged in"


def statuses(environment: Mapping[str, str]) -> list[Status]:
    """All known agents; they are asked in parallel, since some take seconds to print their version."""
    with ThreadPoolExecutor(len(KNOWN)) as pool:
        return list(pool.map(status, KNOWN, repeat(environment)))


def status(agent: KnownAgent, environment: Mapping[str, str]) -> Status:
    path = shutil.which(agent.program, path=environment.get("PATH"))
    if path is None:
        return Status(agent=agent.agent, can=agent.can)
    account = account_of(agent.agent)
    return Status(
        agent=agent.agent,
        program=path,
        version=_version(path, environment),
        login=_login(account, environment) if account else None,
        can=agent.can,
    )


def _version(path: str, environment: Mapping[str, str]) -> str | None:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        process = subprocess.run(
            [path, "--version"],
            env=dict(environment),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=VERSION_S,
        )
        number = re.search(rb"\d+\.\d+[\w.+-]*", process.stdout)
        return number[0].decode() if number else None
    return None


def _login(account: Account, environment: Mapping[str, str]) -> str | None:
    """Where its login comes from when Flyball lends it; None if there is none."""
    keys = [name for name in variables(account, environment) if "KEY" in name or "TOKEN" in name]
    if keys:
        return keys[0]
    home = Path(environment.get("HOME", "/nonexistent"))
    for file in account.files:
        moved = environment.get(file.moved, "") if file.moved else ""
        path = Path(moved) / file.rest if moved else home / file.path
        if path.is_file() if file.rotates else (file.key and _holds(path, file.key)):
            return str(path).replace(f"{home}/", "~/")
    helper = account.helper
    return "apiKeyHelper" if helper and _holds(home / helper[0], f'"{helper[1]}"') else None


def _holds(file: Path, words: str) -> bool:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return words in file.read_text("utf-8")
    return False
