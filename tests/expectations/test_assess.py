"""A campaign is judged: statuses, probabilities, texts and advice of each kind of expectation."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from insitu.entities import BYTES_SENT, TIME, VISITS, CallPath, Finding, RunKey
from insitu.errors import UsageError
from insitu.expectations.assess import assess, find_judgeable
from insitu.expectations.ceilings import parse_ceiling
from insitu.expectations.entries import Entry, entry_of
from insitu.expectations.guidelines import parse_guideline
from insitu.expectations.limits import expect
from insitu.expectations.result import Status
from insitu.expectations.uniformity import parse_class_rule
from insitu.modeling.doubt import ONE_VALUE
from insitu.modeling.measurement import Experiment, RunTable
from insitu.modeling.pipeline import RefitOptions, remodel

SCALES = (4, 8, 16, 32, 64)
LAWS = {  # seconds and bytes over p
    "main->grow": (lambda p: 0.01 * p, lambda p: 8.0 * p),
    "main->steady": (lambda p: 2.0, lambda p: 64.0),
    "main->wild": (lambda p: 1.0, lambda p: 16.0),
    "main->edges": (lambda p: 3.0, lambda p: 100.0),
}
EDGE_FACTOR = 1.2  # the first and the last rank take so many times what others take in `edges`


def experiment(*, is_crowded: bool = False) -> Experiment:
    paths = tuple(CallPath.parse(text) for text in LAWS)
    runs = []
    for p in SCALES:
        for repetition in range(2):
            rng = np.random.default_rng([p, repetition])
            seconds = np.array([np.full(p, time(p)) for time, _ in LAWS.values()])
            seconds[3, [0, -1]] *= EDGE_FACTOR
            seconds *= rng.normal(1, 0.005, seconds.shape)
            seconds[2] *= rng.uniform(0.2, 5.0)  # one factor for all ranks
            sent = np.array([np.full(p, bytes_of(p)) for _, bytes_of in LAWS.values()])
            visits = np.ones((len(LAWS), p))
            visits[3, [0, -1]] = 2.0
            values = {"time": seconds, "bytes_sent": sent, "visits": visits}
            key = RunKey.of({"p": p}, repetition)
            runs.append((key, RunTable(paths, (TIME, BYTES_SENT, VISITS), values)))
    crowded = {key: 2 for key, _ in runs} if is_crowded else {}
    return Experiment(("p",), tuple(runs), crowded=crowded)


@pytest.fixture(scope="module")
def measured():
    return experiment()


@pytest.fixture(scope="module")
def models(measured):
    return remodel(measured)


@pytest.fixture
def judge(measured, models):
    def judge_entries(*entries: Entry):
        return assess(entries, measured, models)

    return judge_entries


def growth(path: str, text: str, metric: str = "time", **more) -> Entry:
    return replace(entry_of(path, metric, expect(text)), **more)


def limit(path: str, text: str) -> Entry:
    return entry_of(path, "", parse_ceiling(text))


def rule(text: str, **more) -> Entry:
    return replace(entry_of("", "time", parse_guideline(text)), **more)


def test_growth_is_met_or_violated_with_its_probability(judge):
    met, violated = judge(growth("grow", "O(p)"), growth("grow", "O(1)"))

    assert (met.status, met.kind, met.subject) == (Status.MET, "growth", "main->grow")
    assert (met.found, met.expected, met.metric) == ("O(p)", "O(p)", "time")
    assert met.probability > 0.95
    assert met.adjusted_r2 > 0.99
    assert violated.status is Status.VIOLATED
    assert "grows as O(p), expected O(1): with 100 % probability outside" in violated.text
    assert violated.divergence == "O(p)"


def test_limits_that_are_equal_are_named_once(judge):
    (violated,) = judge(growth("grow", "O(1)"))

    assert violated.text.endswith("outside O(1)")


def test_an_upper_bound_is_named_alone_where_it_is_violated(judge):
    (bound,) = judge(growth("grow", "<= O(log p)"))

    assert bound.status is Status.VIOLATED
    assert " to " not in bound.text.split("outside")[1]


def test_results_follow_the_order_of_the_entries(judge):
    entries = [
        limit("steady", "time at p=1024 < 9 s"),
        growth("steady", "O(1)"),
        rule("steady <= grow"),
        growth("grow", "O(p)"),
    ]

    assert [result.entry for result in judge(*entries)] == entries


def test_noise_leaves_growth_open_and_asks_for_repetitions(judge):
    (wild,) = judge(growth("wild", "O(1)"))

    assert wild.status is Status.UNSETTLED
    assert wild.advice


def test_a_limit_is_met_violated_or_open_at_its_coordinate(judge):
    met, violated = judge(
        limit("grow", "time at p=1024 < 20 s"), limit("grow", "time at p=1024 < 5 s")
    )

    assert met.status is Status.MET
    assert met.probability > 0.95
    assert violated.status is Status.VIOLATED
    assert violated.found.startswith("10.")
    assert violated.text.startswith(violated.found + " (")
    assert "exceeds 5 s from p = 5" in violated.text
    assert " ranks" not in violated.text


def test_a_limit_of_a_node_counts_its_ranks(judge):
    (node,) = judge(limit("grow", "bytes_sent at p=64 < 2 kB per node with 8 ranks"))

    assert node.status is Status.VIOLATED  # 512 B on each of 8 ranks
    assert "exceeds 2 kB from p = 32 on with 8 ranks" in node.text


def test_a_limit_without_a_coordinate_is_of_what_was_measured(judge):
    (largest,) = judge(limit("grow", "time < 9 s"))

    assert largest.status is Status.MET
    assert largest.text.startswith("at most 64")
    assert math.isnan(largest.probability)


def test_a_limit_near_the_prediction_is_undecided_and_names_the_run_that_decides(judge):
    (close,) = judge(limit("grow", "time at p=1024 < 10.24 s"))

    assert close.status is Status.UNSETTLED
    assert "undecided, above the limit with a probability of" in close.text
    assert close.settling_point is not None
    assert close.advice == str(close.settling_point)


def test_a_limit_without_evidence_is_unclear(measured, models):
    doubtful = Finding(ONE_VALUE, "the growth rests on the value at p=64 alone", "p=64")
    series = [
        replace(series, model=replace(series.model, findings=(doubtful,)))
        for series in models.models
    ]
    without_evidence = replace(models, models=series)

    entries = [limit("grow", "time at p=1024 < 5 s"), limit("grow", "time at p=64 < 5 s")]
    beyond, within = assess(entries, measured, without_evidence)

    assert beyond.status is Status.UNSETTLED
    assert (beyond.found, beyond.text) == ("unclear", "unclear: one value alone shows growth")
    assert math.isnan(beyond.probability)
    assert within.status is Status.MET


def test_a_limit_within_bounds_that_are_no_prediction_is_unclear(judge):
    beyond = "time at p=1000000000 <"
    within, outside = judge(limit("steady", f"{beyond} 20 s"), limit("steady", f"{beyond} 1e15 s"))

    assert (within.status, within.found) == (Status.UNSETTLED, "unclear")
    assert re.match(r"unclear beyond p=\d+: .* to .*", within.text)
    assert math.isnan(within.probability)
    assert outside.status is Status.MET


def test_a_limit_in_another_unit_is_refused(judge):
    with pytest.raises(UsageError, match="time is in s, not B"):
        judge(entry_of("grow", "time", parse_ceiling("< 3 B")))


def test_a_rule_compares_functions_now_and_later(judge):
    now, later, kept = judge(
        rule("steady <= grow"), rule("grow <= steady"), rule("grow <= steady", at=(("p", 128.0),))
    )

    assert now.status is Status.VIOLATED
    assert now.text == "violated at p = 64 already, with a probability of 100 %"
    assert now.found == "violated now"
    assert later.status is Status.VIOLATED
    assert later.text.startswith("holds at the measured points, violated at p = 4096 with a prob")
    assert "the models cross at p = 2" in later.text
    assert later.found == ""
    assert kept.status is Status.MET
    assert kept.text.startswith("holds at p = 128, violated with a probability of <0.1 %")


def test_classes_are_judged_by_number_and_distance(judge):
    alike, split, near, far = judge(
        entry_of("steady", "time", parse_class_rule("one class only")),
        entry_of("edges", "time", parse_class_rule("one class only")),
        entry_of("edges", "time", parse_class_rule("end within 25 % of inner")),
        entry_of("edges", "time", parse_class_rule("end within 15 % of inner")),
    )

    assert (alike.status, alike.kind) == (Status.MET, "classes")
    assert split.status is Status.VIOLATED
    assert split.text.startswith("2 classes at p=")
    assert near.status is Status.MET
    assert near.text.startswith("end takes 1.2")
    assert far.status is Status.VIOLATED


def test_a_class_that_is_missing_is_named_with_those_that_exist(judge):
    with pytest.raises(UsageError, match=r"'corner' has a model; there are .*inner"):
        judge(entry_of("edges", "time", parse_class_rule("corner within 5 % of inner")))


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (growth("slove", "O(1)"), "no call path 'slove' has a model; there are edges, grow"),
        (growth("grow", "O(1)", "energy"), "no metric of grow named 'energy' has a model"),
        (growth("grow", "O(1)", behaviour="corner"), "no class 'corner' has a model"),
        (growth("main->edgse", "O(1)"), "did you mean edges\\? There are edges, grow"),
        (growth("slove", "O(1)", line=7), r"\[\[expect\]\] in line 7: no call path"),
    ],
)
def test_what_has_no_model_is_refused_with_what_has(judge, entry, reason):
    with pytest.raises(UsageError, match=reason):
        judge(entry)


@pytest.mark.parametrize("name", ["rank 0 only", "rank 0", "all"])
def test_a_class_has_the_name_that_models_print(measured, models, name):
    """The only class of a call path that only rank 0 executes."""
    few = []
    for series in models.models:
        few.append(replace(series, model=series.model.mark_few_ranks("rank 0 only")))
    marked = replace(models, models=few)

    (result,) = assess([growth("grow", "O(p)", behaviour=name)], measured, marked)

    assert result.status is Status.MET


def test_entries_that_cannot_be_judged_are_set_apart_with_reasons(measured, models):
    entries = [growth("grow", "O(p)"), growth("slove", "O(1)"), rule("grow <= slove")]

    judgeable, reasons = find_judgeable(entries, measured, models)

    assert judgeable == entries[:1]
    assert len(reasons) == 2
    assert all("slove" in reason for reason in reasons)


def test_a_growth_expectation_also_serves_limits_of_its_series(judge):
    alone = judge(limit("wild", "time at p=256 < 100 s"))
    together = judge(growth("wild", "O(1)"), limit("wild", "time at p=256 < 100 s"))

    # Under the expectation of a constant, growth is less probable, and the interval is narrower.
    assert together[1].text != alone[0].text


def test_a_violated_litmus_test_leaves_failures_of_its_metric_unjudged(judge):
    litmus = growth("grow", "O(1)", is_litmus=True)
    other, bytes_sent, met, open_one = (
        growth("grow", "O(log p)"),
        growth("grow", "O(1)", "bytes_sent"),
        growth("steady", "O(1)"),
        growth("wild", "O(1)"),
    )
    (alone,) = judge(open_one)

    results = judge(litmus, other, bytes_sent, met, open_one)

    statuses = [result.status for result in results]
    judged = [Status.VIOLATED, Status.UNJUDGED, Status.VIOLATED, Status.MET, Status.UNJUDGED]
    assert statuses == judged
    assert alone.status is Status.UNSETTLED and alone.settling_point is not None
    assert results[4].settling_point is None
    assert "the litmus test main->grow is violated" in results[1].text
    assert math.isnan(results[1].probability)
    assert results[1].settling_point is None


def test_an_undecided_litmus_test_leaves_violations_undecided(judge):
    litmus = growth("wild", "O(1)", is_litmus=True, line=12)

    open_test, undecided, met = judge(litmus, growth("grow", "O(1)"), growth("steady", "O(1)"))

    assert open_test.status is Status.UNSETTLED
    assert undecided.status is Status.UNSETTLED
    assert "the litmus test main->wild (line 12)" in undecided.text
    assert undecided.advice == open_test.advice
    assert met.status is Status.MET


def test_times_of_ranks_that_shared_cores_are_not_judged():
    crowded = experiment(is_crowded=True)
    models = remodel(crowded)
    entries = [
        growth("grow", "O(1)"),
        limit("grow", "time at p=1024 < 5 s"),
        rule("steady <= grow"),
        growth("grow", "O(p)", "bytes_sent"),
    ]

    results = assess(entries, crowded, models)

    assert [result.status for result in results] == [Status.UNJUDGED] * 3 + [Status.MET]
    assert [result.kind for result in results] == ["growth", "limit", "rule", "growth"]
    assert all("on 2 cores" in result.text for result in results[:3])
    assert results[2].subject == "steady <= grow"
    assert "a core of its own for each rank" in results[0].advice


def test_the_calls_of_a_function_that_have_the_metric_are_suggested(measured, models):
    callers = []
    for series in models.models:
        if series.key.metric == "bytes_sent":
            call = CallPath((*series.key.callpath.frames, "MPI_Send"))
            callers.append(replace(series, key=replace(series.key, callpath=call)))
        else:
            callers.append(series)
    with_calls = replace(models, models=callers)

    _, (reason,) = find_judgeable([growth("grow", "O(1)", "bytes_sent")], measured, with_calls)

    assert reason.endswith("there are time, visits; its calls have it: grow->MPI_Send")


def test_a_limit_where_parameters_part_that_changed_together_is_undecided():
    paths = (CallPath(("main",)), CallPath(("main", "gather")))
    runs = []
    for p in SCALES:
        for repetition in range(2):
            noise = np.random.default_rng([p, repetition]).normal(1, 0.005)
            values = {"time": np.full((2, p), 0.1 * p * noise)}
            runs.append(
                (RunKey.of({"p": p, "n": 10 * p}, repetition), RunTable(paths, (TIME,), values))
            )
    together = Experiment(("p", "n"), tuple(runs))
    models = remodel(together)
    entries = [
        Entry("gather", "time", parse_ceiling(text))
        for text in ("time at p=64, n=40 < 1 s", "time at p=128, n=1280 < 99 s")
    ]

    apart, along = assess(entries, together, models)
    dependencies = {path: [["p"]] for path in paths}
    told, _ = assess(entries, together, remodel(together, RefitOptions(dependencies=dependencies)))

    assert apart.status is Status.UNSETTLED
    assert "unclear: p and n changed together" in apart.text
    assert along.status is Status.MET
    assert re.search("exceeds 99 s from p = 9[89][0-9] on", along.text)  # n follows on
    assert "changed together" not in told.text


def test_a_rule_where_parameters_part_that_changed_together_is_undecided():
    paths = (CallPath(("main", "gather")), CallPath(("main", "reduce")))
    runs = []
    for p in SCALES:
        for repetition in range(2):
            noise = np.random.default_rng([p, repetition]).normal(1, 0.005)
            seconds = np.array([np.full(p, 0.1 * p * noise), np.full(p, 2.0 * p * noise)])
            key = RunKey.of({"p": p, "n": 10 * p}, repetition)
            runs.append((key, RunTable(paths, (TIME,), {"time": seconds})))
    together = Experiment(("p", "n"), tuple(runs))
    models = remodel(together)
    rule = parse_guideline("gather <= reduce")

    entries = [Entry("", "time", rule), Entry("", "time", rule, at=(("p", 64.0), ("n", 40.0)))]

    along, apart = assess(entries, together, models)

    assert along.status is Status.MET
    assert apart.status is Status.UNSETTLED
    assert "gather: unclear: p and n changed together" in apart.text
