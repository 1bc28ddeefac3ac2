from collections.abc import Iterable, Mapping, Sequence
from flyball.guard.change import Change
from flyball.guard.verdict import Verdict, Word


def weakenings(changes: Sequence[Change], files: Sequence[str], word: Word, texts: Mapping[str, tuple[str | None, str | None]]) -> Iterable[Verdict]:
    return ()
