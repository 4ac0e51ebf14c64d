"""Long and odd names, a big environment, and modules made at run time."""

import os, sys, types
from mpi4py import MPI

print(
    len(os.environ.get("BIG0", "")),
    sum(len(v) for v in os.environ.values()) > 900_000 if "BIG0" in os.environ else None,
)
names = ["x" * 5000, "é" * 700, "名前", "a\nb", "", "\udc80", "a\0b", "->", "<lambda>"]
for name in names:

    def function():
        return 1

    function.__name__ = function.__qualname__ = name or "empty"
    code = function.__code__.replace(co_name=name)
    if sys.version_info >= (3, 11):
        code = code.replace(co_qualname=name)
    function.__code__ = code
    module = types.ModuleType("m" * 2000)
    assert types.FunctionType(code, {"__name__": name + "\udcff"})() == 1
    assert function() == 1
print(len(names), flush=True)
MPI.COMM_WORLD.Barrier()
