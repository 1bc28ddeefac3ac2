"""Loaded by every Python of a proof through PYTHONPATH: writes down which tests pytest, unittest and doctest ran.

It runs in the project's own Python (3.7 or newer), so it uses the standard library only. Each process writes one
file of JSON lines into ../report. It changes nothing that a test can see but the patched recording methods.
"""

import atexit
import copy
import importlib.machinery
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.getcwd()


def _read_room():
    try:
        with open(os.path.join(os.path.dirname(HERE), "room.json")) as file:
            return json.load(file)
    except OSError:
        return {}


_room = _read_room()
REPORT = _room.get("report", "")


def _loaded(name):
    module = type(sys)(name)
    place = os.path.join(HERE, *name.split(".")) + ".py"
    importlib.machinery.SourceFileLoader(name, place).exec_module(module)
    return module


_recorder = _loaded("recorder").Recorder(_room, ROOT)


# ---- pytest ----


class _Pytest:
    """A pytest plugin. Under xdist only the controlling process reports."""

    def __init__(self):
        self.reports = False
        self.phases = {}
        self.deselected = 0

    def pytest_sessionstart(self, session):
        self.session = session
        self.began = not hasattr(session.config, "workerinput")
        self.reports = self.began and _recorder.begin("pytest")
        if _plain:
            _plain()

    def pytest_collection_modifyitems(self, items):
        items[:] = _repeated_items(_chosen(items, lambda item: item.nodeid))
        self.requests = {item.nodeid: self.request_of(item) for item in items if _recorder.helpers}

    def pytest_runtest_logreport(self, report):
        if not self.reports:
            return
        phases = self.phases.setdefault(
            report.nodeid, {"outcome": "passed", "took": 0.0, "detail": "", "skips": 0}
        )
        phases["took"] += getattr(report, "duration", 0.0)
        if report.failed:
            if _room.get("one_failure"):
                self.session.shouldfail = "one failure is enough"
            phases["outcome"], phases["detail"] = "failed", _first(getattr(report, "longreprtext", ""))
        elif getattr(report, "context", None) is not None:  # a subtest, which is a part of its test
            phases["skips"] += bool(report.skipped)
        elif report.skipped and phases["outcome"] != "failed":
            expected = getattr(report, "wasxfail", None)
            phases["outcome"] = "skipped"
            phases["detail"] = "xfail " + str(expected) if expected is not None else _reason(report)
        elif report.when == "call":
            _recorder.run_alone(
                report.nodeid, report.location[0], lambda alone: self.requests.get(report.nodeid)
            )
        if report.when == "teardown":
            _recorder.test(report.nodeid, file=report.location[0], **self.phases.pop(report.nodeid))

    def request_of(self, item):
        """Made before the test runs: a test may change the values it is given."""
        try:
            return _recorder.alone.of_pytest(item, self.session.config)
        except Exception:
            return None

    def pytest_collectreport(self, report):
        if not self.reports:
            return
        if report.failed:
            _recorder.test(
                report.nodeid or "collection", "failed", report.nodeid, 0, _first(str(report.longrepr))
            )
        elif report.skipped:
            _recorder.test(report.nodeid, "skipped", report.nodeid, 0, _reason(report))

    def pytest_deselected(self, items):
        self.deselected += len(items)

    def pytest_sessionfinish(self, session, exitstatus):
        if self.reports:
            facts = {"exit": int(exitstatus), "deselected": self.deselected}
            _recorder.end(collected=getattr(session, "testscollected", 0), **facts)
        elif self.began:
            _recorder.end()


def _first(text):
    lines = [line for line in text.splitlines() if line.startswith("E ")]
    return (lines or text.strip().splitlines() or [""])[0][:300]


def _reason(report):
    longrepr = getattr(report, "longrepr", None)
    return str(longrepr[2] if isinstance(longrepr, tuple) and len(longrepr) == 3 else longrepr or "")


def _patch_pytest(module):
    prepare = module._prepareconfig

    def _prepareconfig(*args, **more):
        _recorder.open()
        config = prepare(*args, **more)
        plugin = _Pytest()
        if _wanted or _room.get("one_failure"):
            config.option.tbstyle = "no"  # a traceback of each failure takes long, and nobody reads it
        if _wanted and _has_collection_path():
            plugin.pytest_ignore_collect = _ignored_by(config)
        config.pluginmanager.register(plugin)
        return config

    module._prepareconfig = _prepareconfig


def _has_collection_path():
    """pytest 7 or newer."""
    from _pytest import hookspec

    return "collection_path" in hookspec.pytest_ignore_collect.__code__.co_varnames


def _ignored_by(config):
    """Files without a wanted test are not even collected."""
    files = {os.path.join(str(config.rootpath), test.partition("::")[0]) for test in _wanted}
    whole = not all("::" in test or test in _room["files"] for test in _wanted)

    def pytest_ignore_collect(collection_path):
        path = str(collection_path)
        other = (
            path.endswith(".py") and not path.endswith(("__init__.py", "conftest.py")) and path not in files
        )
        return True if other and not whole and os.path.isfile(path) else None

    return pytest_ignore_collect


