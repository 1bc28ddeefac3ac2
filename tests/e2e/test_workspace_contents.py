"""Many files are read with one call, and each as if it were read alone."""

from test_workspace_tools import own_home, repo, root, space, write

from flyball.workspace import Workspace

__all__ = ["own_home", "repo", "root", "space"]

ODD = {
    "a b.txt": "blank in the name\n",
    "two\nlines.txt": "line break in the name\n",
    "returns\r": "carriage return in the name\n",
    "x missing": "the word that git answers with\n",
    "empty": "",
    "no end": "no line break at the end",
    "lines": "abc blob 3\n\nabc missing\n",
}


def test_files_are_read_together_whatever_they_are_called_and_hold(space: Workspace) -> None:
    write(space.checkout, ODD)
    tree = space.tree()
    found = space.read_all([(tree, name) for name in ODD])
    assert found == [text.encode() for text in ODD.values()]


def test_what_is_no_file_of_the_tree_is_none_and_shifts_nothing(space: Workspace) -> None:
    write(space.checkout, {"folder/a": "1", "b": "2"})
    tree = space.tree()
    wanted = ["gone", "folder/a", "folder", "gone\n", "b", "folder/a"]
    assert space.read_all([(tree, name) for name in wanted]) == [None, b"1", None, None, b"2", b"1"]
    assert space.read_all([(space.base_tree, "b"), (tree, "b")]) == [None, b"2"]


def test_nothing_is_asked_for_nothing(space: Workspace) -> None:
    assert space.read_all([]) == []


def test_links_are_told_with_their_targets(space: Workspace) -> None:
    write(space.checkout, {"folder/a": "1"})
    (space.checkout / "one").symlink_to("folder/a")
    (space.checkout / "folder/two").symlink_to("../nowhere else")
    assert space.links(space.tree()) == {"folder/two": "../nowhere else", "one": "folder/a"}
