"""What an agent says may hold halves of characters: JSON can write them, no file and no journal takes them."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

from flyball.reading.terminal import whole

Said = TypeVar("Said", bound=msgspec.Struct)


def cleaned(said: Said) -> Said:
    """The same, with a mark in the place of each half."""
    try:
        msgspec.json.encode(said)
    except UnicodeEncodeError:
        return msgspec.convert(_whole(msgspec.to_builtins(said)), type(said))
    return said


def _whole(value: Any) -> Any:
    match value:
        case str():
            return whole(value)
        case list() | tuple():
            return [_whole(item) for item in cast("list[Any]", value)]
        case dict():
            return {_whole(key): _whole(item) for key, item in cast("dict[Any, Any]", value).items()}
        case _:
            return value
