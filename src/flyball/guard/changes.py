"""The change guard: checks every file of a change and the change as a whole. The worst finding decides.

An internal error is a deny. Nothing is read from disk: links and texts are given.
"""

import codecs
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from flyball.guard import word_set
from flyball.guard.change import (
    ANY_EXECUTE,
    FLYBALL,
    GIT,
    ORDINARY,
    OTHERS_WRITE,
    SPECIAL_BITS,
    THE_WORKSPACE,
    Change,
    Decision,
    Edit,
    Line,
    Links,
    Place,
    Verdict,
    bits,
    churn,
    edit_of,
    fold_path,
    is_gitlink,
    is_symlink,
    looks_like,
    means_elsewhere,
    place,
    printable,
    unusual_name,
    worst,
)
from flyball.guard.policy import Policy, Radius, Tier, exceeds, matches, tier_of
from flyball.guard.secrets import find_in_lines, find_in_name, redact
from flyball.guard.weakening import runner_lookups, weakenings
from flyball.reading.terminal import HIDDEN

Texts = Mapping[str, tuple[str | None, str | None]]


def judge_changes(
    changes: Sequence[Change],
    policy: Policy,
    *,
    workspace: str,
    prior_changed_files: Sequence[str] | int = (),
    prior_lines: int = 0,
    prior_deleted: int = 0,
    existing_symlinks: Mapping[str, str] | None = None,
    texts: Texts | None = None,
    tests_by_id: bool = False,
) -> Verdict:
    """The worst finding, with all of them. `texts` gives the old and new text by path, for a closer look.
    `tests_by_id`: the gate will miss a deleted test by its id."""
    try:
        links = _links(changes, workspace, existing_symlinks or {})
        prior = prior_changed_files
        if not isinstance(prior, int):
            prior = [_real(place(path, links)) for path in prior]
        places = [place(c.path, links, last=not _is_itself(c)) for c in changes]
        edits = [
            edit_of(c, _real(where), (texts or {}).get(c.path))
            for c, where in zip(changes, places, strict=True)
        ]
        findings = (
            *(
                finding
                for e, where in zip(edits, places, strict=True)
                for finding in _one(e, where, policy, links)
            ),
            *_together(edits, [] if isinstance(prior, int) else prior, policy, tests_by_id),
            *judge_radius(edits, policy.radius, prior, prior_lines, prior_deleted),
        )
    except Exception as error:
        why = f"Internal error while checking this change ({type(error).__name__}: {error})."
        findings = (Verdict("deny", "guard-error", why),)
    return msgspec.structs.replace(worst(findings), findings=findings)


def _links(changes: Sequence[Change], workspace: str, existing: Mapping[str, str]) -> Links:
    """The links that exist after the change."""
    after = dict(existing)
    for change in changes:
        if change.op == "delete":
            after.pop(change.path, None)
        if change.op == "rename" and change.from_ in after:
            after[change.path] = after.pop(change.from_)
    for change in changes:
        target = target_of(change) if is_symlink(change) else None
        if target is not None:
            after[change.path] = target
    return Links(workspace, after)


def _together(
    edits: Sequence[Edit], prior: Sequence[str], policy: Policy, tests_by_id: bool
) -> Iterable[Verdict]:
    """What can only be seen when several files are compared."""
    files = [edit.file for edit in edits]
    yield from judge_locks(files, prior, policy)
    yield from judge_collisions(edits)
    yield from judge_bare_repos(files)
    yield from runner_lookups(edits)
    yield from weakenings(edits, policy.test_weakening, by_id=tests_by_id)


def _is_itself(change: Change) -> bool:
    """Is the last name the thing changed, even if it is a link?"""
    return change.op in ("delete", "rename", "hardlink", "special") or is_symlink(change)


def _real(where: Place) -> str:
    return where.exact[0] if where.exact else where.shown


def _one(edit: Edit, where: Place, policy: Policy, links: Links) -> Iterable[Verdict]:
    change, lines = edit.change, edit.added or ()
    yield from judge_place(where, link=is_symlink(change) or change.op == "hardlink")
    yield from judge_paths(change, where, policy)
    yield from judge_kind(change, links, policy)
    if change.op == "rename" and change.from_:
        source = place(change.from_, links, last=False)
        yield from judge_place(source)
        yield from judge_paths(change, source, policy)
        target = links.targets.get(links.key(change.path))
        if target is not None:  # a relative link points elsewhere from another directory
            yield from judge_kind(msgspec.structs.replace(change, op="symlink", target=target), links, policy)
    yield from judge_lines(change, where, lines, policy)
    yield from judge_source(change, where.shown, lines)
    yield from judge_secrets(change.path, lines)


