"""The first line of a diagnosis."""

import numpy as np
import pytest

from insitu.analysis.diagnosis.measurements import MeasuredRun, Measurements
from insitu.analysis.diagnosis.statements import LIMIT, UNCLEAR, WARNING, Statement
from insitu.analysis.diagnosis.verdict import describe_verdict
from tests.support.campaigns import heat_run


@pytest.fixture(scope="module")
def measurements() -> Measurements:
    runs = [heat_run(p) for p in (4, 8, 16, 32)]
    measured = [MeasuredRun(run.key, table, False, {}) for run, table in runs]
    return Measurements(np.array([4.0, 8.0, 16.0, 32.0]), tuple((run,) for run in measured))


@pytest.mark.parametrize(
    ("statuses", "text"),
    [
        ((), "app: no limit found up to 512 ranks"),
        ((WARNING,), "app: no certain limit found up to 512 ranks, but 1 warning"),
        (
            (UNCLEAR, WARNING, UNCLEAR),
            "app: no certain limit found up to 512 ranks, but 1 warning and 2 doubts",
        ),
    ],
)
def test_the_first_line_does_not_contradict_the_statements_below(measurements, statuses, text):
    statements = [Statement("messages", status, "it sends messages") for status in statuses]
    assert describe_verdict("app", statements, measurements, 512.0) == text


@pytest.mark.parametrize(("target", "spent"), [(256.0, "3 s"), (512.0, "at least 3 s")])
def test_limits_by_times_are_not_summed_beyond_the_scale_that_they_are_predicted_for(
    measurements, target, spent
):
    limit = Statement("compute", LIMIT, "it grows", metric="time_exclusive", unit="s", seconds=3.0)

    text = describe_verdict("app", [limit], measurements, target)

    assert text == f"app runs on {target:.0f} ranks but spends {spent} on its limits"
