"""Read the files of a Ralph loop (PROMPT.md, fix_plan.md, prd.json), so that `flyball init --from-ralph` can continue with them.

PROMPT.md becomes what the working roles are told. Open items of fix_plan.md and stories of prd.json that do not pass
yet become one check-list. The files themselves are left as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from flyball.config.load import FOLDER, decoded, read_small
from flyball.errors import UserError
from flyball.views.text import clean

FOLDERS = ("", ".ralph/", "scripts/ralph/")
NAMES = {
    "prompt": ("PROMPT.md", "prompt.md"),
    "plan": ("fix_plan.md", "@fix_plan.md"),
    "stories": ("prd.json",),
}
ROLES = ("coder", "worker")
TASKS_FILE = f"{FOLDER}/tasks.md"
ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?:\[(?P<tick>[ xX])\]\s+)?(?P<text>\S.*)")
TASK_MOST = 2_000


class Ralph(Struct, frozen=True):
    """What was read: the prompt, the open tasks in their order, and the files that they are from."""

    prompt: str
    tasks: list[str]
    files: list[str]

    def written(self) -> dict[str, str]:
        """Path -> text of the files that `init` writes."""
        text = f"<!-- From {self.files[0]}, by `flyball init --from-ralph`. -->\n\n{self.prompt.strip()}\n"
        prompts = {f"{FOLDER}/prompts/{role}.md": text for role in ROLES} if self.prompt.strip() else {}
        items = "".join(f"- [ ] {task}\n" for task in self.tasks)
        tasks = {TASKS_FILE: f"# Tasks\n\n{items}"} if items else {}
        return {**prompts, **tasks}


def read_ralph(root: Path) -> Ralph:
    """UserError if there is nothing of a Ralph loop here, or a file cannot be read."""
    texts = {kind: text for kind, names in NAMES.items() if (text := _first(root, names))}
    if not texts:
        raise UserError(
            f"There is no PROMPT.md, fix_plan.md or prd.json in {root}. Use `flyball init` alone."
        )
    stories = list(_stories(*texts["stories"])) if "stories" in texts else []
    plan = list(_items(texts["plan"][1])) if "plan" in texts else []
    tasks = list(dict.fromkeys([*stories, *plan]))
    return Ralph(texts.get("prompt", ("", ""))[1], tasks, [name for name, _ in texts.values()])


def _first(root: Path, names: tuple[str, ...]) -> tuple[str, str] | None:
    for name in (folder + name for folder in FOLDERS for name in names):
        data = read_small(root / name)
        if data is not None:
            return name, decoded(data, name)
    return None


def _items(text: str) -> Iterator[str]:
    """Items that are not ticked; all items of a list without boxes."""
    items = [match for line in text.splitlines() if (match := ITEM.fullmatch(line))]
    boxes = any(match["tick"] for match in items)
    matches = (match for match in items if match["tick"] == " " or not boxes)
    yield from (_one_line(match["text"]) for match in matches)


class _Story(Struct):
    title: str
    description: str = ""
    acceptance: list[str] = msgspec.field(default_factory=list[str], name="acceptanceCriteria")
    priority: int = 1_000
    passes: bool = False


class _Stories(Struct):
    stories: list[_Story] = msgspec.field(name="userStories")


def _stories(name: str, text: str) -> Iterator[str]:
    try:
        stories = msgspec.convert(json.loads(text), _Stories).stories
    except json.JSONDecodeError as problem:
        raise UserError(
            f"{name}, line {problem.lineno}: this is not JSON ({problem.msg}). Correct it."
        ) from None
    except (msgspec.ValidationError, RecursionError) as problem:
        raise UserError(f"{name}: {problem}. It needs userStories, a list of stories with a title.") from None
    for story in sorted(stories, key=lambda story: story.priority):
        if not story.passes:
            about = ": ".join(text.rstrip(" .") for text in (story.title, story.description) if text)
            criteria = f". Done when: {'; '.join(story.acceptance)}" if story.acceptance else ""
            yield _one_line(f"{about}{criteria}")


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())[:TASK_MOST]
