"""Panels of plots over several parameters."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import insitu
from insitu.entities import TIME, CallPath, Finding
from insitu.modeling.base import CROWDED, SeriesModel
from insitu.modeling.measurement import SeriesKey

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from insitu.views.plot import draw


def test_other_parameters_have_a_panel_for_each_of_three_values(tmp_path: Path):
    points = np.array([(p, n) for p in (2, 4, 8, 16) for n in (32, 64, 128, 256)], dtype=float)
    (model,) = insitu.fit(points, [0.1 * points[:, 1] / points[:, 0]], parameters=("p", "n"))
    path = CallPath.parse("main->solve")
    series = [SeriesModel(SeriesKey(path, TIME.name, "all"), TIME, model)]

    draw(series, {path: 1.0}, title="plate", axis="p", file=str(tmp_path / "a.svg"))

    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert len(re.findall(r'id="axes_\d+"', text)) == 3
    assert set(re.findall(r"n = (\d+)", text)) == {"32", "128", "256"}


def test_parameters_that_changed_with_the_first_one_are_on_its_axis(tmp_path: Path):
    points = np.array([(p, 10 * p, m) for p in (2, 4, 8, 16) for m in (3, 5)], dtype=float)
    values = [0.1 * points[:, 1] * points[:, 2]]
    (model,) = insitu.fit(points, values, parameters=("p", "n", "m"))
    path = CallPath.parse("main->solve")
    series = [SeriesModel(SeriesKey(path, TIME.name, "all"), TIME, model)]

    draw(series, {path: 1.0}, title="plate", axis="p", file=str(tmp_path / "a.svg"))

    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert len(re.findall(r'id="axes_\d+"', text)) == 2
    assert set(re.findall(r"m = (\d+)", text)) == {"3", "5"}
    assert text.count("p (n with it)") == 2
    assert "n = " not in text


def test_the_legend_of_crowded_times_says_so(tmp_path: Path):
    (model,) = insitu.fit(np.array([2.0, 4, 8, 16]), [[1.0, 2, 4, 8]])
    findings = (Finding(CROWDED, "16 ranks on 2 cores"),)
    path = CallPath.parse("main->solve")
    key = SeriesKey(path, TIME.name, "all")
    series = [SeriesModel(key, TIME, replace(model, findings=findings))]

    draw(series, {path: 1.0}, title="plate", axis="p", file=str(tmp_path / "a.svg"))

    assert "crowded: " in (tmp_path / "a.svg").read_text(encoding="utf-8")
