"""The heat equation of ../../../../stencil2d.py as an application of Ramble."""

from ramble.appkit import (
    ExecutableApplication,
    executable,
    figure_of_merit,
    workload,
    workload_variable,
)


class Heat(ExecutableApplication):
    """A heat equation on a square."""

    name = "heat"

    executable("solve", "{program} --cells {n} --steps 20", use_mpi=True)
    workload("plate", executable="solve")
    workload_variable("n", default="64", description="Cells along a side", workloads=["plate"])
    figure_of_merit(
        "residual",
        fom_regex=r".*, residual (?P<residual>[0-9.e+-]+)",
        group_name="residual",
        units="",
    )
