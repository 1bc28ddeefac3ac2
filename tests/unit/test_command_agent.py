"""Any command as an agent: the prompt reaches it as it is, however the command quotes it, and is never code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flyball.agents.adapter import TurnRequest
from flyball.agents.command import CommandAgent

HOSTILE = 'it\'s "here": $(touch pwned) `touch pwned` $HOME \\ {prompt_file}\nand *; touch pwned'
SHOW = f"{sys.executable} -c 'import json,sys; print(json.dumps(sys.argv[1:]))'"


def ran(folder: Path, command: str, prompt: str = HOSTILE) -> list[str]:
    file = folder / "a folder's prompt"
    file.write_text(prompt)
    launch = CommandAgent(command).launch(TurnRequest(prompt=prompt, prompt_file=file, role="coder", place=0))
    stdin = Path(launch.stdin_file).read_bytes() if launch.stdin_file else b""
    done = subprocess.run(launch.argv, cwd=folder, input=stdin, capture_output=True, check=True)
    assert not (folder / "pwned").exists()
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("written", "before", "after"),
    [
        ("{prompt}", "", ""),
        ('"{prompt}"', "", ""),
        ("'{prompt}'", "", ""),
        ('"do: {prompt} now"', "do: ", " now"),
        ("--say='do: {prompt}.'", "--say=do: ", "."),
        ('\\"{prompt}\\"', '"', '"'),
    ],
)
def test_the_prompt_is_one_word_whatever_quotes_stand_around_it(
    tmp_path: Path, written: str, before: str, after: str
) -> None:
    assert ran(tmp_path, f"{SHOW} {written} end") == [before + HOSTILE + after, "end"]


def test_the_file_is_named_whatever_its_folder_is_called(tmp_path: Path) -> None:
    file = tmp_path / "a folder's prompt"
    assert ran(tmp_path, f'{SHOW} {{prompt_file}} "in {{prompt_file}}"') == [str(file), f"in {file}"]


def test_with_neither_it_is_on_standard_input(tmp_path: Path) -> None:
    read = f"{sys.executable} -c 'import json,sys; print(json.dumps([sys.stdin.read()]))'"
    assert ran(tmp_path, read) == [HOSTILE]


def test_a_prompt_too_long_for_a_command_line_says_so_and_fits_a_file(tmp_path: Path) -> None:
    long = "word " * 40_000
    with pytest.raises(subprocess.CalledProcessError) as failed:
        ran(tmp_path, f"{SHOW} {{prompt}}", long)
    assert failed.value.returncode == 126 and b"too long" in failed.value.stderr
    assert ran(tmp_path, f"{SHOW} {{prompt_file}}", long)
