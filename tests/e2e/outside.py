"""A place outside /tmp, which is private in the sandbox: there nothing of a home would need to be hidden."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest


def folder_outside_tmp(request: pytest.FixtureRequest) -> Path:
    cache = getattr(request.config, "cache", None)  # not there with -p no:cacheprovider
    places = (*([cache.mkdir("sandbox")] if cache else []), Path.home())
    roomy = [place.resolve() for place in places if place.resolve().parts[1] not in ("tmp", "var", "run")]
    if not roomy:
        pytest.skip("no folder outside /tmp to try it in")
    return Path(tempfile.mkdtemp(prefix="flyball-test-", dir=roomy[0]))
