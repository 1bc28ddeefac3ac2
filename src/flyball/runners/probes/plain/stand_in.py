"""What stands in for pytest and for some of its fixtures where a test runs without it: see alone.py.

Whatever a test needs that is not here makes its result unknown.
"""

import io
import os
import pathlib
import re
import sys
import tempfile
import types

ASSERTION = AssertionError


def pytest():
    module = types.ModuleType("pytest")
    vars(module).update(fixture=_fixture, mark=_Mark(), raises=_Raises, approx=_Approx, param=_param)
    vars(module).update(fail=_fail, FixtureRequest=object, MonkeyPatch=_Monkeypatch)
    return module


def _fixture(function=None, **_):
    return function if callable(function) else lambda one: one


class _Mark:
    """Any mark, with or without arguments, leaves a test as it is."""

    def __getattr__(self, _name):
        return self

    def __call__(self, *given, **_):
        return given[0] if len(given) == 1 and isinstance(given[0], (types.FunctionType, type)) else self


def _param(*values, **_):
    return values


def _fail(reason="", *_, **__):
    raise ASSERTION(reason)


class _Raises:
    def __init__(self, expected, match=None):
        self.expected, self.match = expected, match

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _trace):
        if kind is None:
            raise ASSERTION("nothing was raised")
        if not issubclass(kind, self.expected):
            return False
        self.type, self.value = kind, error
        if self.match and not re.search(self.match, str(error)):
            raise ASSERTION(str(error))
        return True


class _Approx:
    def __init__(self, expected, rel=None, abs=None):  # noqa: A002 (pytest's name)
        self.expected, self.more = expected, (rel, abs)

    def __eq__(self, actual):
        expected = self.expected
        if isinstance(expected, dict):
            return actual.keys() == expected.keys() and all(
                self._of(expected[k]) == actual[k] for k in expected
            )
        if isinstance(expected, (list, tuple)):
            return len(actual) == len(expected) and all(self._of(e) == a for e, a in zip(expected, actual))  # noqa: B905 (Python 3.7)
        rel, least = self.more
        margin = max(abs(expected) * (1e-6 if rel is None else rel), 1e-12 if least is None else least)
        return actual == expected or abs(actual - expected) <= margin

    def _of(self, value):
        return _Approx(value, *self.more)

    __hash__ = None


# ---- fixtures ----


class _Monkeypatch:
    """Nothing is undone: the process ends with the test."""

    def setattr(self, target, name, *value, raising=True):
        if not value:
            path, value = target, (name,)
            module, _, name = path.rpartition(".")
            __import__(module)
            target = sys.modules[module]
        setattr(target, name, value[0])

    def delattr(self, target, name, raising=True):
        delattr(target, name)

    def setitem(self, mapping, name, value):
        mapping[name] = value

    def delitem(self, mapping, name, raising=True):
        mapping.pop(name, None)

    def setenv(self, name, value, prepend=None):
        os.environ[name] = value if prepend is None else str(value) + prepend + os.environ.get(name, "")

    def delenv(self, name, raising=True):
        os.environ.pop(name, None)

    def syspath_prepend(self, path):
        sys.path.insert(0, str(path))

    def chdir(self, path):
        os.chdir(path)


class _Captured:
    def __init__(self):
        self.streams = sys.stdout, sys.stderr = io.StringIO(), io.StringIO()

    def readouterr(self):
        texts = [one.getvalue() for one in self.streams]
        for one in self.streams:
            one.seek(0), one.truncate()
        return types.SimpleNamespace(out=texts[0], err=texts[1])


def _folder():
    return pathlib.Path(tempfile.mkdtemp())


OWN = {"tmp_path": _folder, "monkeypatch": _Monkeypatch, "capsys": _Captured}
