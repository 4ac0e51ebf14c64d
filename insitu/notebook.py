"""A campaign in Python: frames, and models that show themselves in a notebook."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.analysis.cost import cost_metric, measured_shares, sort_by_cost
from insitu.campaign.config import Config, load_config
from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.entities import Finding, RunRecord
from insitu.errors import UsageError
from insitu.formats.table import LEVEL, named
from insitu.modeling.algebra import latex_of, sympy_of
from insitu.modeling.base import ModelSet, SeriesModel
from insitu.modeling.classes.match import ALL
from insitu.modeling.measurement import Experiment
from insitu.text import printable
from insitu.units import percent, quantity
from insitu.views.report.chart import CHART_STYLE, legend, series_chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame
    from sympy import Expr

SHOWN = 20  # rows of a table in a notebook
AHEAD = 4.0  # how far a picture looks ahead, in multiples of the largest measured value


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A modelled series: one metric of one call path in one class."""

    data: SeriesModel
    config: Config

    def predict(self, **at: float) -> float:
        """The most likely value per rank, as in `predict(p=1024)`.

        Raises:
            UsageError: a parameter is missing or unknown.
        """
        return float(self.data.model.predict([self._point(at)])[0])

    def interval(self, level: float = LEVEL, **at: float) -> tuple[float, float]:
        """The bounds between which a measurement lies with this probability.

        Raises:
            UsageError: a parameter is missing or unknown.
        """
        ((low, high),) = self.data.model.interval([self._point(at)], level).tolist()
        return low, high

    def sympy(self) -> "Expr":
        """The model as an expression of SymPy over positive symbols named as the parameters.

        Raises:
            UsageError: SymPy is not installed.
        """
        try:
            import sympy
        except ImportError as error:
            raise UsageError(f"an expression needs SymPy ({error}); pip install sympy") from error
        names = self.data.model.parameters
        symbols = {name: sympy.Symbol(name, positive=True) for name in names}
        return sympy.parse_expr(sympy_of(self.data.model), local_dict=symbols)

    def draw(self, axes: "Axes | None" = None) -> "Axes":
        """Points, model and bounds with matplotlib; into `axes`, or a figure of its own.

        Raises:
            UsageError: matplotlib is not installed.
        """
        return _draw([self.data], self.config, axes)

    def __str__(self) -> str:
        key = self.data.key
        return f"{key.callpath} {key.metric} [{key.behaviour}]: {self.data.model}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def _repr_latex_(self) -> str:
        return f"${latex_of(self.data.model)}$"

    def _repr_html_(self) -> str:
        key, model = self.data.key, self.data.model
        error = "–" if np.isnan(model.smape) else percent(model.smape / 100)
        largest = model.coordinates.max(axis=0) if len(model.coordinates) else None
        picture = ""
        if largest is not None:
            target = [AHEAD * largest[0], *largest[1:]]
            axis = self.config.axis(model.parameters[0])
            picture = series_chart([self.data], target, axis) + legend([self.data])
        return (
            f'<div class="insitu"><style>.insitu {{ max-width: 440px; {CHART_STYLE} }}</style>'
            f"<b>{_text(str(key.callpath))}</b> "
            f"{_text(key.metric)}, class {_text(key.behaviour)}, error {error}{picture}</div>"
        )

    def _point(self, at: dict[str, float]) -> list[float]:
        names = self.data.model.parameters
        if set(at) != set(names):
            wanted = ", ".join(f"{name}=…" for name in names)
            raise UsageError(f"the model is over {', '.join(names)}: say {wanted}")
        return [float(at[name]) for name in names]


