"""Sets of names, written as they are read."""


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())