def _repeated_items(items):
    """pytest takes a test down only when another object follows, so each repeat is a copy."""
    more = [copy.copy(item) for _ in range(_times - 1) for item in items if hasattr(item, "function")]
    for item in more:
        item._request = False  # pytest makes a new one
    return items + more


# ---- unittest ----


def _patch_unittest_main(module):
    parse = module.TestProgram.parseArgs

    def opened(self, argv):
        _recorder.open()
        return parse(self, argv)

    module.TestProgram.parseArgs = opened


def _patch_unittest_runner(module):
    run = module.TextTestRunner.run

    def recorded(self, test):
        reports = _recorder.begin("unittest")
        result = None
        self.failfast = self.failfast or bool(_room.get("one_failure"))
        try:
            result = run(self, _only_of(test))
            return result
        finally:
            ran = getattr(result, "testsRun", 0)
            good = result.wasSuccessful() if result is not None else False
            _recorder.end(exit=0 if good else 1, collected=ran) if reports else _recorder.end()

    module.TextTestRunner.run = recorded


def _only_of(suite):
    """The suite without the tests that nobody asked for, the others as often as asked for."""
    if not _wanted or not hasattr(suite, "__iter__"):
        return suite
    tests = list(_flat(suite))
    selected = _chosen(tests, _id_of)
    repeated = selected + [copy.copy(test) for _ in range(_times - 1) for test in selected]
    return suite if selected is tests and _times == 1 else type(suite)(repeated)


def _chosen(tests, id_of):
    """The tests that are asked for; all of them where one is not among them."""
    if _room.get("files"):
        selected = [
            test
            for test in tests
            if _file_of_id(id_of(test), test) in _wanted or "_FailedTest" in id_of(test)
        ]
        return selected or tests
    selected = [test for test in tests if id_of(test) in _wanted]
    return selected if _wanted and len(selected) >= len(_wanted) else tests


def _file_of_id(name, test):
    return name.partition("::")[0] if "::" in name else os.path.relpath(_file_of(test) or ROOT, ROOT)


def _flat(suite):
    for test in suite:
        if hasattr(test, "__iter__"):
            for inner in _flat(test):
                yield inner
        else:
            yield test


def _patch_unittest_result(module):
    kinds = {
        "addSuccess": "passed",
        "addFailure": "failed",
        "addError": "failed",
        "addSkip": "skipped",
        "addExpectedFailure": "skipped",
        "addUnexpectedSuccess": "failed",
    }
    for name, outcome in kinds.items():
        setattr(module.TestResult, name, _recorded(getattr(module.TestResult, name), outcome))
    sub = module.TestResult.addSubTest

    def add_sub_test(self, test, subtest, err):
        if err is not None and _recorder.runner == "unittest":
            _recorder.test(test.id(), "failed", _file_of(test), 0, err[1])
        return sub(self, test, subtest, err)

    module.TestResult.addSubTest = add_sub_test


def _recorded(method, outcome):
    def add(self, test, *rest):
        if _recorder.runner == "unittest":
            detail = (
                rest[0][1] if rest and isinstance(rest[0], tuple) and len(rest[0]) > 1 else (rest or ("",))[0]
            )
            if outcome == "skipped" and hasattr(test, "test_case"):  # a subtest, which is a part of its test
                _recorder.test(_id_of(test.test_case), "passed", _file_of(test.test_case), skips=1)
                return method(self, test, *rest)
            name = _id_of(test)
            if outcome == "passed":
                _recorder.run_alone(name, _file_of(test), lambda alone: alone.of_unittest(test))
            _recorder.test(name, outcome, _file_of(test), 0, detail)
        return method(self, test, *rest)

    return add


def _id_of(test):
    try:
        return str(test.id())
    except Exception:
        return str(test)


def _file_of(test):
    """Its file; none for what stands for a test file that could not be loaded."""
    name = type(test).__module__
    module = None if name == "unittest.loader" else sys.modules.get(name)
    return getattr(module, "__file__", "") or ""


# ---- doctest ----


def _patch_doctest(module):
    run = module.DocTestRunner.run

    def recorded(self, test, *rest, **more):
        if _room.get("only") and not any(("::" + name).endswith("::" + test.name) for name in _wanted):
            return module.TestResults(0, 0)
        request = _request_of_examples(test, self.optionflags) if _recorder.helpers else None
        result = run(self, test, *rest, **more)
        if (
            _recorder.depth == 0
            and getattr(result, "attempted", 0)
            and (_doctests or not _recorder.is_nested())
        ):
            if not _doctests:
                _recorder.write(kind="begin", runner="doctest", root=ROOT, argv=sys.argv[:20])
                atexit.register(
                    lambda: _recorder.write(kind="end", runner="doctest", collected=len(_doctests))
                )
            _doctests.append(test.name)
            if not result.failed:
                _recorder.run_alone(test.name, test.filename or "", lambda alone: request)
            _recorder.test(test.name, "failed" if result.failed else "passed", test.filename or "")
        return result

    module.DocTestRunner.run = recorded


