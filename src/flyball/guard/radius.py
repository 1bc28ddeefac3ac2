"""How much a run changes: files, lines, deletions and sizes, counted over the whole run."""

from collections.abc import Iterable, Sequence

from flyball.guard.change import ANY_EXECUTE, Change, bits, churn
from flyball.guard.policy import Policy, Radius
from flyball.guard.verdict import Decision, Verdict

BINARY_NAMES = (
    *(".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".ico", ".tif", ".tiff", ".psd", ".pdf", ".mp3"),
    *(".mp4", ".mov", ".avi", ".mkv", ".wav", ".flac", ".ogg", ".zip", ".gz", ".tgz", ".bz2", ".xz", ".zst"),
    *(".7z", ".rar", ".tar", ".db", ".sqlite", ".sqlite3", ".parquet", ".npy", ".npz", ".pkl", ".pickle"),
    *(".pt", ".onnx", ".h5", ".safetensors", ".gguf", ".bin", ".dat", ".iso", ".img", ".ttf", ".otf"),
    *(".woff", ".woff2", ".eot", ".doc", ".docx", ".xls", ".xlsx", ".ppt", ".pptx"),
)
PROGRAM_NAMES = (
    *(".exe", ".dll", ".so", ".dylib", ".com", ".msi", ".scr", ".sys", ".ko", ".o", ".a", ".lib", ".elf"),
    *(
        ".jar",
        ".war",
        ".ear",
        ".class",
        ".pyc",
        ".pyo",
        ".pyd",
        ".whl",
        ".egg",
        ".apk",
        ".ipa",
        ".deb",
        ".rpm",
    ),
    *(
        ".dmg",
        ".pkg",
        ".appimage",
        ".wasm",
        ".node",
        ".run",
        ".crx",
        ".xpi",
        ".vsix",
        ".gem",
        ".nupkg",
        ".run",
    ),
)


def judge_radius(
    changes: Sequence[Change],
    files: Sequence[str],
    policy: Policy,
    *,
    prior_files: Sequence[str] | int = (),
    prior_lines: int = 0,
    prior_deleted: int = 0,
) -> Iterable[Verdict]:
    """`files` are the real paths of the changes, in their order; prior ones count once."""
    radius = policy.radius
    lines = prior_lines + sum(churn(change) for change in changes)
    deleted = prior_deleted + len({f for c, f in zip(changes, files, strict=True) if c.op == "delete"})
    files_changed = _distinct(files, prior_files)
    yield from _count("radius-files", files_changed, "files changed", radius.files_ask, radius.files_deny)
    yield from _count("radius-lines", lines, "lines changed", radius.lines_ask)
    yield from _count("deletions", deleted, "files deleted", radius.deletions_ask, radius.deletions_deny)
    for change in changes:
        yield from _size(change, radius)


def _distinct(files: Sequence[str], prior: Sequence[str] | int) -> int:
    return len({*files}) + prior if isinstance(prior, int) else len({*files, *prior})


def _count(rule: str, count: int, what: str, ask: int, deny: int | None = None) -> Iterable[Verdict]:
    if deny is not None and count >= deny:
        yield Verdict("deny", rule, f"{count} {what} in this run; {deny} or more are denied.")
    elif count > ask:
        yield Verdict("ask", rule, f"{count} {what} in this run; the limit is {ask}.")


def _size(change: Change, radius: Radius) -> Iterable[Verdict]:
    name, size = change.path.lower(), change.bytes or 0
    binary = change.binary or name.endswith(BINARY_NAMES)
    if change.op == "delete":
        return
    if size > radius.bytes_deny:
        yield _big("deny", change, size, radius.bytes_deny)
    elif binary and size > radius.binary_bytes_ask:
        yield _big("ask", change, size, radius.binary_bytes_ask)
    elif size > radius.text_bytes_ask:
        yield _big("ask", change, size, radius.text_bytes_ask)
    if name.endswith(PROGRAM_NAMES) or (change.binary and bits(change) & ANY_EXECUTE):
        yield Verdict("ask", "binary", f"{change.path} is a binary program.", change.path)


def _big(word: Decision, change: Change, size: int, limit: int) -> Verdict:
    return Verdict(word, "big-file", f"{change.path} has {size} bytes; the limit is {limit}.", change.path)
