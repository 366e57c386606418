# SPDX-License-Identifier: Apache-2.0
"""PITOT_AUTO: chooses at the start of an interpreter whether to record the process. pitot_auto.pth calls it if that is set.

It imports the package only for processes that it chooses. Nothing that goes wrong here may stop the interpreter.
"""

import os
import sys

# Programs that build, install, check or edit. Their names end at the first of "-", "_", "." and digits: "pip3.11", "pip-compile".
_TOOLS = frozenset(("ansible black build cmake cmakelang coverage cython cythonize debugpy flake8 hatch idle ipython isort jupyter meson mypy ninja "
                    "pdm pip pipx poetry pre pycodestyle pydoc pylint pyright pytest ruff setup setuptools sphinx tox twine uv virtualenv "
                    "wheel yapf").split())
_ARCHIVES = (".pyz", ".pyzw", ".pex", ".zip", ".whl")
_SERVERS = ("http", "wsgiref", "xmlrpc")  # of the standard library
_CHILDREN = "from multiprocessing.spawn import"
_FORKS = "from multiprocessing.forkserver import"

_has_begun = False


def _program(mode: str) -> str:
    """The module of `-m`, or the code of `-c`. sys.argv has only the mode as yet."""
    arguments = getattr(sys, "orig_argv", None)
    if arguments is None:  # before 3.10
        with open("/proc/self/cmdline", "rb") as file:
            arguments = [os.fsdecode(argument) for argument in file.read().split(b"\0")[:-1]]
    argument = arguments[len(arguments) - len(sys.argv)]
    if argument.startswith("-") and len(argument) > 2:  # -mpip, -um pip
        argument = argument[argument.index(mode) + 1:]
    return argument


def choose() -> "tuple[str, str]":
    """Why this process is not recorded ("": it is), and the name of its program. docs/guide/python.md has the rule."""
    program = name = sys.argv[0]
    if sys.flags.isolated or sys.flags.ignore_environment:
        return "the interpreter ignores the environment", name
    if program in ("", "-"):
        return "the program is typed or piped in", name
    if program == "-c":
        return "" if _program("c").startswith((_CHILDREN, _FORKS)) else "the program is an argument", ""
    if program == "-m":
        module = _program("m")
        name = module.split(".")[0]
        if name not in _SERVERS and name in getattr(sys, "stdlib_module_names", ("compileall", "ensurepip", "unittest", "venv")):
            return "the program is a module of the standard library", module
    else:
        name = os.path.basename(os.path.abspath(program))
        if name.startswith("_"):
            return "the program is a helper of a package", name
        if name.endswith(_ARCHIVES):
            return "the program is an archive", name
    end = 0
    while end < len(name) and name[end].isalpha():
        end += 1
    return "the program is a tool" if name[:end].lower() in _TOOLS else "", name


def begin() -> None:
    """Records the process, if the rule chooses it. A venv reads its .pth files twice: the second call does nothing."""
    global _has_begun  # pylint: disable=global-statement
    if _has_begun:
        return
    _has_begun = True
    try:
        why_not, name = choose()
        if why_not:
            return
        from pitot import _auto  # pylint: disable=import-outside-toplevel

        _auto.begin(name, children_only=not name and _program("c").startswith(_FORKS))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # pylint: disable=broad-except
        try:
            sys.stderr.write(f"pitot: PITOT_AUTO records nothing: {type(error).__name__}: {error}\n")
        except Exception:  # pylint: disable=broad-except
            pass  # it is closed
