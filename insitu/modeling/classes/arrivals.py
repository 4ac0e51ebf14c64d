"""Counts that the order of arrivals may decide: work that is handed out to whoever asks for it.

A rank that receives from any source, or probes for messages, may give the next task to the rank
that asks first. How often a rank works depends on timing then, in every call path of the program.
Repetitions show which counts are exact. Without them, a count is believed only if its values recur.
"""

import re
from collections.abc import Sequence

import numpy as np

from insitu.entities import PARTNERS, VISITS, CallPath
from insitu.modeling.classes.run_groups import RunGroup, chunk_paths, values_by_run
from insitu.modeling.measurement import Experiment, FloatArray

PROBE = re.compile(r"P?MPI_(Im|I|M)?[Pp]robe\Z")
RECEIVE = re.compile(r"P?MPI_(Recv|Irecv|Recv_init|Sendrecv(_replace)?)\Z")
MIN_RANKS_PER_VALUE = 2  # on average, of a count that makes classes


def may_arrivals_decide(
    experiment: Experiment, paths: Sequence[CallPath], groups: Sequence[RunGroup]
) -> bool:
    """Whether a rank takes messages in the order in which they arrive, and no run was repeated.

    Receives from any source have no number of partners.
    """
    if any(len(group.runs) > 1 for group in groups if group.size > 1):
        return False
    if any(PROBE.match(path.name) for path in paths):
        return True

    receives = [path for path in paths if RECEIVE.match(path.name)]
    for chunk in chunk_paths(receives, experiment):
        visits = values_by_run(experiment, VISITS.name, chunk)
        partners = values_by_run(experiment, PARTNERS.name, chunk)
        has_partners = [PARTNERS.name in table.values for _, table in experiment.runs]
        for run_visits, run_partners, is_known in zip(visits, partners, has_partners, strict=True):
            if is_known and np.any((run_visits > 0) & np.isnan(run_partners)):
                return True
    return False


def keep_certain(
    counts: Sequence[FloatArray], pairs: Sequence[tuple[int, int]]
) -> tuple[FloatArray, ...]:
    """A count as far as it is certain: its values, or only which ranks have any.

    Args:
        counts: (n_ranks,) per run group, 0 for ranks that have none.
        pairs: groups that are compared, the larger one last.
    """
    are_certain = bool(pairs) and all(_recurs(counts[low], counts[high]) for low, high in pairs)
    return tuple(counts) if are_certain else tuple((v > 0).astype(np.float64) for v in counts)


def _recurs(smaller: FloatArray, larger: FloatArray) -> bool:
    """Whether the ranks that have a count have few values, which are the same in both runs.

    One value for all of them may differ between the runs. The first and the last rank are left
    out: a master has a value of its own, and so have the ends of a chain.
    """
    values = []
    for counts in (smaller, larger):
        between = counts[1:-1]
        executing = between[between > 0]
        distinct = np.unique(executing)
        if len(distinct) > 1 and len(distinct) * MIN_RANKS_PER_VALUE > len(executing):
            return False
        values.append(distinct)

    first, second = values
    is_nested = len(np.intersect1d(first, second)) == min(len(first), len(second))
    return is_nested or len(first) == len(second) == 1
