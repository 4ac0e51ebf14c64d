"""The heat equation of ../../../../stencil2d.py as Ramble sees it, with what `insitu run` says."""

from ramble.appkit import (
    ExecutableApplication,
    executable,
    figure_of_merit,
    success_criteria,
    workload,
    workload_variable,
)


class Heat(ExecutableApplication):
    """A heat equation; `mpi_command` puts `insitu run` before it."""

    name = "heat"

    executable("solve", "{program} --cells {n} --steps 20", use_mpi=True)
    workload("plate", executable="solve")
    workload_variable("n", default="64", description="Cells along a side", workloads=["plate"])

    figure_of_merit(
        "run time",
        log_file="{experiment_run_dir}/run.json",
        fom_regex=r'.*"seconds": (?P<seconds>[0-9.e+-]+)',
        group_name="seconds",
        units="s",
    )
    success_criteria(
        "all ranks arrived",
        mode="string",
        match=r'.*"state": "sealed"',
        file="{experiment_run_dir}/run.json",
    )
