"""`python -m insitu.collectors.counting SCRIPT [ARGUMENT]...`: run a program with counting."""

import atexit
import os
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType, TracebackType

from insitu.collectors.counting import counters, rewrite


def main(arguments: list[str]) -> None:
    """Run the program: `SCRIPT ARGUMENT...` or `-m MODULE ARGUMENT...`."""
    directory = _restore_environment()
    rewriter = rewrite.Rewriter
    if "INSITU_LABELS" in os.environ:
        from insitu.collectors.counting import labelling, labels

        rewriter = labelling.Labeller
        arguments = labels.label_arguments(arguments)

    # Set up sys.path and sys.argv as Python does.
    spec = None
    if arguments[0] == "-m":
        sys.path[0] = os.getcwd()
        rewrite.install(sys.path[0], rewriter)
        spec = _find_module(arguments[1])
        path, arguments = spec.origin or "", arguments[1:]
    else:
        path = arguments[0]
        sys.path[0] = os.path.dirname(os.path.abspath(path))
        rewrite.install(sys.path[0], rewriter)
    sys.argv = [path, *arguments[1:]]

    module = ModuleType("__main__")
    vars(module).update(rewrite.namespace(rewriter), __file__=path, __builtins__=__builtins__)
    if spec is not None:
        vars(module).update(__spec__=spec, __package__=spec.parent)
    sys.modules["__main__"] = module
    sys.excepthook = _abort_on_error

    with open(path, "rb") as file:
        code = rewrite.compile_counted(file.read(), path, rewriter)
    atexit.register(counters.write_counts, directory)
    caller = counters.enter(os.path.basename(path))
    try:
        exec(code, vars(module))
    finally:
        counters.leave(caller)


def _restore_environment() -> str:
    """Remove what started the counting from the environment; return the directory for counts."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]

    original = os.environ.pop("INSITU_PYTHONPATH", "")
    os.environ.pop("PYTHONPATH", None)
    if original:
        os.environ["PYTHONPATH"] = original
    os.environ.pop("INSITU_COUNTED", None)
    return os.environ.pop(counters.VARIABLE)


def _find_module(name: str) -> ModuleSpec:
    """The module that -m names; for a package its __main__."""
    spec = find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_spec(f"{name}.__main__")
    if spec is None or not spec.origin:
        sys.exit(f"{sys.executable}: No module named {name}")
    return spec


def _abort_on_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print an error as Python does, and end the other ranks, which would wait for this one."""
    sys.__excepthook__(kind, error, trace)
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and mpi.COMM_WORLD.Get_size() > 1:
        sys.stderr.flush()
        mpi.COMM_WORLD.Abort(1)


main(sys.argv[1:])
