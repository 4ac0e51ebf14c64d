"""ReFrame: `reframe -c examples/harness/heat_reframe.py -r`.

ReFrame decides what is run and where; `insitu run` stands before the program and measures it. All
runs go into one campaign, `heat.insitu` below `INSITU_CAMPAIGNS` or the directory where ReFrame was
started, and a last test asks `insitu check` whether it grows as expected.
"""

import os

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import (
    parameter,
    performance_function,
    run_after,
    run_before,
    sanity_function,
    variable,
)

HERE = os.path.dirname(os.path.abspath(__file__))
CAMPAIGN = os.path.join(os.environ.get("INSITU_CAMPAIGNS", os.getcwd()), "heat.insitu")
EXPECTATIONS = """
[[expect]]
callpath = "exchange"
metric = "visits"
growth = "O(1)"
"""


@rfm.simple_test
class Heat(rfm.RunOnlyRegressionTest):
    """A heat equation, measured; its time on the slowest rank is what ReFrame keeps."""

    ranks = parameter([1, 2, 4])
    cells = variable(int, value=64)
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    sourcesdir = None
    executable = "insitu"

    @run_before("run")
    def put_before_the_program(self):
        """Name the campaign and the parameters of the run; here insitu starts the ranks itself."""
        self.executable_opts = [
            *("run", "-n", str(self.ranks), "--campaign", CAMPAIGN, "--param", f"n={self.cells}"),
            *("--result", "run.json", "-q", "--", os.path.join(HERE, "..", "stencil2d.py")),
            *("--cells", str(self.cells), "--steps", "20"),
        ]

    @sanity_function
    def is_sealed(self):
        """All ranks arrived and the program ended well."""
        return sn.all(
            [
                sn.assert_found(r'"state": "sealed"', "run.json"),
                sn.assert_found(r'"exit_code": 0', "run.json"),
            ]
        )

    @performance_function("s")
    def seconds(self):
        """How long the run took."""
        return sn.extractsingle(r'"seconds": ([0-9.e+-]+)', "run.json", 1, float)


@rfm.simple_test
class HeatScales(rfm.RunOnlyRegressionTest):
    """Whether the campaign grows as expected, once all runs are made."""

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    sourcesdir = None
    executable = "insitu"
    executable_opts = ["check", CAMPAIGN, "expectations.toml", "--json"]
    prerun_cmds = [f"insitu diagnose {CAMPAIGN} > diagnosis.txt"]
    keep_files = ["diagnosis.txt"]

    @run_after("init")
    def come_last(self):
        """After every run."""
        for number in range(Heat.num_variants):
            self.depends_on(Heat.variant_name(number))

    @run_before("run")
    def say_what_is_expected(self):
        """Write the expectations where `insitu check` runs."""
        with open(os.path.join(self.stagedir, "expectations.toml"), "w", encoding="utf-8") as file:
            file.write(EXPECTATIONS)

    @sanity_function
    def is_as_expected(self):
        """No expectation is violated: exit code 0."""
        return sn.assert_eq(self.job.exitcode, 0)
