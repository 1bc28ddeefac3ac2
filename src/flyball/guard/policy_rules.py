"""The policy's rules about paths and lines, and lock files that change without their manifest."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from flyball.guard.change import Change, is_symlink
from flyball.guard.paths import globs
from flyball.guard.paths.folding import fold_path, printable
from flyball.guard.paths.links import Place
from flyball.guard.policy import Policy
from flyball.guard.verdict import Verdict

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
