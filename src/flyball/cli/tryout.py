"""Run the tests here and in a clean checkout; where the two differ, look for the settings that make them agree."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from flyball.config import cures
from flyball.config.detect import Detection, ProofCommand, node_scripts, script_parts
from flyball.config.load import REPO_FILE
from flyball.domain.settings import Settings
from flyball.guard.secrets import redact
from flyball.reading.test_output import Lack, missing_names, same_names
from flyball.reading.test_report import without_numbers
from flyball.runtime.trial import Trial, in_clean_checkout, in_folder
from flyball.state_dir import paths
from flyball.views.reasons import key_line
from flyball.views.text import plural
from flyball.workspace import inspect_repo
from flyball.workspace.git import names, reading_user, text
from flyball.workspace.repo import is_dirty

TRIED = 3  # of the test commands that were detected
LISTED = 5
PACKAGES_LACK = ("runner", "start", "module", "metadata")
LEFT_OUT_MOST = 40
NODE_RUNNERS = ("npm", "pnpm", "yarn")
UNCOMMITTED = (
    "You have uncommitted changes. A run starts from the last commit without them: commit them, or include them with "
    "`flyball run --with-changes`."
)
ONLY_TRACKED = (
    "A run starts from the last commit and sees only what git tracks: commit what is missing, or name it in "
    f"[workspace] share or setup in {REPO_FILE}, then run `flyball init --force`."
)


class TrialResult(Struct, frozen=True):
    """How the tests ended here and in a clean checkout, and notes for the user, as sentences."""

    here: Trial | None = None
    clean: Trial | None = None
    advice: tuple[str, ...] = ()


class Tryout:
    """Tries the test commands of one repository. `write` makes a configuration the present one."""

    def __init__(
        self,
        root: Path,
        env: dict[str, str],
        write: Callable[[Detection], Settings],
        show: Callable[[str], None],
    ) -> None:
        self.root, self.env, self.write, self.show = root, env, write, show
        self.with_changes = False
        self.notes: tuple[str, ...] = ()

    def of(self, detected: Detection) -> tuple[Detection, TrialResult]:
        """The configuration that is left to use, and how the tests ended with it."""
        first, dirty = detected.tests[0], is_dirty(inspect_repo(self.root))
        detected, here, passed_over = self._here(detected)
        if not here.ran:
            return detected, TrialResult(here, None, (_cannot_run(self.root, detected, here, self.env),))
        self.show(f"Running them in a clean checkout: {detected.tests[0].command}")
        best, last = detected, self._clean(detected)
        if dirty and not last.agrees(here):
            last = self._with_changes(detected, here, last)
        if not last.agrees(here):
            best, last = self._cured(best, here, last)
        advice: tuple[str, ...] = ()
        builds = best.tests[0] != detected.tests[0]
        if not last.agrees(here) and not builds:
            best, last, advice = self._left_out(best, here, last)
        if passed_over and (lack := passed_over.lack) and lack.kind == "start":
            cure = _installing(self.root / detected.folder, first.command, lack, self.env)
            advice = (_passed_over(first, detected.tests[0], lack, cure), *advice)
        if compiled := [path for path in best.needed if path.endswith(cures.COMPILED)]:
            advice = (*advice, _as_built(compiled))
        advice = (*self.notes, *advice)
        if self.with_changes:
            advice = (UNCOMMITTED, *advice)
        if files := same_names(here.log):
            advice = (_same_names(files), *advice)
        best, more = self._ignoring(best, last)
        return best, TrialResult(here, last, (*advice, *more))

    def _here(self, detected: Detection) -> tuple[Detection, Trial, Trial | None]:
        """The first of the detected commands that runs tests is the one; if none does, the first. Where it cannot load
        some test files, another that loads its files and shows a failure is better. A Makefile may install what is missing,
        wherever that goes: it is not run for that.

        Last: how the first one ended, where it was passed over.
        """
        timeout_s = self.write(detected).proof_timeout_us / 1e6
        first: Trial | None = None
        for test in detected.tests[:TRIED]:
            if (
                first
                and first.lack
                and first.lack.kind in PACKAGES_LACK
                and _enters(test, detected)[1].startswith("make ")
            ):
                continue
            self.show(f"Running the tests in this folder: {test.command}")
            trial = in_folder(self.root, test.command, self.env, timeout_s)
            if trial.code and same_names(trial.log) and "pytest" in test.command:
                test, trial = self._apart(test, trial, timeout_s)
            elif trial.code:
                test, trial = self._without_checks(replace(detected, tests=(test,)), trial, timeout_s)
            fits = first is None or not first.ran or trial.code
            if trial.ran and trial.loads and fits:
                others = tuple(other for other in detected.tests if other != test)
                return replace(detected, tests=(test, *others)), trial, first
            first = first or trial
        assert first is not None
        return detected, first, None

    def _apart(self, test: ProofCommand, trial: Trial, timeout_s: float) -> tuple[ProofCommand, Trial]:
        """With the import mode of pytest in which two test files may have one name, where that loads them."""
        words = ProofCommand(
            f"{test.command} --import-mode=importlib", f"{test.why}; for test files of one name"
        )
        self.show(f"Two test files have the same name. Trying: {words.command}")
        apart = in_folder(self.root, words.command, self.env, timeout_s)
        return (words, apart) if apart.ran and apart.loads else (test, trial)

    def _without_checks(
        self, detected: Detection, trial: Trial, timeout_s: float
    ) -> tuple[ProofCommand, Trial]:
        """The test script without the linters and type checkers in it that fail by themselves: no test ran behind them."""
        test, (enter, command) = detected.tests[0], _parts(detected)
        parts = script_parts(self.root / (detected.folder if enter else ""))
        if command.split()[0] not in NODE_RUNNERS or len({checks for _, checks in parts}) < 2:
            return test, trial
        passing, failing = list[str](), list[str]()
        for part, checks in parts:
            if checks:
                self.show(f"The tests fail. Running a check of the test script by itself: {part}")
            fails = checks and in_folder(self.root, f"{enter}{_npm(part)}", self.env, timeout_s).code
            (failing if fails else passing).append(part)
        if not failing:
            return test, trial
        words = f"{enter}{_npm(' && '.join(passing))}"
        self.show(f"Running the tests without what fails by itself: {words}")
        self.notes = (_without_failing(failing),)
        why = f"{test.why}; without {', '.join(failing)}"
        return ProofCommand(words, why), in_folder(self.root, words, self.env, timeout_s)

    def _clean(self, detection: Detection, network: str = "") -> Trial:
        settings = self.write(detection)
        settings = replace(settings, network_proof=network) if network else settings
        return in_clean_checkout(self.root, settings, self.env, paths(self.env).state_dir, self.with_changes)

    def _with_changes(self, detected: Detection, here: Trial, last: Trial) -> Trial:
        """What is not committed yet says nothing about the environment: all trials include it, where that is nearer."""
        self.with_changes = True
        self.show("The results differ. Trying again with your uncommitted changes")
        trial = self._clean(detected)
        if trial.agrees(here) or _nearer(trial, last, here):
            return trial
        self.with_changes = False
        return last

    def _cured(self, detected: Detection, here: Trial, last: Trial) -> tuple[Detection, Trial]:
        """With what the clean checkout lacks; where nothing makes the two agree, what is nearest."""
        best = detected
        for remedy in dict.fromkeys(_remedies(self.root, detected, last)):
            with_what = f" with: {_difference(detected, remedy)}" if remedy != detected else ""
            self.show(f"The results differ. Trying again{with_what}")
            trial = self._clean(remedy)
            builds = remedy.tests[0] != detected.tests[0]  # what was built here may be older than its source
            if builds and trial.code and not trial.reported:
                self.notes = (*self.notes, _build_fails(remedy, trial))
                continue
            if trial.agrees(here) or (builds and trial.ran):
                return remedy, trial
            if _nearer(trial, last, here):
                best, last = remedy, trial
        return best, last

    def _left_out(
        self, detected: Detection, here: Trial, last: Trial
    ) -> tuple[Detection, Trial, tuple[str, ...]]:
        """No agent can make a test pass that cannot pass in a clean checkout: the proof does without these tests."""
        network = last.ran and self._clean(detected, "all").agrees(here)
        only = _only(last, here)
        if last.ran and only and len(only) <= LEFT_OUT_MOST and "pytest" in detected.tests[0].command:
            detection = _deselecting(detected, only)
            self.show(f"Trying again without the tests that fail only there ({len(only)})")
            trial = self._clean(detection)
            if trial.ran and set(trial.names) <= set(here.names):
                return detection, trial, (_without(only, network, "leaves them out"),)
        if last.ran and last.by_id and only:
            detection = replace(detected, require="no-worse")
            return detection, last, (_without(only, network, 'lets them fail (require = "no-worse")'),)
        return detected, last, (_explanation(here, last, network),)

    def _ignoring(self, detected: Detection, clean: Trial) -> tuple[Detection, tuple[str, ...]]:
        """Files that the tests leave in the checkout belong to no change; what is said of those that git tracks."""
        if not clean.written:
            return detected, ()
        tracked = set(map(text, names(reading_user(self.root, "ls-files", "-z").out)))
        new = [path for path in clean.written if path not in tracked]
        folders = {str(up) for path in tracked for up in Path(path).parents}
        changed = [path for path in clean.written if path in tracked]
        advice = (_changes_tracked(changed),) if changed else ()
        return replace(detected, ignore=cures.patterns(new, folders)), advice


def _only(clean: Trial, here: Trial) -> list[str]:
    """The tests that fail in the clean checkout and not here."""
    names = set(map(without_numbers, here.names))
    return [name for name in clean.names if without_numbers(name) not in names]


def _nearer(trial: Trial, last: Trial, here: Trial) -> bool:
    """Nearer to how the tests ended here: fewer fail only there, then more pass."""
    if not trial.ran or not last.ran:
        return trial.ran
    return (len(_only(trial, here)), trial.fewer(here)) < (len(_only(last, here)), last.fewer(here))


def _remedies(root: Path, detected: Detection, clean: Trial) -> Iterator[Detection]:
    """What may make the clean checkout like this folder, the likeliest first."""
    listing = reading_user(root, "ls-files", "-oi", "--exclude-standard", "--directory", "-z").out
    ignored = [path for path in map(text, names(listing)) if path.strip("/") not in detected.share]
    missing = [name.removeprefix(f"{root}/") for name in missing_names(clean.log)]
    packages = cures.needed(ignored, missing)
    if step := _build_step(root, detected, packages or cures.shareable(ignored)):
        yield _building(detected, step)
    yield from _sharing(detected, packages)
    if clean.ran:
        yield detected  # it may have been chance
    yield from _sharing(detected, cures.shareable(ignored))


def _sharing(detected: Detection, files: list[str]) -> Iterator[Detection]:
    extra = tuple(path for path in dict.fromkeys(files) if path not in detected.share)
    if 0 < len(extra) <= cures.MOST:
        yield replace(detected, share=(*detected.share, *extra), needed=extra)


def _build_step(root: Path, detected: Detection, ignored: list[str]) -> str:
    """The command that makes what git ignores: a compiled module, or what a package's build script writes."""
    place = root / detected.folder
    if any(path.endswith(cures.COMPILED) for path in ignored) and (place / "setup.py").is_file():
        words = shlex.split(detected.tests[0].command)
        python = next((word for word in words if "python" in word), "python")
        return f"{python} setup.py -q build_ext --inplace"
    runner = _parts(detected)[1].split()[0]
    script = next((name for name in ("build", "compile") if name in node_scripts(place)), "")
    return f"{runner} run {script}" if ignored and script and runner in NODE_RUNNERS else ""


