"""Addresses of other machines in a text."""

from __future__ import annotations

import re

from flyball.guard import word_set
from flyball.guard.commands.args import HOLE
from flyball.reading.terminal import Lazy

_ADDRESS = Lazy(
    r"\b([a-z][a-z0-9+.-]*)://+(?:[^\s/@'\"]*@)?(\[[^\]\s]*\]|[^\s/:'\"?#)\]},;]*)|(?:^|[\s='\"(])[\w.+-]+@([\w-]+(?:\.[\w-]+)+):",
    re.IGNORECASE,
)
_SOCKET = Lazy(
    r"(?<![\w./-])((?:\d{1,3}\.){3}\d{1,3}|(?:[a-z0-9-]+\.)+[a-z]{2,}(?=:\d{1,5}\b))(?![\w.])", re.IGNORECASE
)
HERE = Lazy(r"localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[::1?\]|::1|", re.IGNORECASE)
_LOCAL_SCHEME = word_set(
    "file sqlite sqlite3 memory jar unix about data postgresql+unix chrome-extension vscode node"
)


_FILE_ENDING = re.compile(
    r".*\.(?:py|pyi|rb|js|jsx|ts|tsx|mjs|cjs|go|rs|java|kt|php|ex|exs|md|rst|txt|json|ya?ml|toml|sh|c|h|cc|cpp|hpp|cs|fs|sql"
    r"|html?|css|scss|vue|svelte|swift|scala|clj|hs|ml|lua|pl|pm|dart|zig|nim|cfg|ini|lock|log|csv|xml|feature|tf|proto|gradle)",
    re.IGNORECASE,
)


def other_machine(text: str) -> str | None:
    """The first address in a text that is not this machine."""
    for match in _ADDRESS.finditer(text):
        scheme, host = (match[1] or "").lower(), match[2] if match[1] else match[3]
        if scheme not in _LOCAL_SCHEME and not HERE.fullmatch(host.lower()):
            return host.replace(HOLE, "?") or "?"
    for match in _SOCKET.finditer(text):
        if not HERE.fullmatch(match[1].lower()) and not _FILE_ENDING.fullmatch(match[1]):
            return match[1]
    return None