@dataclass(frozen=True, slots=True, eq=False)
class Campaign:
    """What a campaign directory held when it was opened; `series` dearest first."""

    config: Config
    runs: tuple[RunRecord, ...]
    experiment: Experiment
    models: ModelSet
    series: tuple[Series, ...]

    @property
    def name(self) -> str:
        """As campaign.toml says it, else the directory's."""
        return self.config.name

    @property
    def parameters(self) -> tuple[str, ...]:
        """Those that vary."""
        return self.experiment.parameters

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What a person should know of the models."""
        return self.models.findings

    def find(
        self, callpath: str = "", metric: str | None = None, behaviour: str | None = None
    ) -> list[Series]:
        """Series whose call path contains a text, dearest first."""
        return [
            one
            for one in self.series
            if callpath in str(one.data.key.callpath)
            and metric in (None, one.data.key.metric)
            and behaviour in (None, one.data.key.behaviour)
        ]

    def frame(self, metric: str | None = None) -> "DataFrame":
        """Every rank's value as a pandas frame, tidy: a row per run, call path, metric and rank.

        Raises:
            UsageError: pandas is not installed.
        """
        pandas = _pandas()
        parts = []
        for key, table in self.experiment.runs:
            paths = np.array([str(path) for path in table.callpaths], dtype=object)
            for one in table.metrics:
                if metric not in (None, one.name):
                    continue
                values = table.values[one.name]
                row, rank = np.nonzero(~np.isnan(values))
                at = dict(zip(self.parameters, key.coordinate(self.parameters), strict=True))
                parts.append(
                    pandas.DataFrame(
                        {
                            **at,
                            "repetition": key.repetition,
                            "callpath": paths[row],
                            "metric": one.name,
                            "unit": one.unit,
                            "rank": rank,
                            "value": values[row, rank],
                        }
                    )
                )
        columns = [*self.parameters, "repetition", "callpath", "metric", "unit", "rank", "value"]
        return (
            pandas.concat(parts, ignore_index=True)
            if parts
            else pandas.DataFrame([], None, columns)
        )

    def points(self) -> "DataFrame":
        """The points that models were made from, beside what the models say, as a pandas frame.

        Raises:
            UsageError: pandas is not installed.
        """
        rows = []
        for one in self.series:
            model, key = one.data.model, one.data.key
            fitted = model.predict(model.coordinates).tolist()
            triples = zip(model.coordinates.tolist(), model.values.tolist(), fitted, strict=True)
            for at, value, predicted in triples:
                rows.append(
                    {
                        "callpath": str(key.callpath),
                        "metric": key.metric,
                        "class": key.behaviour,
                        **named(model.parameters, at),
                        "value": value,
                        "model_value": predicted,
                        "model": str(model),
                    }
                )
        return _pandas().DataFrame(rows)

    def draw(self, callpath: str, metric: str | None = None, axes: "Axes | None" = None) -> "Axes":
        """The dearest call path whose name contains a text, all its classes, with matplotlib.

        Raises:
            UsageError: there is no such series, or matplotlib is not installed.
        """
        found = self.find(callpath, metric or cost_metric(self.models))
        if not found:
            raise UsageError(f"no model of a call path with '{callpath}' in its name")
        first = found[0].data.key.callpath
        return _draw(
            [one.data for one in found if one.data.key.callpath == first], self.config, axes
        )

    def __repr__(self) -> str:
        over = ", ".join(self.parameters)
        return f"<{self.name}: {len(self.runs)} runs, {len(self.series)} models over {over}>"

    def _repr_html_(self) -> str:
        share = measured_shares(self.models)
        metric = cost_metric(self.models)
        rows = [
            f"<tr><td>{percent(share.get(one.data.key.callpath, 0.0))}</td>"
            f"<td><code>{_text(str(one.data.key.callpath))}</code></td>"
            f"<td>{'' if one.data.key.behaviour == ALL else _text(one.data.key.behaviour)}</td>"
            f"<td>{_text(str(one.data.model))}</td><td>{_largest(one.data)}</td></tr>"
            for one in self.find(metric=metric)[:SHOWN]
        ]
        titles = ("share", "call path", "class", _text(metric), "now")
        head = f"<tr>{''.join(f'<th>{title}</th>' for title in titles)}</tr>"
        return f"<b>{_text(repr(self)[1:-1])}</b><table>{head}{''.join(rows)}</table>"


def open_campaign(path: str) -> Campaign:
    """Read a campaign: its runs with every rank's value, and its models.

    Raises:
        CampaignError: there is none, or it cannot be read.
    """
    config = load_config(path)
    with open_store(path) as store:
        runs, experiment, models = tuple(store.runs()), load_experiment(store), store.models()
    series = tuple(Series(one, config) for one in sort_by_cost(models, measured_shares(models)))
    return Campaign(config, runs, experiment, models, series)


def _draw(series: Sequence[SeriesModel], config: Config, axes: "Axes | None") -> "Axes":
    try:
        from matplotlib import pyplot

        from insitu.views.plot import draw_panel
    except ImportError as error:
        raise UsageError(
            f"a picture needs matplotlib ({error}); pip install 'insitu[plot]'"
        ) from error
    drawn = pyplot.subplots()[1] if axes is None else axes
    draw_panel(drawn, series)
    drawn.set_xlabel(printable(config.axis(series[0].model.parameters[0])))
    drawn.set_title(printable(f"{series[0].key.callpath.name}: {series[0].key.metric}"))
    return drawn


def _pandas() -> Any:  # Any: pandas need not be there
    try:
        import pandas
    except ImportError as error:
        raise UsageError(f"a frame needs pandas ({error}); pip install 'insitu[tables]'") from error
    return pandas


def _largest(one: SeriesModel) -> str:
    finite = one.model.values[np.isfinite(one.model.values)]
    return _text(quantity(float(finite[-1]), one.metric.unit)) if len(finite) else "–"


def _text(text: str) -> str:
    return escape(printable(text), quote=True)
