"""`flyball up` as a service: the unit for systemd, the agent for launchd. Only printed; a person installs it."""

from __future__ import annotations

import hashlib
import plistlib
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

KINDS = ("systemd", "launchd")
STOPS_WITHIN_S = 600  # a turn may take its time to end
PASSED = ("PATH", "FLYBALL_STATE_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME")  # agents are found by PATH
SYSTEMD = """\
# Save this as ~/.config/systemd/user/{name}.service
# Start it: systemctl --user daemon-reload && systemctl --user enable --now {name}
# It runs while you are logged in; `loginctl enable-linger` keeps it running afterwards.
# Secrets, such as FLYBALL_WEBHOOK_SECRET, belong in the file that EnvironmentFile names (mode 600).
[Unit]
Description=flyball up in {repo}

[Service]
WorkingDirectory={repo}
ExecStart={command}
{environment}
EnvironmentFile=-%h/.config/flyball/environment
KillSignal=SIGINT
KillMode=mixed
TimeoutStopSec={stops_s}
Restart=on-failure
RestartSec=30

[Install]
WantedBy=default.target
"""
LAUNCHD = """\
<!-- Save this as ~/Library/LaunchAgents/{name}.plist
     Start it: launchctl bootstrap gui/$(id -u) ~/Library/LaunchAgents/{name}.plist -->
"""


def service(kind: str, repo: Path, options: list[str], env: Mapping[str, str], log: Path) -> str:
    """The file that starts `flyball up` with these options in this repository."""
    variables = {name: env[name] for name in PASSED if env.get(name)}
    argv = [*_program(), "up", *options]
    name = f"flyball-{_slug(repo)}" if kind == "systemd" else f"flyball.{_slug(repo)}"
    if kind == "launchd":
        return _launchd(name, repo, argv, variables, log)
    return SYSTEMD.format(
        name=name,
        repo=str(repo).replace("%", "%%"),
        command=" ".join(_quoted(word.replace("$", "$$")) for word in argv),
        environment="\n".join(f"Environment={_quoted(f'{key}={value}')}" for key, value in variables.items()),
        stops_s=STOPS_WITHIN_S,
    )


def _program() -> list[str]:
    """The installed command, wherever the service manager starts it from."""
    program = shutil.which(sys.argv[0])
    return [str(Path(program).absolute())] if program else [sys.executable, "-P", "-m", "flyball"]


def _slug(repo: Path) -> str:
    """Two repositories with one name are two services."""
    word = re.sub(r"[^A-Za-z0-9]+", "-", repo.name).strip("-") or "repo"
    return f"{word}-{hashlib.sha256(str(repo).encode()).hexdigest()[:6]}"


def _quoted(word: str) -> str:
    """As systemd reads it, where `%` means something."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return text if re.fullmatch(r"[\w@%+=:,./$-]+", text) else f'"{text}"'


def _launchd(name: str, repo: Path, argv: list[str], variables: dict[str, str], log: Path) -> str:
    about = {
        "Label": name,
        "ProgramArguments": argv,
        "WorkingDirectory": str(repo),
        "EnvironmentVariables": variables,
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ExitTimeOut": STOPS_WITHIN_S,
        "StandardOutPath": str(log),
        "StandardErrorPath": str(log),
    }
    head, _, rest = plistlib.dumps(about).decode().partition("\n")
    return f"{head}\n{LAUNCHD.format(name=name)}{rest}"