def _building(detected: Detection, step: str) -> Detection:
    """The proof builds what git ignores, so that a change of its source is tested too."""
    first, *others = detected.tests
    enter, command = _parts(detected)
    return replace(
        detected, tests=(ProofCommand(f"{enter}{step} && {command}", f"{first.why}; builds first"), *others)
    )


def _npm(words: str) -> str:
    return f"npm exec -c {shlex.quote(words)}"


def _parts(detected: Detection) -> tuple[str, str]:
    """The command that enters the folder, and the one that runs there."""
    return _enters(detected.tests[0], detected)


def _enters(test: ProofCommand, detected: Detection) -> tuple[str, str]:
    command, enter = test.command, f"cd {shlex.quote(detected.folder)} && "
    return (enter, command.removeprefix(enter)) if command.startswith(enter) else ("", command)


def _deselecting(detected: Detection, tests: list[str]) -> Detection:
    """A test by its id; a file that cannot be collected by its path."""
    first, *others = detected.tests
    options = (("--deselect" if "::" in test else "--ignore", test) for test in tests)
    command = " ".join((first.command, *(shlex.quote(word) for option in options for word in option)))
    why = f"{first.why}; without {len(tests)} that cannot pass in a clean checkout"
    return replace(detected, tests=(ProofCommand(command, why), *others))


