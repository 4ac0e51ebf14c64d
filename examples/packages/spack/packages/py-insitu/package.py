"""Spack recipe: `spack repo add examples/packages/spack`, `spack dev-build py-insitu@main`."""

from spack.package import *


class PyInsitu(PythonPackage):
    """Scalability models of MPI programs, made while they run."""

    license("BSD-3-Clause")

    version("main")  # the source is given: spack dev-build, or `spack develop --path`

    variant("mpi4py", default=True, description="Measure Python programs that use mpi4py")
    variant("plot", default=False, description="Draw plots with matplotlib")

    depends_on("c", type="build")
    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-scikit-build-core@1.0:", type="build")
    depends_on("cmake@3.20:", type="build")
    depends_on("ninja", type="build")

    depends_on("py-numpy@1.26:", type=("build", "run"))
    depends_on("py-scipy@1.11:", type=("build", "run"))
    depends_on("py-psutil@5.9:", type=("build", "run"))
    depends_on("py-msgpack@1.0.5:", type=("build", "run"))
    depends_on("py-pyzmq@25.1:", type=("build", "run"))
    depends_on("py-click@8.1:", type=("build", "run"))
    depends_on("py-rich@13.7:", type=("build", "run"))
    depends_on("py-textual@8.0:", type=("build", "run"))
    depends_on("py-mpi4py@4.0:", type=("build", "run"), when="+mpi4py")
    depends_on("py-matplotlib@3.8:", type=("build", "run"), when="+plot")
