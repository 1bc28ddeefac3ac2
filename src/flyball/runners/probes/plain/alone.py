"""Runs single tests without their runner, in fresh Pythons that have loaded nothing else.

What a runner does to its process (modules, memory, hooks, callers, arguments) can tell code that it is tested. So a few
helpers are started before the runner is loaded, each with hashes of its own. A helper forks for every test, imports
the test's module under a plain name, with a stand-in for pytest, and calls the test: an assertion that fails there
although the test passed under its runner says something, and so does a process that ends before the test does. A
helper writes what it saw into a sealed report of its own, which no code under test has in its memory.
"""

import json
import os
import pickle
import sys

HELPERS = 3
PASSED, FAILED = b"p", b"f"  # what a helper answers, or that it cannot tell
RUNNERS = ("pytest", "py.test", "unittest", "doctest")
PROGRAM = "from main import main; main()"
PIPES = "PYTHONALONE"
stand_in = None  # the module of this name: sitecustomize loads it
SHOWN = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "VIRTUAL_ENV", "USER", "SHELL")


class Helpers:
    """Each takes one request a line; an answer has one byte."""

    def __init__(self, probes, broken=False):
        self.known, self.owner, self.broken = {}, os.getpid(), broken
        self.pipes = [_started(probes) for _ in range(HELPERS)]
        for _, answers in self.pipes:
            os.read(answers, 1)

    def run(self, name, file, request):
        """Whether the test fails in one of them; what each saw stands in the helper's own report. Where it passes in
        all of them, one also runs it with wrong assertions."""
        if not request or name in self.known or os.getpid() != self.owner:
            return self.known.get(name, False)
        request = {**request, "id": name, "file": file, "broken": False}
        try:
            answers = _asked(self.pipes, request)
            self.known[name] = FAILED in answers
            if self.broken and set(answers) == {PASSED}:
                _asked(self.pipes[:1], {**request, "broken": True})
        except OSError:
            self.known[name] = False
        return self.known[name]


def _asked(pipes, request):
    line = json.dumps(request).encode() + b"\n"
    for requests, _ in pipes:
        os.write(requests, line)
    return [os.read(answers, 1) for _, answers in pipes]


def _started(probes):
    ours, theirs = os.pipe(), os.pipe()
    if os.fork() == 0:
        try:
            for number in (ours[0], theirs[1]):
                os.set_inheritable(number, True)
            env = {name: os.environ[name] for name in SHOWN if name in os.environ}
            later = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place != probes]
            env["PYTHONPATH"] = os.pathsep.join([probes, *later])
            env[PIPES] = "%d,%d" % (ours[0], theirs[1])
            os.execve(sys.executable, [sys.executable, "-c", PROGRAM], env)
        finally:
            os._exit(1)
    os.close(ours[0]), os.close(theirs[1])
    return ours[1], theirs[0]


def wanted(words):
    """Whether a command line starts a runner that can be left out."""
    return any(word.rpartition("/")[2] in RUNNERS for word in words[1:4])


def script_of(words, room):
    """The test script that a command line starts; "" where it starts something else, or builds."""
    path = os.path.abspath(words[1]) if len(words) > 1 and words[1].endswith(".py") else ""
    if os.path.basename(path) == "setup.py":
        return ""
    return path if path.startswith(room.root) and not room.is_source(path) else ""


# ---- what to ask ----

_OF_UNITTEST = ("_unittest_", "unittest_")  # the fixtures that pytest makes of setUpClass and the like
_DIRECT = "get_direct_param_fixture_func"  # how pytest names what gives a test the values of its own table


def of_pytest(item, config):
    """The request for an item that can be run with our own means; None where it needs more of pytest."""
    import inspect

    if getattr(item, "dtest", None) is not None:
        return of_doctest(item.dtest, item.runner.optionflags)
    test, arguments = (
        getattr(item, "function", None),
        dict(getattr(getattr(item, "callspec", None), "params", {})),
    )
    if hasattr(item.cls, "failureException"):
        own = all(name.startswith(_OF_UNITTEST) for name in item._fixtureinfo.initialnames)
        return of_unittest(item.cls(item.name), _conftests(config)) if own else None
    if test is None or inspect.iscoroutinefunction(test):
        return None
    if _needs_its_place(test):
        return None
    fixtures = _plan(item)
    if fixtures is None:
        return None
    try:
        values = pickle.dumps(arguments).hex()
    except Exception:
        return None
    names = item.getmodpath(stopatmodule=True, includemodule=False).partition("[")[0].split(".")
    more = {"given": values, "fixtures": fixtures, "arguments": list(item._fixtureinfo.argnames)}
    return _request(item.module.__name__, names, _conftests(config), **more)


