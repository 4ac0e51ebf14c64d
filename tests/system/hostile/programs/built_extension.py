"""An extension that is compiled here, by cython or pybind11, and calls back into Python."""

import os, subprocess, sys, sysconfig, tempfile
from mpi4py import MPI

how, folder = sys.argv[1], sys.argv[2]


def back(n):
    return n + 1


if MPI.COMM_WORLD.rank == 0 and not os.path.exists(f"{folder}/ext.so"):
    path = sysconfig.get_path("include")
    include = ["-I", path, "-idirafter", os.path.dirname(path)]  # where Debian keeps pyconfig.h
    if how == "cython":
        open(f"{folder}/ext.pyx", "w").write(
            "# cython: profile=True\ndef call(f, int n):\n    cdef int i, s = 0\n    for i in range(n): s += f(i)\n    return s\n"
        )
        subprocess.run(
            [sys.executable, "-m", "cython", "-3", "ext.pyx", "-o", "ext.c"], cwd=folder, check=True
        )
        source = ["ext.c"]
    else:
        import pybind11

        include += ["-I", pybind11.get_include()]
        open(f"{folder}/ext.cc", "w").write(
            '#include <pybind11/pybind11.h>\nnamespace py = pybind11;\nstatic int call(py::function f, int n) { int s = 0; for (int i = 0; i < n; i++) s += f(i).cast<int>(); return s; }\nPYBIND11_MODULE(ext, m) { m.def("call", &call); }\n'
        )
        source = ["-std=c++17", "ext.cc"]
    subprocess.run(
        [
            "g++" if how != "cython" else "gcc",
            "-w",
            "-O1",
            "-shared",
            "-fPIC",
            *include,
            *source,
            "-o",
            "ext.tmp",
        ],
        cwd=folder,
        check=True,
    )
    os.rename(f"{folder}/ext.tmp", f"{folder}/ext.so")
MPI.COMM_WORLD.Barrier()
sys.path.insert(0, folder)
import ext

print(ext.call(back, 100), flush=True)
try:
    ext.call(lambda n: 1 // (n - 3), 10)
except ZeroDivisionError as error:
    print(error, flush=True)