def _difference(before: Detection, after: Detection) -> str:
    if after.tests[0] != before.tests[0]:
        return after.tests[0].command
    return f"share = {', '.join(path for path in after.share if path not in before.share)}"


# ---- explaining -----------------------------------------------------------------------------------------


def _cannot_run(root: Path, detected: Detection, here: Trial, env: dict[str, str]) -> str:
    command, missing = detected.tests[0].command, here.lack
    if here.problem or missing is None:
        return f"'{command}' did not finish in this folder: {here.problem}. Correct [proof] commands."
    if missing.kind == "tests":
        return f"'{command}' finds no tests. Set [proof] commands to the command that runs yours."
    cure = _installing(root / detected.folder, command, missing, env) or "Fix this"
    return f"The tests do not run in this folder: {missing.says}. {cure}, then run `flyball init --force`."


def _installing(folder: Path, command: str, missing: Lack, env: dict[str, str]) -> str:
    """What to install, as the beginning of a sentence; "" if that is not known."""
    python = next((word for word in shlex.split(command) if "python" in word), "")
    plugins = cures.plugins(missing.names) if missing.kind == "start" else []
    if python and (plugins or missing.kind in ("runner", "module", "metadata")):
        own = "/" in python or bool(env.get("VIRTUAL_ENV") or env.get("CONDA_PREFIX"))
        make = "" if own else "python3 -m venv .venv && "
        runner = "pytest" if "pytest" in command and cures.OLDER_PYTEST not in plugins else ""
        words = cures.install_words(folder, plugins or missing.names, runner)
        return f"Install what they need with `{make}{python if own else '.venv/bin/python'} -m pip install {words}`"
    if "npm" in command and missing.kind in ("module", "command") and not (folder / "node_modules").is_dir():
        return "Run `npm install`"
    if missing.kind == "dependency":
        return f"Run `{'cargo fetch' if 'cargo' in command else 'go mod tidy'}`"
    return ""


