"""Objects of a git directory, read through one `git cat-file` that stays open as long as its owner."""

from collections.abc import Iterable, Iterator, Sequence

from flyball.workspace.git import Git, Running, raw

REQUEST_BYTES = 16_384  # less than a pipe holds: writing never waits for git to read


class Objects:
    """Sizes and contents by id or by name (`<tree>:<path>`). Git is started with the first question."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._running: Running | None = None

    def sizes(self, oids: Iterable[str]) -> dict[str, int]:
        """The size of each object that is there."""
        names = list(dict.fromkeys(oids))
        heads = {name: self._head() for name in self._asked("info", names)}
        return {name: head[1] for name, head in heads.items() if head}

    def blobs(self, names: Sequence[str]) -> list[bytes | None]:
        """The content of each blob, by id or name; None for what is none."""
        plain = [name for name in dict.fromkeys(names) if not _breaks_lines(name)]
        contents = {name: self._content() for name in self._asked("contents", plain)}
        return [self._alone(name) if _breaks_lines(name) else contents[name] for name in names]

    def _asked(self, command: str, names: Sequence[str]) -> Iterator[str]:
        """Each name, when its answer is the next to be read. Requests are sent in batches."""
        waiting: list[str] = []
        requests = b""
        for name in names:
            request = command.encode() + b" " + raw(name) + b"\n"
            if waiting and len(requests) + len(request) > REQUEST_BYTES:
                self._open().ask(requests)
                yield from waiting
                waiting, requests = [], b""
            waiting.append(name)
            requests += request
        if waiting:
            self._open().ask(requests)
            yield from waiting

    def _open(self) -> Running:
        if self._running is None:
            self._running = self._git.start("cat-file", "--batch-command")
        return self._running

    def _head(self) -> tuple[bytes, int] | None:
        """An object's type and size; None if it is missing."""
        words = self._open().line().rsplit(b" ", 2)
        return (words[1], int(words[2])) if words[-1].isdigit() else None

    def _content(self) -> bytes | None:
        head = self._head()
        content = self._open().exactly(head[1] + 1)[:-1] if head else b""
        return content if head and head[0] == b"blob" else None

    def _alone(self, name: str) -> bytes | None:
        answer = self._git.ask("cat-file", "blob", name, ok=(0, 128))
        return None if answer.code else answer.out


def _breaks_lines(name: str) -> bool:
    return "\n" in name or "\r" in name
