"""Which kind of place a path of a command line leads to, and what may be done there.

Only the text decides, from the directory that the line is in. A path is inside the workspace by its exact name; what
is protected is compared folded.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from flyball.guard import word_set
from flyball.guard.change import FLYBALL, GIT, Decision, Verdict, below, fold_written
from flyball.guard.commands.args import HOLE, Arg
from flyball.guard.commands.command_policy import CommandPolicy
from flyball.guard.commands.context import Context
from flyball.reading.terminal import Lazy

if TYPE_CHECKING:
    from flyball.guard.commands.command_policy import CommandPolicy

PATH_MOST = 2_000
WILDCARDS_MOST = 12
UNKNOWN = "?"  # a working directory that is not known

_AGENT = word_set(
    ".claude .claude-plugin .codex .gemini .cursor .aider .continue .opencode .windsurf .cline .roo .kilocode .kiro .goose"
    " .amp .qwen .mcp .copilot .amazonq .trae .crush .factory .augment .zed .junie .agents .warp .codeium .tabnine"
    " .openhands .devin"
)
_AGENT_FILES = Lazy(
    r"\.claude\.json|\.aider.*|managed-settings\.json|\.?mcp\.json|mcp[-_](?:config|settings)\.json|opencode\.jsonc?"
    r"|\.?crush\.json|\.goosehints|claude_desktop_config\.json|.*\.code-workspace"
)
_AGENT_TAIL = Lazy(r"(?:.*/)?\.config/(?:claude|codex|gemini|opencode|goose|github-copilot|cursor)(?:/.*)?")
_SECRET_DIRS = word_set(
    ".ssh .aws .gnupg .kube .azure .gcloud .password-store .mozilla .thunderbird keychains"
)
_EXAMPLE = r"(?:example|sample|template|dist|defaults|schema|tpl)"
_SECRET_NAME = Lazy(
    rf"\.env|\.envrc(?:\.local)?|(?!\.env[._-](?:[\w.-]+\.)?{_EXAMPLE}$)\.env[._-][\w.-]+|(?!{_EXAMPLE}\.)[\w-]+\.env|\.dev\.vars"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)(?:[_-][\w-]*|\.bak|\.old)?|[\w-]+_(?:rsa|ed25519)|[._]netrc|\.pgpass|\.my\.cnf|\.pypirc"
    r"|\.git-?credentials|\.vault[-_](?:token|pass.*)|\.htpasswd|\.dockercfg|\.dockerconfigjson|\.s3cfg|\.boto|\.terraformrc"
    r"|(?!(?:.*[-_.])?(?:ca|cacert|cert|certificate|chain|fullchain|bundle|public|pub)\.pem$).*\.(?:pem|key|p12|pfx|p8|jks|keystore|kdbx?|ppk|keytab|ovpn|agekey|asc\.key|tfstate|tfstate\.backup|mobileprovision)"
    r"|secrets?\.(?:ya?ml|json|toml|env|ini|txt|properties|yml\.enc|enc|(?:auto\.)?tfvars)|.*[-.]secrets\.(?:ya?ml|json)"
    r"|\.secrets(?!\.baseline$)(?:\..*)?|\.?credentials(?:\.(?:json|toml|db|ya?ml|ini|xml|csv|txt|yml\.enc))?|auth\.(?:json|toml)"
    r"|(?:.*-)?service[-_]?account.*\.json|client_secret.*\.json|gcp-key.*\.json|google-credentials\.json"
    r"|(?:.*-)?firebase-adminsdk.*\.json|application_default_credentials\.json|(?:.*\.)?kubeconfig(?:\..*)?|wallet\.dat"
    r"|\.[a-z_]+_history|shadow-?|gshadow-?|sudoers|login data|cookies(?:\.sqlite)?|publish\.pubxml\.user|access[-_]token|api_?key|vault_pass|kaggle\.json|credentials\.sbt|\.rails_master_key"
)
_SECRET_INSIDE = Lazy(
    r"(?:config/)?secrets/[^/]+\.(?:json|ya?ml|txt|toml|ini|env|properties)|(?:.*/)?\.docker/config\.json"
)
_SECRET_TAIL = Lazy(
    r".*/\.docker/config\.json|.*/\.config/(?:gh|gcloud|op|rclone|hub|doctl|glab-cli|configstore|google-chrome|chromium|netlify|heroku|stripe|ngrok)(?:/.*)?|.*/\.npmrc|.*/\.boto"
    r"|/(?:var/)?run/secrets(?:/.*)?|/proc/(?:[^/]+/(?:task/[^/]+/)?(?:environ|mem|maps|fd(?:/.*)?|root(?:/.*)?|cwd/.*|auxv)|kcore)"
    r"|/dev/(?:mem|kmem)|/etc/sudoers\.d(?:/.*)?|/etc/ssl/private(?:/.*)?|/etc/ssh/ssh_host.*|.*/\.terraform\.d/.*"
    r"|.*/\.cargo/credentials.*|.*/\.m2/settings(?:-security)?\.xml|.*/\.gradle/gradle\.properties|.*/\.bundle/config|.*/huggingface/token|.*/nuget/nuget\.config|.*/keyrings(?:/.*)?|.*/\.gem/credentials|.*/docker\.sock"
)
_ASK_TO_WRITE = Lazy(
    r"\.github/(?:workflows|actions)/.*|\.gitlab-ci\.yml|\.circleci/.*|azure-pipelines\.yml|jenkinsfile|\.husky/.*"
    r"|\.pre-commit-config\.yaml|lefthook\.ya?ml|(?:.*/)?(?:claude|agents|gemini|copilot-instructions)\.md|\.cursorrules"
    r"|\.windsurfrules|\.clinerules|\.gitmodules|\.gitattributes|\.vscode/.*|\.idea/.*|\.devcontainer/.*|head"
    r"|(?:.*/)?(?:\.npmrc|\.yarnrc(?:\.yml)?|sitecustomize\.py|usercustomize\.py|.*\.pth)|\.buildkite/.*|\.travis\.yml"
    r"|\.cargo/config(?:\.toml)?"
)
_HARMLESS_DEVICES = Lazy(r"/dev/(?:null|zero|u?random|stdin|stdout|stderr|tty|fd/[0-9]+)")
_SYSTEM = (
    "bin",
    "boot",
    "dev",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "srv",
    "sys",
)
_SYSTEM_TOPS = frozenset((*_SYSTEM, "usr", "var", "library", "system", "applications", ""))

_SAMPLES = [
    ".git/config",
    ".git/hooks/pre-commit",
    ".flyball/policy.toml",
    ".flyball/journal.db",
    ".env",
    ".claude/settings.json",
    ".codex/config.toml",
    ".gemini/settings.json",
    ".netrc",
    ".ssh/id_rsa",
    ".aws/credentials",
    ".bashrc",
    ".profile",
    ".mcp.json",
    "id_rsa",
    "id_ed25519",
    ".env.local",
    "server.pem",
    "server.key",
]

_SECRET_NAMES = word_set(
    ".env .env.local .env.production .envrc prod.env .dev.vars id_rsa id_dsa id_ecdsa id_ed25519 deploy_rsa deploy_ed25519"
    " .netrc _netrc .pgpass .my.cnf .pypirc .git-credentials .vault-token .htpasswd .dockercfg .s3cfg .boto .secrets"
    " server.pem server.key server.p12 server.pfx server.p8 server.jks server.keystore server.kdbx server.ppk"
    " terraform.tfstate secrets.yml secrets.yaml secrets.json secrets.toml secrets.env secrets.txt secret.yml secret.json"
    " .credentials credentials credentials.json credentials.yml credentials.toml auth.json service-account.json"
    " service_account.json client_secret.json kubeconfig wallet.dat .bash_history"
)
_USUAL_KINDS = Lazy(r"\*+\.(?:json|ya?ml|toml|txt|ini|xml|csv|properties|local|production)|\*+[a-z]?")
_CLASS = Lazy(r"\[[^\]]*\[[:.=][^\]]*[:.=]\][^\]]*\]")
FIXED_LEAST = 3

# place: what each use of it gets. (look = its existence, read, create, write, delete)
_TABLE: dict[str, tuple[Decision, Decision, Decision, Decision, Decision]] = {
    "inside": ("allow", "allow", "allow", "allow", "allow"),
    "delicate": ("allow", "allow", "ask", "ask", "ask"),
    "workspace": ("allow", "allow", "allow", "allow", "deny"),
    "harmless": ("allow", "allow", "allow", "allow", "deny"),
    "temporary": ("ask", "ask", "ask", "ask", "deny"),
    "unknown": ("ask", "ask", "ask", "ask", "ask"),
    "outside": ("ask", "ask", "ask", "deny", "deny"),
    "home": ("ask", "deny", "deny", "deny", "deny"),
    "system": ("ask", "ask", "deny", "deny", "deny"),
    "home-settings": ("ask", "ask", "deny", "deny", "deny"),
    "git-internals": ("allow", "ask", "deny", "deny", "deny"),
    "agent-settings": ("allow", "ask", "deny", "deny", "deny"),
    "secret": ("deny", "deny", "deny", "deny", "deny"),
    "workspace-secret": ("allow", "deny", "deny", "deny", "deny"),
    "guard-settings": ("allow", "allow", "deny", "deny", "deny"),
    "tool-settings": ("allow", "allow", "deny", "deny", "deny"),
    "guard": ("deny", "deny", "deny", "deny", "deny"),
    "network-device": ("deny", "deny", "deny", "deny", "deny"),
}
# In a working sandbox: what stays in the checkout, the private home and /tmp is ordinary (EVID-6).
_IN_SANDBOX: dict[str, tuple[Decision, Decision, Decision, Decision, Decision]] = {
    "delicate": ("allow", "allow", "allow", "allow", "allow"),
    "temporary": ("allow", "allow", "allow", "allow", "allow"),
    "unknown": ("allow", "allow", "ask", "ask", "ask"),
    "outside": ("allow", "ask", "ask", "deny", "deny"),
    "home": ("allow", "deny", "allow", "deny", "deny"),
    "home-file": ("allow", "allow", "allow", "allow", "deny"),
    "home-cache": ("allow", "allow", "allow", "allow", "allow"),
    "home-settings": ("allow", "allow", "deny", "deny", "deny"),
    "home-login": ("allow", "ask", "deny", "deny", "deny"),
    "system": ("allow", "allow", "deny", "deny", "deny"),
    "git-internals": ("allow", "allow", "deny", "deny", "deny"),
    "git-config": ("allow", "ask", "deny", "deny", "deny"),
    "agent-notes": ("allow", "allow", "deny", "deny", "deny"),
    "package-settings": ("allow", "allow", "ask", "ask", "ask"),
    "other-home": ("deny", "deny", "deny", "deny", "deny"),
}
_CACHE = Lazy(r"\.(?:cache|npm|cargo|rustup|gradle|m2|nuget|pyenv|nvm|local/lib|virtualenvs|bun|yarn)/.+")
_ORDINARY_SETTINGS = Lazy(
    r"(?:bin|library)/.*|\.(?:\w*(?:profile|rc|env)|bash_\w+|gitconfig|gitignore\w*|gitattributes|tool-versions|sdkman|asdf|rbenv|nodenv|volta|fnm|deno|go|ivy2"
    r"|pub-cache|mix|opam|ghcup|cabal|stack|julia|nvm|pyenv|venvs?|virtualenvs?|oh-my-zsh|fzf|vim|emacs\.d|(?:local|config)$|config/(?:git|pip|nvim|vim|fish|matplotlib|yarn|uv|pnpm|poetry|direnv)|local/(?:bin|share|lib|state))(?:/.*)?"
)
"""Hidden files of the home that tools are set up by. What else stands there may be a login."""
_READABLE = Lazy(
    r"/(?:bin|sbin|lib\w*|usr|opt|proc(?!/(?:\d|self|thread)(?!\w*/(?:stat|statm|status|limits|cgroup|io|comm|mounts)$))|sys|nix|var/(?:lib|log|cache))(?:/.*)?|/etc/(?!(?:passwd|group)-?$).+"
)
"""System files that a sandbox shows read-only and that hold nothing private."""
_OTHER_HOME = Lazy(r"/root(?:/.*)?|/home/.+")
_FULL_OF_SETTINGS = frozenset({".config", ".local", ".local/share", ".local/state"})
"""Folders of the home that hold logins of many tools: what reads all of one reads those."""
_TEMPORARY = re.compile(r"/(?:var/)?tmp/")
_USES = ("look", "read", "create", "write", "delete")
_WHY = {
    "delicate": "decides what runs or what agents are told",
    "workspace": "is the workspace itself",
    "temporary": "is outside the workspace",
    "unknown": "is not known before the command runs",
    "outside": "is outside the workspace",
    "home-file": "is in the home directory",
    "home-cache": "is in the home directory",
    "home": "is the home directory",
    "other-home": "is the home of another user",
    "system": "is a system file or directory",
    "home-settings": "is a personal setting, which stays after the run",
    "home-login": "may hold the login of a tool",
    "git-internals": "is inside git's own directory",
    "git-config": "is git's configuration, which may hold credentials",
    "package-settings": "decides where packages come from",
    "agent-settings": "is a setting of an agent",
    "agent-notes": "tells agents what to do",
    "secret": "may contain secrets",
    "workspace-secret": "may contain secrets",
    "guard-settings": "configures Flyball",
    "tool-settings": "decides what an agent may do in an editor",
    "guard": "belongs to Flyball",
    "network-device": "opens a network connection",
    "harmless": "is a device",
}
_DOES = {"look": "Looks at", "read": "Reads", "create": "Creates", "write": "Writes to", "delete": "Deletes"}


def ruling(place: str, use: str, path: str, contained: bool) -> Verdict | None:
    """The verdict on using a path of that place, or None where it is ordinary."""
    table = _IN_SANDBOX if contained and place in _IN_SANDBOX else _TABLE
    word = table[place][_USES.index(use)]
    if word == "allow":
        return None
    looks = "looks-" if use == "look" and word == "deny" else ""
    return Verdict(word, f"path/{looks}{place}", f"{_DOES[use]} '{path}', which {_WHY[place]}.")


def place_of(text: str, cwd: str, policy: CommandPolicy) -> str:
    """The place a literal path leads to from `cwd`."""
    if (not posixpath.isabs(text) and cwd == UNKNOWN) or len(text) > PATH_MOST:
        return "unknown"
    path = _absolute(text, cwd)
    inside = _inside(path, policy)
    outer = _place_in_sandbox if policy.contained else _outer_place
    place = _protected(path, inside, policy) or (
        _inner_place(inside) if inside is not None else outer(path, policy)
    )
    return _finer_place(place, path) if policy.contained else place


def is_foreign(text: str, cwd: str, policy: CommandPolicy) -> bool:
    """Does the path surely lead out of the workspace, to where others may write?"""
    path = posixpath.normpath(posixpath.join(cwd, text))
    if not posixpath.isabs(path) or _HARMLESS_DEVICES.fullmatch(path):
        return False
    if policy.contained:
        return place_of(path, cwd, policy) in {"outside", "system"}
    return _inside(_absolute(path, cwd), policy) is None


def _absolute(text: str, cwd: str) -> str:
    return "/" + posixpath.normpath(posixpath.join(cwd, text)).lstrip("/")


def _inside(path: str, policy: CommandPolicy) -> str | None:
    """The rest of the path below the workspace, folded; '' for the workspace itself, None if it is outside."""
    rest = below(path, policy.workspace)
    return None if rest is None else fold_written(rest)


def _folded_below(path: str, root: str) -> str | None:
    return below(fold_written(path), fold_written(root))


def _protected(path: str, inside: str | None, policy: CommandPolicy) -> str:
    if any(_is_state(path, inside, state, policy) for state in policy.state_dirs):
        return "guard"
    folded = fold_written(path)
    outside = inside is None and _folded_below(path, policy.home) is None  # either may be in /tmp itself
    if policy.contained and outside and _TEMPORARY.match(path) and FLYBALL not in folded.split("/"):
        return ""  # private there: a key in it is one that the agent has made
    parts = (inside if inside is not None else folded).split("/")
    if FLYBALL in parts and parts[parts.index(FLYBALL) + 1 :][:1] != ["out"]:
        return "guard"
    if inside is None and re.fullmatch(r"/(?:.*/)?s?bin/flyball", path):
        return "guard"
    if re.match(r"/dev/(?:tcp|udp)\b", folded):
        return "harmless" if policy.contained and _OWN_PORT.match(folded) else "network-device"
    return _private(folded, parts, inside is not None)


_OWN_PORT = re.compile(r"/dev/tcp/(?:localhost|127\.0\.0\.1)(?:/|$)")


def _is_state(path: str, inside: str | None, state: str, policy: CommandPolicy) -> bool:
    """Flyball's own files. Where the workspace or a private home is among them, what is inside is the agent's."""
    checkout = inside is not None and _folded_below(policy.workspace, state) is not None
    at_home = _folded_below(path, policy.home) is not None and _folded_below(policy.home, state) is not None
    return _folded_below(path, state) is not None and not checkout and not at_home


def _private(folded: str, parts: list[str], inside: bool) -> str:
    if GIT in parts or "git~1" in parts:
        return "git-internals"
    name = parts[-1]
    if _SECRET_NAME.fullmatch(name) or not _SECRET_DIRS.isdisjoint(parts):
        return "workspace-secret" if inside else "secret"
    if not inside and _SECRET_TAIL.fullmatch(folded):
        return "secret"
    if inside and _SECRET_INSIDE.fullmatch("/".join(parts)):
        return "workspace-secret"
    if not _AGENT.isdisjoint(parts) or _AGENT_FILES.fullmatch(name) or _AGENT_TAIL.fullmatch("/".join(parts)):
        return "agent-settings"
    return ""


def _inner_place(rest: str) -> str:
    if not rest:
        return "workspace"
    if rest.endswith(".vscode/settings.json"):
        return "tool-settings"
    if rest == "flyball.toml":
        return "guard-settings"
    return "delicate" if _ASK_TO_WRITE.fullmatch(rest) else "inside"


def _outer_place(path: str, policy: CommandPolicy) -> str:
    if _HARMLESS_DEVICES.fullmatch(path):
        return "harmless"
    rest = _folded_below(path, policy.home)
    if rest == "":
        return "home"
    if rest is not None:
        return "home-settings" if rest.startswith((".", "bin/", "library/launch")) else "outside"
    tops = path.lower().split("/")
    if tops[1] == "tmp" or tops[1:3] == ["var", "tmp"]:
        return "temporary"
    return "system" if tops[1] in _SYSTEM_TOPS else "outside"


def _place_in_sandbox(path: str, policy: CommandPolicy) -> str:
    """The home is private there, system files are read-only, and nothing else is in sight."""
    place = _outer_place(path, policy)
    rest = _folded_below(path, policy.home)
    if place in {"outside", "home-settings"} and rest is not None:
        if rest in _FULL_OF_SETTINGS:
            return "home"
        hidden = "home-settings" if _ORDINARY_SETTINGS.fullmatch(rest) else "home-login"
        kept = hidden if place == "home-settings" else "home-file"
        return "home-cache" if _CACHE.fullmatch(rest) else kept
    if rest is None and _OTHER_HOME.fullmatch(path):
        return "other-home"
    if place == "temporary" and path.count("/") < path.startswith("/var/") + 2:
        return "workspace"  # /tmp itself: anything but deleted
    return "outside" if place == "system" and not _READABLE.fullmatch(path) else place


def _finer_place(place: str, path: str) -> str:
    """Of places that a sandbox contains, those that hold credentials or lead elsewhere."""
    name = posixpath.basename(path).lower()
    if place == "git-internals" and name == "config":
        return "git-config"
    if place == "agent-settings" and name.endswith((".md", ".mdc")):
        return "agent-notes"
    settings = _PACKAGE_SETTINGS if place == "delicate" else _MANAGER_SETTINGS
    return "package-settings" if place in {"delicate", "home-cache"} and settings.fullmatch(name) else place


_MANAGER_SETTINGS = Lazy(r"config(?:\.toml)?|settings\.xml|init\.gradle(?:\.kts)?|nuget\.config")
_PACKAGE_SETTINGS = Lazy(r"\.npmrc|\.yarnrc(?:\.yml)?|sitecustomize\.py|usercustomize\.py|.*\.pth|pip\.conf")


@lru_cache(maxsize=2048)
def glob_place(pattern: str, cwd: str, policy: CommandPolicy) -> str:
    """The worst place a glob could lead to: its fixed beginning, or a protected path it could match."""
    if (not posixpath.isabs(pattern) and cwd == UNKNOWN) or len(
        re.findall(r"[*?\[]", pattern)
    ) > WILDCARDS_MOST:
        return "unknown"
    path = posixpath.normpath(posixpath.join(cwd, pattern))
    pieces = path.lower().split("/")
    for sample, parts in _samples((policy.workspace, policy.home)):
        if _could_match(pieces, parts):
            return place_of(sample, cwd, policy)
    if _could_match(pieces, ["", "etc", "shadow"]):
        return "secret"
    inside = below(path, policy.workspace) is not None
    named = _private(path.lower(), pieces, inside)
    if named:
        return named
    if _names_a_secret(pieces[-1]):
        return "workspace-secret" if inside else "secret"
    fixed = posixpath.dirname(re.split(r"[*?\[]", path, maxsplit=1)[0]) or "/"
    place = place_of(fixed, cwd, policy)
    return "inside" if place == "workspace" else place


@lru_cache(maxsize=8)
def _samples(roots: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    paths = [f"{root}/{sample}" for root in roots for sample in _SAMPLES]
    return [(path, path.lower().split("/")) for path in paths]


def _could_match(pieces: list[str], sample: list[str]) -> bool:
    """A pattern also covers everything below what it matches; `*` never matches a leading dot."""
    if len(pieces) > len(sample):
        return False
    return all(map(_fits, sample, pieces)) and any(
        "*" in piece or "?" in piece or "[" in piece for piece in pieces
    )


def _fits(name: str, piece: str) -> bool:
    if name == piece:
        return True
    if (name[:1] == "." and piece[:1] != ".") or piece.strip("*?") == "":
        return False
    return fnmatch.fnmatchcase(name, _CLASS.sub("?", piece).replace("[^", "[!"))


def _names_a_secret(piece: str) -> bool:
    """Does the glob match file names of secrets, rather than all files of some type?"""
    fixed = re.sub(r"\[[^\]]*\]|[*?]", "", piece)
    if fixed == piece or len(fixed) < FIXED_LEAST or _USUAL_KINDS.fullmatch(piece):
        return False
    return any(_fits(name, piece) for name in _SECRET_NAMES)


# --- judges the paths of a command, from every directory that the line may be in

AT_HOME = frozenset({"temporary", "home-file", "home-cache", "home-settings"})
"""Places that a sandbox contains, besides the workspace."""
_PIPE = re.compile(r"/dev/fd/\d+")
_DECODES = word_set("base64 base32 xxd rev uudecode openssl gpg")
_SECRETIVE = re.compile(
    r"\benv\b|secret|cred|passw|token|id_[rde]|\.ssh|aws|netrc|pem\b|\.key", re.IGNORECASE
)


class PathJudge:
    """What is done with a path. `calls` are the commands of the line so far."""

    def __init__(self, policy: CommandPolicy) -> None:
        self.policy = policy
        self.calls: list[tuple[Arg, ...]] = []

    def path(self, use: str, arg: Arg, context: Context) -> None:
        """A path is judged from every directory the line may be in."""
        if arg.pipe and use in {"create", "delete"}:
            context.ask("opaque-operand", "Uses a process substitution where a file is needed.")
        if arg.text == "-" or (arg.pipe and _PIPE.fullmatch(arg.text)):
            return
        if arg.many and use not in {"look", "read"}:
            context.ask("many-files", "Changes files whose names come from another command.")
        if HOLE in arg.text or arg.word:
            self.opaque_path(use, arg, context)
        else:
            self.known_path(use, arg, context)

    def source(self, arg: Arg, context: Context) -> None:
        """A file for a linter or formatter: here a glob inside the workspace is fine."""
        if HOLE in arg.text or arg.word or not (arg.glob or arg.many):
            self.path("read" if self.policy.contained and HOLE in arg.text else "write", arg, context)
            return
        self.use_path("write", arg.text, arg.text, context, globbing=True)

    def opaque_path(self, use: str, arg: Arg, context: Context) -> None:
        start = arg.text.split(HOLE, 1)[0]
        prefix = posixpath.dirname(start if arg.word else start + "x")
        if prefix:
            self.known_path(use, Arg(prefix), context)
        stays = (use in {"look", "read"} or self.stays_near(use, start, context)) and not self.seeks_secrets()
        rule = "opaque-operand" if stays else "opaque-path"
        context.ask(rule, f"The file to {use} is unknown until the command runs.")

    def stays_near(self, use: str, start: str, context: Context) -> bool:
        """In a sandbox: does a new name begin in a folder of the workspace or /tmp, or like an ordinary file?"""
        if not self.policy.contained or use not in {"create", "write"}:
            return False
        folder = posixpath.dirname(start)
        known = folder == "/tmp" or (
            folder and self.is_inside(Arg(folder), context, frozenset({"temporary"}))
        )
        return bool(known) or re.match(r"[^./~]", start) is not None

    def seeks_secrets(self) -> bool:
        """Does the line decode something or search for names of secrets? Then an unknown file may be one."""
        return any(
            call[0].text in _DECODES or any(_SECRETIVE.search(arg.text) for arg in call[1:])
            for call in self.calls
        )

    def trusts_output(self) -> bool:
        """In a sandbox what commands print of files counts as a number, unless the line writes or decodes it in disguise."""
        disguised = any(
            call[0].text in {"echo", "printf"} and any("\\" in arg.text for arg in call)
            for call in self.calls
        )
        return self.policy.contained and not disguised and not self.seeks_secrets()

    def known_path(self, use: str, arg: Arg, context: Context) -> None:
        text = self.policy.home + arg.text[1:] if re.match(r"~(?:/|$)", arg.text) else arg.text
        self.use_path(use, text, arg.text, context, globbing=arg.glob or arg.many)
        if use in {"create", "write"} and posixpath.basename(text).startswith("-"):
            context.ask("option-like-name", f"'{arg.text}' looks like an option when a glob matches it.")
        if arg.glob and use not in {"look", "read"}:
            context.ask("glob-operand", f"'{arg.text}' may match any file.")

    def use_path(self, use: str, text: str, shown: str, context: Context, globbing: bool) -> None:
        """The path is judged from every directory that the line may be in."""
        places = {(glob_place if globbing else place_of)(text, cwd, self.policy) for cwd in context.cwds}
        if self.policy.contained and len(places) > 1:
            places -= {"outside"}  # a `cd` that fails leads to where a sandbox shows nothing
        for place in sorted(places):
            verdict = ruling(place, use, shown, self.policy.contained)
            if verdict:
                context.add(verdict)

    def is_inside(self, arg: Arg, context: Context, also: frozenset[str] = frozenset()) -> bool:
        """Is it surely a path inside the workspace (or one of these other places)?"""
        places = {place_of(arg.text, cwd, self.policy) for cwd in context.cwds}
        return HOLE not in arg.text and places <= {"inside", "delicate"} | also

    def own_places(self) -> frozenset[str]:
        """Where a script may stand besides the workspace: in a sandbox also the private home and /tmp."""
        return AT_HOME if self.policy.contained else frozenset()
