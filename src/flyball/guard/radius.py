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
    yield from _files(_distinct(files, prior_files), radius)
    if lines > radius.lines_ask:
        yield Verdict(
            "ask", "radius-lines", f"{lines} lines changed in this run; the limit is {radius.lines_ask}."
        )
    yield from _deletions(deleted, radius)
    for change in changes:
        yield from _size(change, radius)


def _distinct(files: Sequence[str], prior: Sequence[str] | int) -> int:
    return len({*files}) + prior if isinstance(prior, int) else len({*files, *prior})


def _files(count: int, radius: Radius) -> Iterable[Verdict]:
    if count >= radius.files_deny:
        yield Verdict(
            "deny",
            "radius-files",
            f"{count} files changed in this run; {radius.files_deny} or more are denied.",
        )
    elif count > radius.files_ask:
        yield Verdict(
            "ask", "radius-files", f"{count} files changed in this run; the limit is {radius.files_ask}."
        )


def _deletions(count: int, radius: Radius) -> Iterable[Verdict]:
    if count >= radius.deletions_deny:
        yield Verdict(
            "deny",
            "deletions",
            f"{count} files deleted in this run; {radius.deletions_deny} or more are denied.",
        )
    elif count > radius.deletions_ask:
        yield Verdict(
            "ask", "deletions", f"{count} files deleted in this run; the limit is {radius.deletions_ask}."
        )


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