def _conftests(config):
    plugins = config.pluginmanager.get_plugins()
    return [one.__name__ for one in plugins if str(getattr(one, "__file__", "")).endswith("conftest.py")]


def _plan(item):
    """The fixtures of a test, in the order in which they need each other; None if one is missing."""
    known, plan = item._fixtureinfo.name2fixturedefs, {}

    def add(name):
        fixtures = known.get(name) or ()
        if name in plan or name == "request" or (fixtures and fixtures[-1].func.__name__ == _DIRECT):
            return True
        if name in stand_in.OWN:
            plan[name] = {"name": name, "arguments": []}
            return True
        if not fixtures or len(fixtures) > 1 or not _is_ours(fixtures[-1].func, item.cls):
            return name in getattr(getattr(item, "callspec", None), "params", {}) and not fixtures
        function, needs = fixtures[-1].func, list(fixtures[-1].argnames)
        if not all(add(one) for one in needs):
            return False
        facts = {"module": function.__module__, "function": function.__name__}
        facts["of_class"] = "." in function.__qualname__
        plan[name] = {"name": name, "arguments": needs, **facts}
        return True

    def is_plugins(name):
        """It comes with an installed plugin, for every test."""
        makers = known.get(name)
        return (
            bool(makers)
            and name not in item._fixtureinfo.argnames
            and not _file(makers[-1].func).startswith(os.getcwd())
        )

    names = [
        name
        for name in item._fixtureinfo.initialnames
        if name[:1] == "_" or name in stand_in.OWN or not is_plugins(name)
    ]
    return list(plan.values()) if all(add(name) for name in names) else None


def _file(function):
    return getattr(sys.modules.get(function.__module__), "__file__", None) or ""


def _is_ours(function, owner):
    """A plain function of the project's own test files, or a method of the test's own class."""
    import inspect

    file = _file(function)
    method = owner is not None and function.__qualname__ == owner.__qualname__ + "." + function.__name__
    plain = (method or function.__qualname__ == function.__name__) and not inspect.iscoroutinefunction(
        function
    )
    return plain and file.startswith(os.getcwd() + os.sep) and not inspect.isasyncgenfunction(function)


def _needs_its_place(test):
    """It runs the examples of a text, or expects its own name or file of the code: these are not the same here."""
    code = test.__code__
    texts = [one for one in code.co_consts if isinstance(one, str) and "<locals>" not in one]
    names_file = {"filename", "pathname", "co_filename"}.intersection(
        code.co_names
    ) and "__file__" in code.co_names
    own = test.__name__, os.path.splitext(os.path.basename(code.co_filename))[0]
    return "doctest" in code.co_names or names_file or any(name in one for one in texts for name in own)


def of_unittest(test, before=()):
    if _needs_its_place(getattr(test, test._testMethodName)):
        return None
    names = [*type(test).__qualname__.split("."), test._testMethodName]
    return _request(type(test).__module__, names, before, unittest=True)


FLAGS = {"ELLIPSIS", "NORMALIZE_WHITESPACE", "IGNORE_EXCEPTION_DETAIL", "DONT_ACCEPT_BLANKLINE", "SKIP"}


def of_doctest(test, flags):
    """The examples of one docstring or text, each with the names of its flags; None where it needs another flag."""
    import doctest

    reporting, rows = doctest.REPORTING_FLAGS | doctest.DONT_ACCEPT_TRUE_FOR_1, []
    for one in test.examples:
        on = flags & ~reporting
        for flag, wanted_on in one.options.items():
            on = (on | flag if wanted_on else on & ~flag) & ~reporting
        names = [name for name, bit in doctest.OPTIONFLAGS_BY_NAME.items() if on & bit]
        if not FLAGS.issuperset(names):
            return None
        rows.append([one.source, one.want, one.exc_msg, names])
    request = _request(test.globs.get("__name__", "__main__"), [test.name], (), examples=rows)
    return {**request, "path": [os.path.dirname(os.path.abspath(test.filename or "")), *sys.path]}


def of_script(path, words):
    facts = {"path": [os.path.dirname(path), *sys.path], "folder": os.getcwd(), "fixtures": []}
    return {**facts, "script": path, "arguments": list(words)}


def _request(module, names, before, unittest=False, **more):
    facts = {"module": module, "names": names, "before": list(before), "unittest": unittest, "fixtures": []}
    return {**facts, **more, "path": sys.path, "folder": os.getcwd()}
