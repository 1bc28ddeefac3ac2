"""Shows the code under test an ordinary program instead of a test run.

In such a room the project's source finds no test runner among its modules, arguments, callers and variables; the tests
and the runner see everything as it is. Code whose result depends on being tested then fails its tests. It works by
the import statement: source files get their own view of `sys` and of the modules that look at the stack.
"""

import _thread
import builtins
import os
import sys
import types

MAINS = ("unittest.__main__", "doctest", "pytest.__main__")
VARIABLES = ("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_ADDOPTS", "CI")


class Room:
    """What the source of one project may see."""

    def __init__(self, root, source, argv):
        self.root = os.path.join(root, "")
        self.source = frozenset(os.path.join(root, path) for path in source)
        self.argv = argv
        self.given = None  # the process's own arguments, as they were at the start
        self.known = set(sys.modules)  # modules of every Python, and those that the source has imported
        self.main = types.ModuleType("__main__")
        self.frame = _frame_of(self.main, argv[0])
        self.views = {}
        if argv[0] != "-c":
            self.main.__file__ = argv[0]

    def is_source(self, file):
        return bool(file) and file in self.source

    def staged(self):
        """Whether a test runner or a test script is at work in this process."""
        main = sys.modules.get("__main__")
        file = os.path.abspath(getattr(main, "__file__", None) or "")
        if self.is_source(file):
            return False
        name = getattr(getattr(main, "__spec__", None), "name", None)
        return name in MAINS or "_pytest.config" in sys.modules or file.startswith(self.root)

    # ---- what is shown ----

    def arguments(self):
        changed = self.given is None or sys.argv is not self.given[0] or sys.argv[1:] != self.given[1]
        return sys.argv if changed else list(self.argv)

    def modules(self):
        shown = {name: module for name, module in sys.modules.items() if self._shows(name, module)}
        return _Modules(shown, __main__=self.main)

    def _shows(self, name, module):
        return name in self.known or self.is_source(getattr(module, "__file__", None))

    def path(self):
        return _Path(
            place for place in sys.path if place.rpartition(os.sep)[2] not in ("tests", "test", "probes")
        )

    def getframe(self, depth=0):
        frame = self.frame
        for _ in range(depth):
            frame = frame.f_back
            if frame is None:
                raise ValueError("call stack is not deep enough")
        return frame

    def view(self, name):
        """The module as source sees it; None where it sees the module itself."""
        if name == "__main__":
            return self.main
        if name not in self.views:
            shown = _SHOWN.get(name)
            self.views[name] = _view(self, sys.modules[name], shown(self)) if shown else None
        return self.views[name]


def _frame_of(main, name):
    """The frame of a function that a plain program called."""
    frames, done = [], _thread.allocate_lock()
    program = compile("def main():\n    note()\n\n\nmain()\n", "<string>" if name == "-c" else name, "exec")

    def note():
        frames.append(sys._getframe(1))
        done.release()

    vars(main).update(note=note, __builtins__=builtins)
    done.acquire()
    _thread.start_new_thread(types.FunctionType(program, vars(main)), ())
    done.acquire()
    vars(main).pop("note")
    return frames[0]


class _Path(list):
    """A part of sys.path. What is added goes to sys.path as well."""

    def insert(self, at, place):
        sys.path.insert(at, place)
        list.insert(self, at, place)

    def append(self, place):
        sys.path.append(place)
        list.append(self, place)


class _Modules(dict):
    """A part of sys.modules. What is written goes to sys.modules as well."""

    def __setitem__(self, name, module):
        sys.modules[name] = module
        dict.__setitem__(self, name, module)

    def __delitem__(self, name):
        sys.modules.pop(name, None)
        dict.__delitem__(self, name)

    def pop(self, name, *default):
        sys.modules.pop(name, None)
        return dict.pop(self, name, *default)

    def setdefault(self, name, default=None):
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *others, **more):
        for name, module in dict(*others, **more).items():
            self[name] = module


def _view(room, real, shown):
    """A module like `real`, with some names shown differently while tests are at work."""

    class View(types.ModuleType):
        def __getattr__(self, name):
            if name in shown and room.staged():
                return shown[name]()
            return getattr(real, name)

        def __setattr__(self, name, value):
            setattr(real, name, value)

        def __delattr__(self, name):
            delattr(real, name)

        def __dir__(self):
            return dir(real)

    View.__name__ = View.__qualname__ = "module"
    view = View(real.__name__, real.__doc__)
    for name in ("__spec__", "__loader__", "__package__"):
        vars(view)[name] = getattr(real, name, None)
    return view


def _of_sys(room):
    return {
        "argv": room.arguments,
        "orig_argv": lambda: ["python3", *room.argv],
        "modules": room.modules,
        "path": room.path,
        "_getframe": lambda: room.getframe,
        "_current_frames": lambda: lambda: {0: room.frame},
    }


def _of_inspect(room):
    import inspect

    return {
        "stack": lambda: lambda context=1: inspect.getouterframes(room.frame, context),
        "currentframe": lambda: lambda: room.frame,
    }


def _of_traceback(room):
    import traceback

    def with_frame(name):
        return lambda: lambda f=None, *rest, **more: getattr(traceback, name)(f or room.frame, *rest, **more)

    return {name: with_frame(name) for name in ("extract_stack", "format_stack", "print_stack", "walk_stack")}


def _of_gc(_room):
    return {"get_objects": lambda: lambda *_, **__: [], "get_referrers": lambda: lambda *_: []}


def _of_importlib(room):
    import importlib

    def import_module(name, package=None):
        module = importlib.import_module(name, package)
        return room.view(name) or module

    return {"import_module": lambda: import_module}


_SHOWN = {
    "sys": _of_sys,
    "inspect": _of_inspect,
    "traceback": _of_traceback,
    "gc": _of_gc,
    "importlib": _of_importlib,
}


def install(root, source, argv):
    """From now on. `source` are the paths of the code under test below `root`."""
    room = Room(root, source, argv)
    whole = builtins.__import__

    def imported(name, *rest, **more):
        module = whole(name, *rest, **more)
        if room.given is None and hasattr(sys, "argv"):
            room.given = sys.argv, sys.argv[1:]
        where = (rest[0] if rest else more.get("globals")) or sys._getframe(1).f_globals
        if not (rest[3:] or [more.get("level")])[0] and room.is_source(where.get("__file__")):
            room.known.add(name)
            if name in _SHOWN or (name == "__main__" and room.staged()):
                return room.view(name)
        return module

    builtins.__import__ = imported
    return room


def hide_variables():
    """When a runner has read them."""
    for name in VARIABLES:
        os.environ.pop(name, None)
