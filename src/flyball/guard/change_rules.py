"""Rules on one change: its size, its place, its kind, and what the policy says of it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from flyball.guard.change import (
    ANY_EXECUTE,
    OTHERS_WRITE,
    SPECIAL_BITS,
    Change,
    bits,
    churn,
    is_gitlink,
    is_symlink,
)
from flyball.guard.paths import globs
from flyball.guard.paths.folding import fold_path, looks_like, oddity, printable
from flyball.guard.paths.links import FLYBALL, GIT, THE_WORKSPACE, Links, Place, means_elsewhere, place
from flyball.guard.policy import Policy, Radius
from flyball.guard.verdict import Decision, Verdict

# --- how much was changed

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


# --- where it is, and what kind of file

ARTIFACTS = ".flyball/out/"
OWN_FOLDERS = (".local/state/flyball/", ".config/flyball/")


def judge_place(where: Place, *, link: bool = False) -> Iterable[Verdict]:
    """The verdicts on a path, whatever is done to it."""
    odd = oddity(where.shown)
    if odd:
        word: Decision = "deny" if "\0" in where.shown or not where.shown.strip() else "ask"
        yield _verdict(word, "odd-name", where, odd)
    if where.outside:
        yield _verdict("deny", "outside", where, where.outside)
    yield from _own_files(where, link)


def _own_files(where: Place, link: bool) -> Iterable[Verdict]:
    names = [name for path in where.folded for name in path.split("/")]
    if GIT in names:
        yield _verdict("deny", "git-internals", where, "agents may not change git's own files")
    if FLYBALL in names and (link or not _is_artifact(where)):
        yield _verdict(
            "deny", "tampering", where, "agents may not change Flyball's policy, machines or state"
        )
    if "flyball.toml" in where.folded or any(d in f"{path}/" for path in where.folded for d in OWN_FOLDERS):
        yield _verdict("deny", "tampering", where, "agents may not change Flyball's configuration")
    alike = [looks_like(name) for path in where.exact for name in path.split("/") if not name.isascii()]
    if any(name in (GIT, FLYBALL) for name in alike):
        yield _verdict("ask", "lookalike", where, "the name looks like a protected one")


def _is_artifact(where: Place) -> bool:
    return all(path.startswith(ARTIFACTS) for path in where.exact)


def judge_kind(change: Change, links: Links, policy: Policy) -> Iterable[Verdict]:
    """Links, special files, embedded repositories and mode bits."""
    if is_symlink(change):
        yield from _symlink(change, links, policy)
    if change.op == "hardlink":
        yield from _hardlink(change, links, policy)
    if change.op == "special":
        yield _about(change, "deny", "special-file", "is a pipe, a socket or a device")
    if is_gitlink(change):
        yield _about(change, "ask", "embedded-repo", "is a repository inside this one")
    elif bits(change) & (SPECIAL_BITS | OTHERS_WRITE):
        yield _about(change, "ask", "mode-bits", f"gets the mode {change.mode}")


def _symlink(change: Change, links: Links, policy: Policy) -> Iterable[Verdict]:
    if target_of(change) is None:
        yield _about(change, "ask", "link", "is a link with an unknown target")
        return
    if means_elsewhere(target_of(change) or ""):
        yield _about(change, "deny", "outside", f"links to {target_of(change)}")
        return
    reached = place(change.path, links)
    if reached.outside == THE_WORKSPACE:
        yield _about(change, "ask", "link", "links to the workspace itself")
        return
    yield from _through(change, reached, policy)


def _hardlink(change: Change, links: Links, policy: Policy) -> Iterable[Verdict]:
    if not change.target:
        yield _about(change, "deny", "link", "is a hard link with an unknown target")
        return
    folder = change.path.rpartition("/")[0]
    places = [place(change.target, links), place(f"{folder}/{change.target}", links)]
    if change.target.startswith(("/", "\\")) or not folder:
        places = places[:1]
    inside = [reached for reached in places if not reached.outside]
    for reached in inside or places[:1]:
        yield from _through(change, reached, policy)


def _through(change: Change, reached: Place, policy: Policy) -> Iterable[Verdict]:
    """A link is judged as a write to what it leads to. Only a deny counts."""
    for verdict in judge_place(reached, link=True):
        if verdict.verdict == "deny":
            reason = f"{change.path} links to {change.target or target_of(change)}: {verdict.reason}"
            yield Verdict("deny", verdict.rule, reason, change.path)
    for name, rule in policy.paths.items():
        if rule.verdict == "deny" and rule.covers(reached):
            yield _about(change, "deny", name, f"links to {change.target}. {rule.reason}")


def target_of(change: Change) -> str | None:
    """Where a link points: as given, or as git stores it, in the only line of the file."""
    if change.target:
        return change.target
    return change.added[0] if change.added and len(change.added) == 1 else None


def _verdict(word: Decision, rule: str, where: Place, why: str) -> Verdict:
    return Verdict(word, rule, f"{printable(where.shown)}: {why}.", where.shown)


def _about(change: Change, word: Decision, rule: str, what: str) -> Verdict:
    return Verdict(
        word, rule, f"{printable(change.path)} {what}" + ("" if what.endswith(".") else "."), change.path
    )


# --- what the policy says of paths and lines

_PUBLIC = re.compile(r"-----BEGIN (?:CERTIFICATE|(?:RSA |EC )?PUBLIC KEY|SSH2 PUBLIC KEY)")


def judge_paths(change: Change, where: Place, policy: Policy) -> Iterable[Verdict]:
    """The policy's verdicts on one path."""
    moved = is_symlink(change) or change.op in ("rename", "hardlink")
    for name, rule in policy.paths.items():
        if rule.covers(where) or (moved and rule.lies_below(where)):
            if name == "secret-file" and _is_public(change):
                continue
            yield Verdict(rule.verdict, name, f"{printable(where.shown)}: {rule.reason}", where.shown)


