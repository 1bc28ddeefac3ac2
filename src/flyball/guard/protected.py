"""What no policy can allow: git's own files, Flyball's own files, paths outside the workspace, and links to them."""

from collections.abc import Iterable

from flyball.guard.change import OTHERS_WRITE, SPECIAL_BITS, Change, bits, is_gitlink, is_symlink
from flyball.guard.paths.folding import looks_like, oddity, printable
from flyball.guard.paths.links import FLYBALL, GIT, THE_WORKSPACE, Links, Place, means_elsewhere, place
from flyball.guard.policy import Policy
from flyball.guard.verdict import Decision, Verdict

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