def _passed_over(first: ProofCommand, used: ProofCommand, lack: Lack, cure: str) -> str:
    """A runner that is there and does not start is likely the one that the project means."""
    return (
        f"'{first.command}' does not run: {lack.says}. The proof uses '{used.command}' instead, which may run "
        f"fewer tests. {cure or 'Fix this'}, then run `flyball init --force`."
    )


def _without_failing(checks: list[str]) -> str:
    return (
        f"{_listed([f'`{check}`' for check in checks])} of the test script fails by itself, so the proof leaves it out. To "
        "include it, correct that, then run `flyball init --force`."
    )


def _changes_tracked(files: Sequence[str]) -> str:
    listed = ", ".join(files[:LISTED])
    return (
        f"The tests change files that git tracks ({listed}), and a proof must not: every run would fail. Remove them from git "
        f"with `git rm --cached {shlex.join(files[:LISTED])}` and add them to .gitignore, or let the tests write elsewhere; "
        "commit that, then run `flyball init --force`."
    )


def _build_fails(building: Detection, trial: Trial) -> str:
    why = redact(key_line(trial.log)) or trial.says
    return f"The tests do not run in a clean checkout, because `{_parts(building)[1]}` fails there: {why.rstrip('.:')}."


def _as_built(files: Sequence[str]) -> str:
    return (
        f"The proof uses {', '.join(files[:LISTED])} as built in your folder, so changes to their source are not tested. "
        "To build it each time, put the build command before the tests in [proof] commands."
    )


def _same_names(files: Sequence[str]) -> str:
    names = ", ".join(dict.fromkeys(Path(file).name for file in files))
    return (
        f"pytest loads only one of several test files with the same name ({names}), and then runs no test at all. Rename "
        "one, or add an __init__.py to each of their folders, then run `flyball init --force`."
    )


def _listed(tests: list[str]) -> str:
    return f"{', '.join(tests[:LISTED])}{' …' if len(tests) > LISTED else ''}"


def _without(tests: list[str], network: bool, how: str) -> str:
    """What was done about tests that fail only in a clean checkout."""
    count = "1 test fails" if len(tests) == 1 else f"{len(tests)} tests fail"
    why = "without network" if network else "in a clean checkout"
    keep = (
        'To include them, set network.proof = "all" under [guard] and remove this from [proof].'
        if network
        else ONLY_TRACKED
    )
    return f"{count} {why} ({_listed(tests)}), so the proof {how}. {keep}"


def _leaving_out(tests: list[str]) -> str:
    words = " ".join(f"--deselect {shlex.quote(test)}" for test in tests[:LISTED])
    return f"`{words}`" if "::" in words else "what leaves them out"


def _explanation(here: Trial, clean: Trial, network: bool) -> str:
    only = _only(clean, here)
    which = f" ({_listed(only)})" if only else ""
    if network:
        return (
            f"Tests that use the network fail in a clean checkout{which}. Proofs reach only this machine: "
            'set network.proof = "all" under [guard], or leave these tests out in [proof] commands.'
        )
    if clean.problem or not clean.ran:
        return f"In a clean checkout {clean.says.rstrip('.')}. {ONLY_TRACKED}"
    passing = [name for name in here.names if name not in clean.names]
    if (fewer := clean.fewer(here)) and not only:
        return (
            f"{plural(fewer, 'test')} that {'passes' if fewer == 1 else 'pass'} in this folder {'is' if fewer == 1 else 'are'} "
            f"skipped or missing in a clean checkout, so the proof does not check {'it' if fewer == 1 else 'them'}. {ONLY_TRACKED}"
        )
    if passing and not only:
        count = "1 test fails" if len(passing) == 1 else f"{len(passing)} tests fail"
        return (
            f"{count} in this folder and not in a clean checkout ({_listed(passing)}), because of something that git ignores, a "
            "variable of your shell, or chance. Proofs run in a clean checkout. If the result changes each time, leave these "
            f"tests out: add {_leaving_out(passing)} to the command in [proof] commands."
        )
    return f"In a clean checkout other tests fail than in this folder{which}. {ONLY_TRACKED}"
