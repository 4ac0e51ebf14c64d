"""A modifier of Ramble and Benchpark that measures any experiment with `insitu run`."""

from ramble.modkit import (
    BasicModifier,
    default_mode,
    executable_modifier,
    figure_of_merit,
    mode,
    modifier_variable,
    success_criteria,
    variable_modification,
)
from ramble.util.executable import CommandExecutable


class Insitu(BasicModifier):
    """Measure an experiment, and diagnose the campaign after it.

    Experiments of one workload form a campaign. `insitu_options` names their parameters, as in
    `--param n={n}`. `insitu run` starts the ranks and replaces the command that would.
    """

    name = "insitu"

    mode("standard", description="Measure MPI programs with insitu")
    default_mode("standard")

    modifier_variable(
        "insitu_campaign",
        default="{workload_run_dir}/{application_name}.insitu",
        description="The campaign that experiments are added to",
        mode="standard",
    )
    modifier_variable(
        "insitu_options",
        default="",
        description="Options of `insitu run`",
        mode="standard",
    )
    variable_modification(
        "mpi_command",
        "insitu run -n {n_ranks} --campaign {insitu_campaign} {insitu_options} "
        "--result {experiment_run_dir}/run.json -q --",
        method="set",
        mode="standard",
    )
    executable_modifier("diagnose")

    def diagnose(self, executable_name, executable, app_inst=None):
        """Run `insitu diagnose` after each command that starts ranks."""
        if not executable.mpi:
            return [], []
        command = CommandExecutable(
            f"diagnose-{executable_name}",
            template=["insitu diagnose {insitu_campaign}"],
            redirect="{experiment_run_dir}/diagnosis.txt",
        )
        return [], [command]

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
