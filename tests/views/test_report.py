"""What a report says, and that names of programs cannot change it."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from insitu import fit
from insitu.analysis.summary import ExpectationLine, Summary, summarise
from insitu.campaign.load import load_experiment
from insitu.design.factorial import Point
from insitu.design.proposals import Proposal, Proposals
from insitu.entities import HEAP_GROWTH, TIME, TIME_EXCLUSIVE, CallPath, Finding
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.modeling.horizon import unclear_at
from insitu.modeling.measurement import SeriesKey
from insitu.modeling.pipeline import remodel
from insitu.views.report.chart import describe_chart, series_chart
from insitu.views.report.html import OPEN_CHARTS, html
from insitu.views.report.markdown import markdown
from insitu.views.report.sentences import headlines, trust_reasons
from insitu.workflows.import_ import import_measurements
from insitu.workflows.report import summarise_campaign
from tests.analysis.programs import diagnose, on_rank_0
from tests.support.campaigns import HALO, REDUCE, heat_campaign

HOSTILE = "</code><script>alert(1)</script>|\x1b[31m`*_\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> ModelSet:
    path = str(tmp_path_factory.mktemp("kept") / "heat.insitu")
    with heat_campaign(path, 2, (4, 8, 16, 32, 64)) as store:
        return remodel(load_experiment(store))


@pytest.fixture
def summary(models: ModelSet) -> Summary:
    return summarise("heat", (), models, target=(1024.0,))


class Seen(HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text.append(data)


def test_what_grows_dominates_at_the_target(summary: Summary):
    assert (summary.largest, summary.target) == ((64.0,), (1024.0,))
    first = summary.shares[0]
    # 0.05 log2(2 p) = 0.55 of 0.55 + 0.5 + 0.1 + 8 / 1024
    assert first.callpath == REDUCE
    assert first.then.value == pytest.approx(0.55 / 1.158, rel=0.05)
    assert first.then.low < first.then.value < first.then.high
    assert sum(part.then.value for part in summary.shares) == pytest.approx(1.0)
    assert summary.growing[0].series.key == SeriesKey(REDUCE, "time_exclusive")


def test_shares_on_the_way_are_parts_of_a_whole(models: ModelSet):
    summary = summarise("heat", (), models, target=(65536.0,))
    bands = summary.bands

    assert bands is not None
    assert bands.shares.sum(axis=0) == pytest.approx(np.ones(bands.at.size))
    assert (bands.at[0], bands.at[-1]) == pytest.approx((4, 1024))
    assert "Beyond p = 1024 it is unclear what takes the time." in html(summary, "p", "today")


def test_the_last_shares_on_the_way_are_those_at_the_target(models: ModelSet):
    summary = summarise("heat", (), models, target=(256.0,))

    assert summary.bands is not None
    assert summary.bands.at[-1] == 256
    then = [part.then.value for part in summary.shares]
    assert summary.bands.shares[:, -1] == pytest.approx(then)
    assert "it is unclear" not in html(summary, "p", "today")


def test_classes_weigh_by_their_number_of_ranks_at_the_target(summary: Summary):
    halo = next(partition for partition in summary.partitions if partition.callpath == HALO)

    assert {group.name: group.ranks for group in halo.classes} == {"end": 2, "inner": 62}
    assert [round(group.ranks_then) for group in halo.classes] == [2, 1022]
    part = next(share for share in summary.shares if share.callpath == HALO)
    assert part.then.value == pytest.approx(0.4995 / 1.158, rel=0.05)


def test_a_page_loads_nothing_and_runs_no_script(summary: Summary):
    seen = Seen(html(summary, "p", "today"))

    assert not {"script", "link", "img", "iframe", "object", "a"} & set(seen.tags)
    assert not [name for name, _ in seen.attributes if name in ("src", "href", "onload")]
    assert "svg" in seen.tags
    assert "main->solve->residual->MPI_Allreduce" in "".join(seen.text)


def test_it_says_what_to_measure_next_why_and_what_it_costs(models: ModelSet):
    run = Proposal(Point((("p", 128.0),)), 60.0, 0.1, "main->solve", 0.8)
    proposals = Proposals(Point((("p", 1024.0),)), 0.05, (run,), 9.0, 0.4)

    text = markdown(summarise("heat", (), models, proposals=proposals), "today")

    assert "Measure p=128 next (about 2.13 h on all ranks)" in text
    assert "from 40 % to 10 %, and it reveals most about main->solve (80 % of it)" in text
    assert "| p=128 | 60 s | 2.13 h | 10 % | reveals most about" in text


@pytest.mark.parametrize(
    ("seconds", "uncertainty", "beginning"),
    [
        (math.nan, math.nan, "Measure p=8 next: p=8 alone shows growth."),
        (2.0, 0.1, "from 40 % to 10 %, and p=8 alone shows growth."),
    ],
)
def test_a_reason_with_a_subject_of_its_own_gets_no_other(
    models: ModelSet, seconds: float, uncertainty: float, beginning: str
):
    run = Proposal(Point((("p", 8.0),)), seconds, uncertainty, reason="p=8 alone shows growth")
    proposals = Proposals(Point((("p", 1024.0),)), 0.05, (run,), 9.0, 0.4)

    text = markdown(summarise("heat", (), models, proposals=proposals), "today")

    assert beginning in text


def test_what_is_broken_is_named_first_and_trust_is_told(models: ModelSet):
    judged = [
        ExpectationLine("✘", "violated", "main->solve", "time", "O(1)", "grows as O(p)", "99 %")
    ]

    text = markdown(summarise("heat", (), models, target=(1024.0,), expectations=judged), "today")

    assert "1 of 1 expectations is violated: main->solve, O(1): grows as O(p)." in text
    row = "| ✘ | main->solve | time | O(1) | violated: grows as O(p) | 99 % |"
    assert row in text
    assert "| models at p = 1024 | good | rough | a guess | crowded | unknown |" in text


def test_hostile_names_stay_text(models: ModelSet):
    def renamed(path: CallPath) -> CallPath:
        return CallPath((*path.frames[:-1], HOSTILE + path.name))

    hostile = ModelSet(
        models.parameters,
        [
            replace(model, key=replace(model.key, callpath=renamed(model.key.callpath)))
            for model in models.models
        ],
        [
            replace(
                clusters,
                callpath=renamed(clusters.callpath),
                names=tuple(f"{HOSTILE}{name}" for name in clusters.names),
            )
            for clusters in models.clusters
        ],
        (Finding("rank-lost", HOSTILE),),
    )
    asked = Point((("p", 1024.0),))
    run = Proposal(Point((("p", 128.0),)), 2.0, 0.1, HOSTILE, 0.5)
    judged = [ExpectationLine("✘", *[HOSTILE] * 6)]
    proposals = Proposals(asked, 0.05, (run,), 9.0, 0.4)
    summary = summarise(HOSTILE, (), hostile, expectations=judged, proposals=proposals)

    seen = Seen(html(summary, HOSTILE, HOSTILE))
    rows = [line for line in markdown(summary, HOSTILE).splitlines() if line.startswith("|")]

    assert "script" not in seen.tags
    assert "\x1b" not in "".join(seen.text)
    assert all(line.startswith("| ") or set(line) <= set("| -") for line in rows)
    for line in rows:
        assert "<script" not in line.replace("\\<", "")


def test_no_growth_and_one_scale_more_is_told(models: ModelSet):
    falling = [model for model in models.models if model.key.callpath.name == "solve"]
    flat = ModelSet(models.parameters, falling, (), ())

    summary = summarise("flat", (), flat, target=(128.0,))

    assert summary.growing == ()
    assert "No call path that matters for the cost is certain to grow" in markdown(summary, "today")
    assert "All ranks behave alike" in html(summary, "p", "today")


def test_the_diagnosis_has_a_line_for_each_statement(summary: Summary):
    texts = (
        "app runs on 65,536 ranks but spends",
        "✘</span><div><b>serial</b> <code>collect</code>",
    )
    diagnosis = diagnose(
        {
            "app->main->collect->MPI_Recv": {
                "messages_received": lambda p: on_rank_0(2000 * (p - 1), p),
            },
        }
    )

    page = html(replace(summary, diagnosis=diagnosis), "p", "today")

    _, _, rest = page.partition('<section class="diagnosis">')
    shown = rest.partition("</section>")[0]
    assert all(text in shown for text in texts)


def test_a_report_of_many_models_folds_what_follows_the_most_important(summary: Summary):
    page = html(summary, "p", "today")

    outside = re.sub(r"<details>.*?</details>", "", page, flags=re.S)
    assert page.count('class="chart"') > OPEN_CHARTS >= outside.count('class="chart"')


def test_the_root_which_takes_all_of_an_inclusive_time_is_not_said_to_dominate():
    scales = np.array([4.0, 8.0, 16.0, 32.0, 64.0])
    laws = {
        "main": 10 + 1.1 * scales,
        "main->run": 9.99 + 1.1 * scales,
        "main->run->solve": scales,
        "main->run->setup": 9 + 0 * scales,
    }

    def sentences(paths: Sequence[str]) -> str:
        series = []
        for path in paths:
            (model,) = fit(scales[:, None], laws[path])
            series.append(SeriesModel(SeriesKey(CallPath.parse(path), TIME.name), TIME, model))
        models = ModelSet(("p",), tuple(series))
        return " ".join(headlines(summarise("", (), models, target=(512.0,))))

    inner = sentences(list(laws))

    assert "solve will take 89 % of time" in inner
    assert "main will take" not in inner
    assert "run will take" in sentences(["main", "main->run"])
    assert "will take" not in sentences(["main"])


def test_times_of_crowded_runs_are_not_predicted(tmp_path):
    with heat_campaign(str(tmp_path / "heat.insitu"), 1, (4, 8, 16, 32, 64), cores=2) as store:
        runs, models = store.runs(), remodel(load_experiment(store))

    run = Proposal(Point((("p", 128.0),)), 60.0, 0.1, "main->solve", 0.8)
    proposals = Proposals(Point((("p", 1024.0),)), 0.05, (run,), 9.0, 0.4)
    summary = summarise("heat", runs, models, proposals=proposals)
    sentences = list(headlines(summary))

    assert sentences[0].startswith("No prediction of time_exclusive: ranks had to wait for")
    assert not any("will take" in text or "certain to grow" in text for text in sentences)
    assert {growth.series.metric.unit for growth in summary.growing + summary.others} <= {"B", "1"}
    for view in (html(summary, "p", "today"), markdown(summary, "today")):
        assert "Not judged: ranks had to wait for a core" in view
        assert "further runs on the same cores say more about counts" in view
        assert "p=128" not in view


def test_the_first_sentences_name_no_growth_of_counts_that_is_unclear_at_the_target():
    p = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    held = 2e6 + 1e4 * p**2.5 * np.array([1, 1.3, 0.8, 1.2, 1.1])
    models = []
    for name, metric, values in (("work", TIME_EXCLUSIVE, 1 + 0 * p), ("hold", HEAP_GROWTH, held)):
        (model,) = fit(p[:, None], values[None])
        key = SeriesKey(CallPath.parse(f"app->{name}"), metric.name, "all")
        models.append(SeriesModel(key, metric, model))

    def sentences(target: float) -> str:
        summary = summarise("app", (), ModelSet(("p",), tuple(models)), target=(target,))
        assert [growth.series.key.callpath.name for growth in summary.others] == ["hold"]
        return " ".join(headlines(summary))

    assert "Among counts, bytes and memory: heap_growth of app->hold" in sentences(32.0)
    assert "Among counts" not in sentences(65536.0)


def test_memory_that_the_caller_frees_is_no_growth_of_memory(tmp_path):
    heap = {
        "main->solve->make_buffer": lambda p: 8000 * p,  # which solve frees
        "main->solve": lambda p: 64,
        "main->setup->make_table": lambda p: 4000 * p,
        "main->setup": lambda p: 4000 * p + 64,
        "main->once": lambda p: 2000 * p,
        "main->often": lambda p: 1000 * p,
    }
    lines = []
    for p in (2, 4, 8, 16, 32):
        for path, law in heap.items():
            visits = 20 if path.endswith(("often", "make_buffer")) else 1
            for metric, unit, value in (("heap_growth", "B", law(p)), ("visits", "1", visits)):
                row = {"callpath": path, "metric": metric, "unit": unit, "params": {"p": p}}
                lines.append(row | {"repetition": 0, "ranks": [value] * p})
    source, campaign = tmp_path / "heap.jsonl", str(tmp_path / "heap.insitu")
    source.write_text("".join(json.dumps(row) + "\n" for row in lines))
    import_measurements(campaign, str(source))

    summary = summarise_campaign(campaign)

    grows = {growth.series.key.callpath.name for growth in summary.others}
    assert grows == {"make_table", "setup", "once"}


def test_runs_are_complete_and_findings_name_their_runs(tmp_path):
    waiting, shared = Finding("waiting-unclear", "0.2 s", "main"), Finding("throttled", "solve")
    with heat_campaign(str(tmp_path / "heat.insitu"), 1, (4, 8, 16)) as store:
        for run in store.runs():
            store.add_findings(run.id, [shared, *([waiting] if run.key.size == 8 else [])])
        runs, models = store.runs(), remodel(load_experiment(store))

    summary = summarise("heat", runs, models)
    page = html(summary, "p", "today")

    texts = [finding.text for finding in summary.findings]
    assert "p=8#0: 0.2 s" in texts and "solve" in texts
    assert "<td>complete</td>" in page and "sealed" not in page
    assert list(trust_reasons(summary))[1].startswith("3 configurations were measured, none")


def test_classes_without_models_have_no_empty_columns(summary: Summary):
    partition = summary.partitions[0]
    bare = tuple(replace(line, growth=None) for line in partition.classes)

    page = html(replace(summary, partitions=(replace(partition, classes=bare),)), "p", "today")

    section = page.partition("What differs between ranks")[2].partition("<h2>")[0]
    assert "on too few scales for models of their own" in section
    assert "–" not in section


def test_the_reason_of_a_run_that_questions_another_one_is_a_sentence(models: ModelSet):
    point = Point((("p", 64.0),))
    run = Proposal(point, reason="p=64 leaves the law of the smaller runs in time of step")
    proposals = Proposals(Point((("p", 1024.0),)), 0.05, (run,), 10.0, 0.3)

    text = markdown(summarise("heat", (), models, proposals=proposals), "today")

    assert "Measure p=64 next: p=64 leaves the law of the smaller runs in time of step." in text


def test_a_first_run_over_one_parameter_has_a_reason(models: ModelSet):
    proposals = Proposals(Point((("p", 64.0),)), 0.05, (Proposal(Point((("p", 12.0),))),))

    text = markdown(summarise("heat", (), models, proposals=proposals), "today")

    assert "has a value of p that was not measured" in text


def test_what_no_model_predicts_at_the_target_is_unclear_beyond_a_scale(models: ModelSet):
    rng = np.random.default_rng(3)
    noisy = []
    for series in models.models:
        values = series.model.values * np.exp(0.5 * rng.standard_normal(len(series.model.values)))
        [model] = fit(series.model.coordinates[:, 0], values[None])
        noisy.append(replace(series, model=model))
    of_noise = summarise("heat", (), replace(models, models=noisy))
    unclear = [unclear_at(growth.series.model, of_noise.target) for growth in of_noise.growing]
    text, page = markdown(of_noise, "today"), " ".join(Seen(html(of_noise, "p", "today")).text)

    assert any(unclear)
    for sentence in filter(None, unclear):
        assert re.fullmatch(r"unclear beyond p=\d+", sentence)
        assert sentence in text and sentence in page


def test_a_quiet_model_has_a_value_at_the_target(models: ModelSet):
    visits = [series.model for series in models.models if series.key.metric == "visits"]
    quiet = [model for model in visits if np.ptp(model.values) == 0]

    assert quiet
    assert [unclear_at(model, 1024) for model in quiet] == [""] * len(quiet)


def test_a_single_run_has_a_report_with_its_profile(tmp_path):
    campaign = str(tmp_path / "heat.insitu")
    with heat_campaign(campaign, 1, (8,)) as store:
        store.put_models(remodel(load_experiment(store)))

    summary = summarise_campaign(campaign)

    for text in (markdown(summary, "today"), " ".join(Seen(html(summary, "p", "today")).text)):
        assert "1 run up to p = 8" in text
        assert "of the time at p = 8" in text
        assert "predictions" not in text and "0 of 0 models" not in text
        assert "How far to trust this" not in text and "behave alike" not in text


def test_the_target_of_a_report_without_models_lies_beyond_the_run(tmp_path):
    campaign = str(tmp_path / "heat.insitu")
    with heat_campaign(campaign, 1, (128,)) as store:
        store.put_models(remodel(load_experiment(store)))

    summary = summarise_campaign(campaign)

    assert (summary.largest, summary.target) == ((128.0,), (8192.0,))
    assert summary.proposals is not None
    assert [proposal.point["p"] for proposal in summary.proposals.runs][:1] == [256.0]


@pytest.mark.parametrize("cores", [2, None])
def test_no_laws_of_times_are_sampled_where_ranks_shared_cores(tmp_path, monkeypatch, cores):
    campaign = str(tmp_path / "heat.insitu")
    with heat_campaign(campaign, 1, (4, 8, 16, 32, 64), cores=cores) as store:
        store.put_models(remodel(load_experiment(store)))
    sampled = []
    monkeypatch.setattr(
        "insitu.design.proposals.sample_laws", lambda *given: sampled.append(given) or []
    )

    summary = summarise_campaign(campaign)

    assert summary.proposals is not None
    assert bool(sampled) == (cores is None)


def test_a_chart_has_the_points_of_the_fullest_line_and_says_which(tmp_path):
    """Six sizes at p = 4, and four numbers of ranks at n = 96."""
    star = [(p, 96) for p in (2, 4, 8, 16)] + [(4, n) for n in (12, 24, 48, 192, 384)]
    points = np.array(star, dtype=float)
    (model,) = fit(points, [points[:, 0] * points[:, 1]], parameters=("p", "n"))
    series = SeriesModel(SeriesKey(HALO, TIME.name, "all"), TIME, model)
    charts = {}
    for target in ((1024.0, 384.0), (4.0, 24576.0)):
        charts[describe_chart([series], target)] = series_chart([series], target, "x")

    marks = {text: chart.count('class="mark') for text, chart in charts.items()}
    assert marks == {"at n = 96": 4, "at p = 4": 6}