def judge_secrets(path: str, lines: Sequence[Line]) -> Iterable[Verdict]:
    rule = find_in_name(path)
    if rule:
        yield Verdict("deny", "secret", f"The file name looks like a secret ({rule}).", redact(path))
    for number, rule in find_in_lines(path, lines):
        reason = f"{path}: contains what looks like a secret ({rule})."
        yield Verdict("deny", "secret", reason, path, number)


# --- how much was changed

BINARY_NAMES = tuple(
    word_set(
        ".png .jpg .jpeg .gif .webp .bmp .ico .tif .tiff .psd .pdf .mp3 .mp4 .mov .avi .mkv .wav .flac .ogg"
        " .zip .gz .tgz .bz2 .xz .zst .7z .rar .tar .db .sqlite .sqlite3 .parquet .npy .npz .pkl .pickle .pt"
        " .onnx .h5 .safetensors .gguf .bin .dat .iso .img .ttf .otf .woff .woff2 .eot .doc .docx .xls .xlsx"
        " .ppt .pptx"
    )
)
PROGRAM_NAMES = tuple(
    word_set(
        ".exe .dll .so .dylib .com .msi .scr .sys .ko .o .a .lib .elf .jar .war .ear .class .pyc .pyo .pyd"
        " .whl .egg .apk .ipa .deb .rpm .dmg .pkg .appimage .wasm .node .crx .xpi .vsix .gem .nupkg .run"
    )
)


def judge_radius(
    edits: Sequence[Edit],
    radius: Radius,
    prior_files: Sequence[str] | int,
    prior_lines: int,
    prior_deleted: int,
) -> Iterable[Verdict]:
    """How much the run has changed including this change: a file counts once."""
    files = {edit.file for edit in edits}
    changed = len(files) + prior_files if isinstance(prior_files, int) else len({*files, *prior_files})
    lines = prior_lines + sum(churn(edit.change) for edit in edits)
    deleted = prior_deleted + len({edit.file for edit in edits if edit.change.op == "delete"})
    yield from _count("radius-files", changed, "files changed", radius.files_ask, radius.files_deny)
    yield from _count("radius-lines", lines, "lines changed", radius.lines_ask)
    yield from _count("deletions", deleted, "files deleted", radius.deletions_ask, radius.deletions_deny)
    for edit in edits:
        yield from _size(edit.change, radius)


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


def judge_tier(paths: Sequence[str], policy: Policy, approved: Tier | None, workspace: str) -> Verdict:
    """CTO-3: a change below a plan is no riskier than the tier that was approved; else a person is asked."""
    tier, why = tier_of(paths, "", policy, workspace=workspace)
    if not approved or not paths or not exceeds(tier, approved):
        return ORDINARY
    return Verdict(
        "ask", "tier", f"The plan is {approved}, and this change is {tier}. {why[0]}", file=paths[0]
    )


def judge_place(where: Place, *, link: bool = False) -> Iterable[Verdict]:
    """The verdicts on a path, whatever is done to it."""
    odd = unusual_name(where.shown)
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


def judge_lines(change: Change, where: Place, lines: Sequence[Line], policy: Policy) -> Iterable[Verdict]:
    """The policy's verdicts on the lines added to one file; the first of each rule."""
    for name, rule in policy.lines.items():
        if (rule.ops and change.op not in rule.ops) or not rule.covers(where):
            continue
        if rule.unseen and change.added is None and not lines and change.op in ("add", "modify"):
            yield Verdict(rule.verdict, name, f"{where.shown}: {rule.reason}", where.shown)
        pattern = _either(rule.lines)
        for number, line in lines:
            if pattern.search(line):
                yield Verdict(rule.verdict, name, f"{where.shown}: {rule.reason}", where.shown, number)
                break


