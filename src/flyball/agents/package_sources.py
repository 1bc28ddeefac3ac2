"""Where pip, npm and cargo get packages from, as the user has configured them.

Their settings lie in the home, which is hidden in the sandbox. So the addresses are passed on as variables, without any
password in them, and the proxy lets installers through to their hosts."""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

from flyball.agents.accounts import address

PUBLIC = (
    *("pypi.org", "files.pythonhosted.org", "registry.npmjs.org", "registry.yarnpkg.com"),
    *("index.crates.io", "static.crates.io", "crates.io", "proxy.golang.org", "sum.golang.org"),
)
PIP = {"index-url": "PIP_INDEX_URL", "extra-index-url": "PIP_EXTRA_INDEX_URL", "find-links": "PIP_FIND_LINKS"}
VARIABLES = (
    *(
        "PIP_INDEX_URL",
        "PIP_EXTRA_INDEX_URL",
        "UV_INDEX_URL",
        "UV_EXTRA_INDEX_URL",
        "UV_DEFAULT_INDEX",
        "UV_INDEX",
    ),
    *("NPM_CONFIG_REGISTRY", "npm_config_registry", "GOPROXY"),
)
URL = re.compile(r"https?://[^\s\"',]+")


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that tell installers where packages are, from the user's files and environment."""
    home = Path(environment.get("HOME", "/nowhere"))
    values = {**_of_pip(home, environment), **_of_npm(home)}
    values |= {name: environment[name] for name in VARIABLES if environment.get(name)}
    return {name: URL.sub(lambda match: _without_user(match[0]), value) for name, value in values.items()}


def hosts(environment: Mapping[str, str]) -> list[str]:
    """HOST or HOST:PORT of every place that packages come from."""
    home = Path(environment.get("HOME", "/nowhere"))
    urls = [url for value in variables(environment).values() for url in URL.findall(value)]
    urls += list(_of_cargo(home, environment))
    return list(dict.fromkeys([*(where for url in urls for where in address(url)), *PUBLIC]))


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _of_pip(home: Path, environment: Mapping[str, str]) -> dict[str, str]:
    files = [
        home / ".config/pip/pip.conf",
        home / ".pip/pip.conf",
        Path(environment.get("PIP_CONFIG_FILE", "/nowhere")),
    ]
    config = configparser.RawConfigParser(strict=False)
    for file in (Path("/etc/pip.conf"), *files):
        try:
            config.read_string(_text(file))
        except configparser.Error:
            continue
    options = {name: config.get("global", key, fallback="") for key, name in PIP.items()}
    return {name: " ".join(value.split()) for name, value in options.items() if value}


def _of_npm(home: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in _text(home / ".npmrc").splitlines())
    registries = [value.strip() for key, _, value in lines if key.strip() == "registry"]
    return {"NPM_CONFIG_REGISTRY": registries[-1]} if registries else {}


def _of_cargo(home: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """The addresses of the registries and replaced sources in cargo's configuration."""
    folder = Path(environment.get("CARGO_HOME") or home / ".cargo")
    for name in ("config.toml", "config"):
        try:
            table: dict[str, Any] = tomllib.loads(_text(folder / name))
        except (ValueError, RecursionError):
            continue
        for section in ("source", "registries"):
            for source in cast("dict[str, Any]", table.get(section, {})).values():
                yield from (url for value in dict(source).values() for url in URL.findall(str(value)))


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace") if file.stat().st_size < 1 << 20 else ""
    except OSError:
        return ""
