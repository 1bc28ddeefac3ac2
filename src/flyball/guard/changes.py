"""The change guard: judges every file of a change and the change as a whole. The worst finding decides.

An internal error is a deny. Nothing is read from disk: links and texts are given.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from flyball.guard.change import Change, is_symlink
from flyball.guard.change_rules import (
    judge_bare_repos,
    judge_collisions,
    judge_kind,
    judge_lines,
    judge_locks,
    judge_paths,
    judge_place,
    judge_radius,
    target_of,
)
from flyball.guard.paths.links import Links, Place, place
from flyball.guard.policy import Policy
from flyball.guard.proof_bypass import judge_tricks
from flyball.guard.runner_lookup import judge_lookups
from flyball.guard.secret_pieces import INVISIBLE
from flyball.guard.secrets import below_name, could_hold_secret, find_in_name, find_secret, redact
from flyball.guard.source_text import judge_source
from flyball.guard.verdict import Verdict, worst
from flyball.guard.weakening import difference, weakenings

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
        findings = tuple(
            _findings(
                *(changes, policy, links, prior_changed_files, prior_lines, prior_deleted),
                texts=texts or {},
                tests_by_id=tests_by_id,
            )
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


def _findings(
    changes: Sequence[Change],
    policy: Policy,
    links: Links,
    prior_files: Sequence[str] | int,
    prior_lines: int,
    prior_deleted: int,
    *,
    texts: Texts,
    tests_by_id: bool,
) -> Iterable[Verdict]:
    prior = [] if isinstance(prior_files, int) else [_real(place(path, links)) for path in prior_files]
    places = [place(c.path, links, last=not _is_itself(c)) for c in changes]
    files = [_real(where) for where in places]
    for change, where in zip(changes, places, strict=True):
        yield from _one(change, where, policy, links, texts)
    yield from judge_locks(files, prior, policy)
    yield from judge_collisions(changes, files)
    yield from judge_bare_repos(files)
    yield from judge_tricks(changes, files, texts)
    yield from judge_lookups(changes, files, [added_lines(c, texts.get(c.path)) for c in changes])
    yield from weakenings(changes, files, policy.test_weakening, texts, by_id=tests_by_id)
    counted = prior_files if isinstance(prior_files, int) else prior
    yield from judge_radius(
        changes, files, policy, prior_files=counted, prior_lines=prior_lines, prior_deleted=prior_deleted
    )


def _is_itself(change: Change) -> bool:
    """Is the last name the thing changed, even if it is a link?"""
    return change.op in ("delete", "rename", "hardlink", "special") or is_symlink(change)


def _real(where: Place) -> str:
    return where.exact[0] if where.exact else where.shown


def _one(change: Change, where: Place, policy: Policy, links: Links, texts: Texts) -> Iterable[Verdict]:
    link = is_symlink(change) or change.op == "hardlink"
    yield from judge_place(where, link=link)
    yield from judge_paths(change, where, policy)
    yield from judge_kind(change, links, policy)
    if change.op == "rename" and change.from_:
        source = place(change.from_, links, last=False)
        yield from judge_place(source)
        yield from judge_paths(change, source, policy)
        yield from _moved_link(change, links, policy)
    lines = added_lines(change, texts.get(change.path))
    yield from judge_lines(change, where, lines, policy)
    yield from judge_source(change, where.shown, lines)
    yield from _secrets(change.path, lines)


def _moved_link(change: Change, links: Links, policy: Policy) -> Iterable[Verdict]:
    """A relative link points elsewhere from another directory."""
    target = links.targets.get(links.key(change.path))
    if target is not None:
        yield from judge_kind(msgspec.structs.replace(change, op="symlink", target=target), links, policy)


def _secrets(path: str, lines: Sequence[tuple[int, str]]) -> Iterable[Verdict]:
    named = find_in_name(path)
    if named:
        yield Verdict("deny", "secret", f"The file name looks like a secret ({named}).", redact(path))
    text = "\n".join(line for _, line in lines)
    if not could_hold_secret(path, INVISIBLE.sub("", text)):
        return
    before = ""
    for number, line in lines:
        rule = find_secret(path, line) or next((one.rule for one in below_name(before, line)), None)
        before = line
        if rule:
            yield Verdict(
                "deny", "secret", f"{path}: contains what looks like a secret ({rule}).", path, number
            )


def added_lines(change: Change, text: tuple[str | None, str | None] | None) -> list[tuple[int, str]]:
    """The added lines with their numbers; 0 where it is unknown."""
    if text is not None and text[1] is not None:
        return list(difference(text[0] or "", text[1])[1])
    lines = change.added or ()
    if lines and all(line.startswith("+") for line in lines if line):
        lines = tuple(line[1:] for line in lines)
    return [(0, line) for line in lines]