@lru_cache(maxsize=128)
def _either(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


def judge_locks(files: Sequence[str], prior: Sequence[str], policy: Policy) -> Iterable[Verdict]:
    """A lock file changes only together with a manifest beside or below it."""
    names = {fold_path(name) for name in (*files, *prior)}
    locks = {fold_path(name): manifests for name, manifests in policy.locks.items()}
    for file in files:
        folder, _, name = fold_path(file).rpartition("/")
        if name in locks and not _has_manifest(folder, locks[name], names):
            yield Verdict("ask", "lockfile", f"{file} changes without its manifest.", file)


def _has_manifest(folder: str, manifests: Sequence[str], names: Iterable[str]) -> bool:
    patterns = tuple(f"{folder}/**/{m}" if folder else f"**/{m}" for m in manifests)
    return any(matches(patterns, name) for name in names)


def judge_collisions(edits: Sequence[Edit]) -> Iterable[Verdict]:
    """Two names that are the same on some file systems."""
    names: dict[str, tuple[str, str]] = {}
    for edit in edits:
        if edit.change.op == "delete":
            continue
        file, name = edit.file, edit.change.path.replace("\\", "/").rpartition("/")[2]
        other, as_written = names.setdefault(fold_path(file), (file, name))
        if other != file or as_written != name:
            reason = f"{file} and {other} are the same name on some disks."
            yield Verdict("ask", "name-collision", reason, file)


def judge_bare_repos(files: Sequence[str]) -> Iterable[Verdict]:
    """HEAD beside objects, refs or config is a repository, whatever the name of its directory."""
    tails: Mapping[str, str] = {file: fold_path(file) for file in files}
    for file, folded in tails.items():
        folder, _, name = folded.rpartition("/")
        inner = tuple(f"{folder}/{part}".lstrip("/") for part in ("objects/", "refs/", "config", "hooks/"))
        if name == "head" and any(other.startswith(inner) for other in tails.values()):
            yield Verdict("ask", "embedded-repo", f"{file} starts a repository inside this one.", file)


# --- source as its language reads it: byte order marks, UTF-16, NULs, encodings that a file declares for itself

CODE = re.compile(
    r"\.(?:py|pyi|pyw|js|jsx|ts|tsx|mjs|cjs|go|rs|java|kt|rb|php|c|h|cc|cpp|hpp|cs|swift|sh|bash|sql|scala|lua|pl|toml|cfg|ini|ya?ml)$"
    r"|(?:^|/)makefile$",
    re.IGNORECASE,
)
_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_PLAIN_CHARSET = re.compile(
    r"utf[-_]?8(?:[-_]sig)?|ascii|us-ascii|latin[-_]?1|iso[-_]?(?:8859[-_]\d+|latin-1)(?:-unix)?|cp\d+|windows-\d+|euc[-_]\w+|gbk|gb\d+|big5\w*|koi8[-_]\w",
    re.IGNORECASE,
)
"""Charsets in which ASCII means itself."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_EMOJI = re.compile("[\u2190-\u2bff\ufe0f\U0001f000-\U0001faff]\u200d[\u2190-\u2bff\U0001f000-\U0001faff]")
PRINTABLE_LEAST = 90  # percent: what has less is not a text


def text_of(data: bytes) -> str | None:
    """The text of a file that git takes for binary; None if it holds no text."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    wide = data[:4000]
    for encoding, nuls in (("utf-16-le", wide[1::2]), ("utf-16-be", wide[::2])):
        if len(nuls) > 1 and nuls.count(0) * 10 >= len(nuls) * 9:
            return data.decode(encoding, "replace")
    text = data.replace(b"\0", b"").decode("utf-8", "replace")
    readable = sum(1 for char in text[:4000] if char.isprintable() or char in "\n\r\t")
    return text if text and readable * 100 >= len(text[:4000]) * PRINTABLE_LEAST else None


def judge_source(change: Change, file: str, lines: Sequence[Line]) -> Iterable[Verdict]:
    """Source that people and interpreters read differently."""
    if change.op not in ("add", "modify", "rename") or not CODE.search(file):
        return
    if change.binary:
        yield Verdict(
            "ask", "odd-encoding", f"{file} is source, but not plain text (NUL bytes or UTF-16).", file
        )
    for number, line in lines:
        cookie = _COOKIE.match(line) if number <= 2 and file.endswith((".py", ".pyw", ".pyi")) else None
        if cookie and not _PLAIN_CHARSET.fullmatch(cookie[1]):
            yield Verdict("ask", "odd-encoding", f"{file} declares the encoding {cookie[1]}.", file, number)
            return
        hidden = None if line.isascii() and line.isprintable() else HIDDEN.search(_EMOJI.sub("", line))
        if hidden and not (number == 1 and hidden[0] == "\ufeff" and line[0] == "\ufeff"):
            name = f"U+{ord(hidden[0]):04X}"
            reason = f"{file} contains a character that cannot be seen or changes the reading order ({name})."
            yield Verdict("ask", "hidden-character", reason, file, number)
            return
