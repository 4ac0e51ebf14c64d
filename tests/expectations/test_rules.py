"""Limits, rules between functions and rules about classes, read and judged."""

import numpy as np
import pytest

import insitu
from insitu.entities import CallPath, RunKey
from insitu.errors import UsageError
from insitu.expectations.ceilings import height, parse_ceiling
from insitu.expectations.guidelines import comply, parse_guideline
from insitu.expectations.prediction import Mixture, first_above
from insitu.expectations.uniformity import parse_class_rule, uniformity
from insitu.modeling.base import Clusters
from insitu.units import parse_quantity

P = np.array([4.0, 8, 16, 32, 64])


def model(values: np.ndarray, seed: int = 1, noise: float = 0.005) -> insitu.Model:
    factor = np.random.default_rng(seed).normal(1, noise, values.shape)
    (found,) = insitu.fit(P, (values * factor)[None])
    return found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 s", (2.0, "s")),
        ("3 GB", (3e9, "B")),
        ("24 GiB", (24 * 2.0**30, "B")),
        ("15us", (15e-6, "s")),
        ("5 min", (300.0, "s")),
        ("1_000", (1000.0, "1")),
        ("1.5e6", (1.5e6, "1")),
    ],
)
def test_quantities_are_read_into_base_units(text, value):
    assert parse_quantity(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "s", "2 apples", "-1 s", "nan"])
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(ValueError, match="no quantity"):
        parse_quantity(text)


def test_a_limit_says_metric_place_and_value():
    found = parse_ceiling("time at p=65536, n=256 < 2 s")

    assert (found.metric, found.at, found.most) == ("time", (("p", 65536.0), ("n", 256.0)), 2.0)


@pytest.mark.parametrize(
    "text", ["memory per node with 8 ranks < 24 GB", "< 24 GB per node with 8 ranks"]
)
def test_a_limit_may_be_that_of_a_node(text):
    found = parse_ceiling(text)

    assert (found.ranks, found.most, found.unit) == (8, 24e9, "B")


@pytest.mark.parametrize("text", ["time", "time > 2 s", "time at p < 2 s", "< 3 apples"])
def test_what_is_no_limit_is_refused(text):
    with pytest.raises(UsageError, match=f"limit '{text}'"):
        parse_ceiling(text)


def test_memory_that_grows_says_where_a_node_is_full():
    """As [VAL §4.2]: 0.56 MB per connection fills 24 GB with 8 ranks near p = 8192."""
    found = height(parse_ceiling("< 24 GB per node with 8 ranks"), model(16e6 + 0.36e6 * P))

    assert found.probability == 0.0
    assert found.breaks == pytest.approx(8192, rel=0.05)


def test_a_prediction_exceeds_its_limit_or_does_not():
    growing = model(0.1 + 0.01 * P)

    assert height(parse_ceiling("at p=1024 < 2 s"), growing).probability > 0.9
    assert height(parse_ceiling("at p=1024 < 200 s"), growing).probability < 0.1


def test_a_place_that_the_models_do_not_know_is_refused():
    with pytest.raises(UsageError, match="the models are over p"):
        height(parse_ceiling("at n=4 < 2 s"), model(P))


def test_a_rule_is_a_comparison_of_sums_of_products():
    rule = parse_guideline("MPI_Allgather <= 2 * MPI_Gather + MPI_Bcast * steps")

    assert rule.left.products == ((1.0, ("MPI_Allgather",)),)
    assert rule.right.products == ((2.0, ("MPI_Gather",)), (1.0, ("MPI_Bcast", "steps")))


@pytest.mark.parametrize("text", ["a", "a <= ", "a <= b <= c", "a b <= c", "a <= b + + c"])
def test_what_is_no_rule_is_refused(text):
    with pytest.raises(UsageError, match="rule"):
        parse_guideline(text)


@pytest.mark.parametrize(
    ("allreduce", "now", "later"),
    [
        (2 + 0.1 * np.log2(P), False, False),
        (9 + 0.1 * np.log2(P), True, True),
        (1 + 0.01 * P, False, True),
    ],
)
def test_a_rule_is_violated_now_later_or_never(allreduce, now, later):
    """[VAL §4.2]: the guideline that holds where it was measured and not at larger scale."""
    known = {
        "MPI_Allreduce": [model(allreduce, 1, 5e-4)],
        "MPI_Reduce": [model(1 + 0.2 * np.log2(P), 2, 5e-4)],
        "MPI_Bcast": [model(1 + 0.1 * np.log2(P), 3, 5e-4)],
    }
    rule = parse_guideline("MPI_Allreduce <= MPI_Reduce + MPI_Bcast")

    found = comply(rule, known.__getitem__, largest=[64.0], at=[1024.0])

    assert (found.now > 0.9, found.later > 0.9) == (now, later)
    assert min(found.now, 1 - found.now, found.later, 1 - found.later) < 0.1


def test_call_paths_of_one_function_are_added():
    known = {"f": [model(2 * P), model(2 * P)], "g": [model(3 * P)]}

    found = comply(parse_guideline("f <= g"), known.__getitem__, largest=[64.0], at=None)

    assert found.now > 0.99


def test_mixtures_add_and_multiply_as_their_means():
    a, b = (Mixture(np.array([0.5, 0.5]), np.array(c), np.full(2, 0.1)) for c in ([1, 3], [4, 6]))

    assert (a + b).mean == pytest.approx(7)
    assert (a * b).mean == pytest.approx(10)


def test_the_first_place_above_is_found_to_rounding():
    assert first_above(4.0, lambda x: x - 1000.5) == pytest.approx(1000.5)
    assert first_above(4.0, lambda x: -x) is None


@pytest.mark.parametrize("text", ["two classes", "a near b", ""])
def test_what_is_no_rule_about_classes_is_refused(text):
    with pytest.raises(UsageError, match="classes"):
        parse_class_rule(text)


@pytest.mark.parametrize(("labels", "is_met"), [([0, 0, 0], True), ([0, 1, 1], False)])
def test_one_class_only_means_that_all_ranks_behave_alike(labels, is_met):
    names = ("all",) if max(labels) == 0 else ("end", "inner")
    clusters = [Clusters(CallPath(("f",)), "time", RunKey.of({"p": 3}), np.array(labels), names)]

    assert uniformity(parse_class_rule("one class only"), clusters, []).is_met is is_met
