"""Iteration times in a run's configuration."""

import pytest

from insitu.campaign.iterations import iteration_times
from insitu.entities import Configuration, RunKey, RunRecord, RunState


@pytest.mark.parametrize(
    ("cost", "times"),
    [
        ("", []),
        ('a {"hook_share": 0.1}', []),
        ('a {"hook_share": 0.1}, b {"iterations": {"rank": 4, "times_s": [1, 2.5]}}', [1.0, 2.5]),
        ('a {"iterations": {"times_s": "none"}}', []),
        ('a {"iterations": ', []),
        ('{"iterations": {"rank": 0, "times_s": [2]}}', [2.0]),
    ],
)
def test_the_first_node_with_iterations_is_used(cost, times):
    configuration = Configuration.of({"cost": cost})
    run = RunRecord("r", RunKey(()), RunState.COMPLETE, configuration=configuration)
    assert iteration_times(run) == times
