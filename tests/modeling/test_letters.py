"""Letters of classes: the same ranks have the same letter in all call paths and metrics."""

import numpy as np

from insitu.entities import BYTES_SENT, MESSAGES_SENT, TIME, VISITS, CallPath, RunKey
from insitu.modeling.base import Clusters
from insitu.modeling.classes.letters import share_letters
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import remodel

SIZES = (8, 16, 32, 64)
SOLVE, EXCHANGE = CallPath(("main", "solve")), CallPath(("main", "solve", "exchange"))
PATHS = (SOLVE, EXCHANGE)
METRICS = (TIME, VISITS, BYTES_SENT, MESSAGES_SENT)


def random_set(rng, size, share):
    members = np.zeros(size, dtype=int)
    members[rng.choice(size, size=int(share * size), replace=False)] = 1
    return members


def program(seed):
    """Two independent sets of ranks: a few send more messages in each, others send larger ones."""
    rng = np.random.default_rng(seed)
    runs = []
    for size in SIZES:
        messages, sizes = random_set(rng, size, 0.25), random_set(rng, size, 0.5)
        values = {
            "visits": np.array([1 + sizes, 2 + messages]),
            "messages_sent": np.array([np.zeros(size), 2 + messages]),
            "bytes_sent": np.array([np.zeros(size), (2 + messages) * (100 + 50 * sizes)]),
            "time": np.array([2.0 + sizes, 1.0 + messages]) * rng.normal(1, 0.01, (2, size)),
        }
        table = {name: matrix.astype(float) for name, matrix in values.items()}
        runs.append((RunKey.of({"p": size}), RunTable(PATHS, METRICS, table)))
    return Experiment(("p",), tuple(runs))


def ranks_by_letter(models):
    """The distinct sets of ranks that each name has, over all runs of a series."""
    sets = {}
    for entry in models.clusters:
        for label, name in enumerate(entry.names):
            if name != "all":
                ranks = tuple(np.flatnonzero(entry.labels == label).tolist())
                sets.setdefault((name, entry.run.size), set()).add(ranks)
    return sets


def test_a_letter_means_the_same_ranks_in_all_metrics_and_call_paths():
    for seed in range(5):
        sets = ranks_by_letter(remodel(program(seed)))

        assert len({name for name, _ in sets}) >= 4
        assert all(len(members) == 1 for members in sets.values()), seed


def test_metrics_that_agree_have_one_set_of_classes():
    models = remodel(program(3))

    names = {}
    for entry in models.clusters:
        if entry.callpath == EXCHANGE:
            names.setdefault(entry.metric, set()).update(entry.names)
    assert names["visits"] == names["messages_sent"]
    assert not names["visits"] & names["bytes_sent"]  # four classes of other ranks


def test_models_have_the_letters_of_their_classes():
    models = remodel(program(4))

    by_series = {}
    for entry in models.clusters:
        series = (entry.callpath, entry.metric)
        by_series.setdefault(series, {"all", "maximum"}).update(entry.names)
    for series in models.every_model():
        if "(whole run)" not in str(series.key.callpath):
            assert series.key.behaviour in by_series[series.key.callpath, series.key.metric]


def entry(path, metric, size, labels, names):
    return Clusters(path, metric, RunKey.of({"p": size}), np.array(labels), names)


def test_a_call_path_that_some_runs_lack_is_compared_in_the_others():
    clusters = [
        entry(SOLVE, "time", 2, [0, 1], ("A", "B")),
        entry(SOLVE, "time", 4, [0, 1, 0, 1], ("A", "B")),
        entry(EXCHANGE, "time", 4, [1, 0, 1, 0], ("A", "B")),
    ]

    renamed = share_letters(clusters)

    assert renamed["time", SOLVE] == {"A": "A", "B": "B"}
    assert renamed["time", EXCHANGE] == {"A": "B", "B": "A"}


def test_letters_leave_out_names_that_the_user_gave():
    clusters = [
        entry(SOLVE, "time", 4, [0, 0, 1, 1], ("A", "IO")),
        entry(EXCHANGE, "time", 4, [0, 1, 1, 1], ("A", "B")),
    ]

    renamed = share_letters(clusters, {"A", "IO"})

    assert renamed == {("time", EXCHANGE): {"B": "B"}}


def test_clusters_that_match_no_class_keep_their_names():
    clusters = [
        entry(SOLVE, "time", 4, [0, 0, 1, 1], ("unmatched 1", "unmatched 2")),
        entry(SOLVE, "time", 8, [0, 0, 0, 0, 0, 1, 1, 0], ("A", "B")),
        entry(EXCHANGE, "time", 8, [1, 1, 1, 1, 1, 0, 0, 1], ("A", "B")),
    ]

    renamed = share_letters(clusters)

    assert renamed["time", SOLVE] == {"A": "A", "B": "B"}
    assert renamed["time", EXCHANGE] == {"A": "B", "B": "A"}


def test_a_metric_without_values_of_some_ranks_takes_the_names_of_another():
    clusters = [
        entry(SOLVE, "visits", 4, [0, 1, 1, 0], ("corner", "A")),
        entry(SOLVE, "visits", 8, [0, 1, 1, 1, 1, 1, 2, 0], ("corner", "A", "B")),
        entry(SOLVE, "delay_cost", 4, [-1, 0, 0, 1], ("A", "B")),
        entry(SOLVE, "delay_cost", 8, [0, -1, 1, -1, 1, 1, 2, 0], ("B", "A", "C")),
    ]

    renamed = share_letters(clusters)

    letters = renamed["visits", SOLVE]
    expected = {"A": letters["A"], "B": "corner", "C": letters["B"]}
    assert renamed["delay_cost", SOLVE] == expected


def test_ranks_that_are_divided_otherwise_have_letters_of_their_own():
    clusters = [
        entry(SOLVE, "visits", 8, [0, 0, 0, 0, 1, 1, 1, 1], ("A", "B")),
        entry(SOLVE, "delay_cost", 8, [-1, 0, 1, 0, 1, 1, 1, 1], ("A", "B")),
    ]

    renamed = share_letters(clusters)

    assert not set(renamed["delay_cost", SOLVE].values()) & set(renamed["visits", SOLVE].values())
