"""Looks at everything a program can see of its interpreter."""

import builtins, gc, inspect, os, pickle, sys, threading, traceback, types
from mpi4py import MPI

print(
    sys.path[0] == os.path.dirname(os.path.abspath(__file__)),
    [p for p in sys.path if "collectors" in p],
)
print(
    sorted(k for k in os.environ if k.startswith("INSITU_") and k != "INSITU_TABLES"),
    os.environ.get("LD_PRELOAD"),
)
print(
    sys.gettrace(),
    sys.getprofile(),
    threading.gettrace() if sys.version_info >= (3, 10) else None,
    threading.active_count(),
)
print([k for k in sys.modules if "insitu" in k and "editable" not in k], "threading" in sys.modules)
print(sys.getrecursionlimit(), sys.getswitchinterval(), sys.flags, gc.isenabled(), gc.callbacks)
print(
    sys.excepthook is sys.__excepthook__,
    sys.unraisablehook is sys.__unraisablehook__,
    builtins.__import__.__module__,
)
print(sys.orig_argv[1:] == sys.argv, sys.warnoptions, sys._xoptions)


def outer():
    return [frame.function for frame in inspect.stack()], sys._getframe().f_back.f_code.co_name


print(outer(), outer.__code__.co_flags, types.FunctionType(outer.__code__, {}).__name__)
try:
    {}["missing"]
except KeyError:
    print(traceback.format_exc().count("\n"))
try:
    import no_such_module
except ImportError as error:
    print(error, len(traceback.extract_tb(error.__traceback__)))
print(pickle.loads(pickle.dumps(outer)) is outer, inspect.getsource(outer).count("\n"), flush=True)


def deep(n):
    return deep(n + 1)


try:
    deep(0)
except RecursionError as error:
    print(error, flush=True)
MPI.COMM_WORLD.Barrier()