def _request_of_examples(test, flags):
    """Made before they run: afterwards their names are gone."""
    try:
        return _recorder.alone.of_doctest(test, flags)
    except Exception:
        return None


_doctests = []
_DOCTEST_MAIN = "import sys\nfrom doctest import _test\nif __name__ == '__main__':\n    sys.exit(_test())\n"


# ---- loading ----

_PATCHES = {
    "_pytest.config": _patch_pytest,
    "unittest.main": _patch_unittest_main,
    "unittest.runner": _patch_unittest_runner,
    "unittest.result": _patch_unittest_result,
    "doctest": _patch_doctest,
}


class _Finder:
    """Patches a runner's module right after it was imported."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        patch = _PATCHES.get(name)
        if patch is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module):
            vars(spec.loader).pop("get_code", None)
            load(module)
            try:
                patch(module)
            except Exception:
                pass

        try:
            spec.loader.exec_module = exec_module
            if (
                name == "doctest"
            ):  # `python -m doctest` runs the file itself: let it import the patched module
                spec.loader.get_code = lambda _name: compile(_DOCTEST_MAIN, spec.origin or "doctest", "exec")
        except AttributeError:
            return None
        return spec


def _chain():
    """Another sitecustomize further down the path still runs."""
    others = [place for place in sys.path if os.path.abspath(place or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = type(sys)("sitecustomize")
        module.__spec__, module.__file__ = spec, spec.origin
        spec.loader.exec_module(module)
    else:
        module = type(sys)("sitecustomize")
    sys.modules["sitecustomize"] = module  # this one is out of sight


# ---- which code ran ----


def _note_opened(event, args):
    """A file of the project that is read while tests run, besides code."""
    if event == "open" and _recorder.runner and isinstance(args[0], str) and "w" not in str(args[1]):
        path = os.path.abspath(args[0])
        if path.startswith(ROOT + os.sep) and not path.endswith((".py", ".pyc")):
            _recorder.opened.add(path)


def _note_code(event, args):
    """Once: code of the project was executed in this process. The file's name is all that counts."""
    if event == "exec" and not _ran and args:
        name = getattr(args[0], "co_filename", "")
        if name.startswith(ROOT + os.sep) and os.sep + "site-packages" + os.sep not in name:
            _ran.append(name)
            try:
                os.close(os.open(os.path.join(REPORT, "ran"), os.O_WRONLY | os.O_CREAT, 0o600))
            except OSError:
                pass


_ran = []


# ---- a room where the code cannot see that it is tested ----


def _plain_room(room):
    """Makes one where it is asked for; what hides the traces of a runner that has started."""
    if not room.get("source"):
        return None
    plain, alone, helper = _loaded("plain.plain"), _loaded("plain.alone"), _loaded("plain.helper")
    alone.stand_in = helper.stand_in = _loaded("plain.stand_in")
    plain_room = plain.install(room["root"], room["source"], room["argv"])
    plain_room.broken = {os.path.join(room["root"], path): text for path, text in room["broken"].items()}
    _PATCHES["_pytest.runner"] = _patch_current_test
    pipes = os.environ.pop(alone.PIPES, "")
    if pipes:
        numbers = [int(number) for number in pipes.split(",")]
        sys.modules["main"] = type(sys)("main")
        sys.modules["main"].main = lambda: helper.serve(plain_room, _recorder, numbers, HERE, room["alone_s"])
        _PATCHES.clear()
    elif room.get("alone") and not _recorder.is_nested():
        _start_alone(alone, plain_room, getattr(sys, "orig_argv", ()))
    return lambda: plain.hide(plain_room)


def _start_alone(alone, made, words):
    script = alone.script_of(words, made)
    if alone.wanted(words):
        _recorder.helpers, _recorder.alone = alone.Helpers(HERE, bool(made.broken)), alone
    elif script and alone.Helpers(HERE).run(script, script, alone.of_script(script, words[2:])):
        os.write(2, b"The test script fails where nothing tells the code that it is tested.\n")
        os._exit(97)


def _patch_current_test(module):
    module._update_current_test_var = lambda item, when: None


_plain = None
_wanted = frozenset()  # ids of tests, or files with tests
_times = 1

if os.path.isdir(REPORT):
    _plain, _wanted = _plain_room(_room), frozenset(_room.get("only") or _room.get("files") or ())
    _times = _room.get("times", 1)
    if hasattr(sys, "addaudithook"):
        sys.addaudithook(_note_code)
        sys.addaudithook(_note_opened)
    sys.meta_path.insert(0, _Finder)
_chain()
