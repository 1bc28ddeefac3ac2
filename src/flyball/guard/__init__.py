"""The guard checks changes, commands and secrets. It reads no files and runs nothing."""


def word_set(text: str) -> frozenset[str]:
    """A set of words, written as one text."""
    return frozenset(text.split())