def _is_public(change: Change) -> bool:
    """A certificate or public key, with its full text: not a secret, whatever the file name."""
    text = "\n".join(change.added or ())
    return bool(_PUBLIC.search(text)) and "PRIVATE" not in text and change.op in ("add", "modify")


def judge_lines(
    change: Change, where: Place, lines: Iterable[tuple[int, str]], policy: Policy
) -> Iterable[Verdict]:
    """The policy's verdicts on the lines added to one file; the first of each rule."""
    rows = list(lines)
    for name, rule in policy.lines.items():
        if (rule.ops and change.op not in rule.ops) or not rule.covers(where):
            continue
        if rule.unseen and change.added is None and not rows and change.op in ("add", "modify"):
            yield Verdict(rule.verdict, name, f"{where.shown}: {rule.reason}", where.shown)
        pattern = _either(rule.lines)
        for number, line in rows:
            if pattern.search(line):
                yield Verdict(rule.verdict, name, f"{where.shown}: {rule.reason}", where.shown, number)
                break


@lru_cache(maxsize=128)
def _either(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


def judge_locks(files: Sequence[str], prior: Sequence[str], policy: Policy) -> Iterable[Verdict]:
    """A lock file changes only together with a manifest beside or below it."""
    known = {fold_path(name) for name in (*files, *prior)}
    locks = {fold_path(name): manifests for name, manifests in policy.locks.items()}
    for file in files:
        folder, _, name = fold_path(file).rpartition("/")
        if name in locks and not _has_manifest(folder, locks[name], known):
            yield Verdict("ask", "lockfile", f"{file} changes without its manifest.", file)


def _has_manifest(folder: str, manifests: Sequence[str], known: Iterable[str]) -> bool:
    patterns = tuple(f"{folder}/**/{m}" if folder else f"**/{m}" for m in manifests)
    return any(globs.matches(patterns, name) for name in known)


def judge_collisions(changes: Sequence[Change], files: Sequence[str]) -> Iterable[Verdict]:
    """Two names that are the same on some file systems."""
    names: dict[str, tuple[str, str]] = {}
    for change, file in zip(changes, files, strict=True):
        if change.op == "delete":
            continue
        name = change.path.replace("\\", "/").rpartition("/")[2]
        other, as_written = names.setdefault(fold_path(file), (file, name))
        if other != file or as_written != name:
            yield Verdict(
                "ask", "name-collision", f"{file} and {other} are the same name on some disks.", file
            )


def judge_bare_repos(files: Sequence[str]) -> Iterable[Verdict]:
    """HEAD beside objects, refs or config is a repository, whatever the name of its directory."""
    tails: Mapping[str, str] = {file: fold_path(file) for file in files}
    for file, folded in tails.items():
        folder, _, name = folded.rpartition("/")
        inner = tuple(f"{folder}/{part}".lstrip("/") for part in ("objects/", "refs/", "config", "hooks/"))
        if name == "head" and any(other.startswith(inner) for other in tails.values()):
            yield Verdict("ask", "embedded-repo", f"{file} starts a repository inside this one.", file)
