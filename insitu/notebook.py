"""A campaign in Python: data frames, and models that a notebook displays."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.analysis.cost import cost_metric, measured_shares, sort_by_cost
from insitu.campaign.config import Config, load_config
from insitu.campaign.load import load_experiment
from insitu.campaign.store import open_store
from insitu.entities import RANKS, Finding, RunRecord, number
from insitu.errors import UsageError
from insitu.extras import install_command
from insitu.formats.table import LEVEL, parameter_values
from insitu.modeling.algebra import latex_of, sympy_of
from insitu.modeling.base import ALL, ModelSet, SeriesModel
from insitu.modeling.joint_parameters import find_joint_change
from insitu.modeling.measurement import Experiment
from insitu.modeling.target import with_followers
from insitu.text import printable
from insitu.units import percent, quantity
from insitu.views.report.chart import CHART_STYLE, legend, series_chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame
    from sympy import Expr

SHOWN_ROWS = 20  # of the table that a notebook displays
SHOWN_NAMES = 5  # of an error about a wrong name
CHART_FACTOR = 4.0  # a chart ends at this multiple of the largest measured value


@dataclass(frozen=True, slots=True, eq=False)
class ModelledSeries:
    """The model of one metric of one call path in one behaviour class."""

    data: SeriesModel
    config: Config

    def predict(self, **at: float) -> float:
        """Return the most likely value per rank, as in `predict(p=1024)`.

        A parameter that changed together with another one in all runs follows it if it is missing.

        Raises:
            UsageError: a parameter is missing or unknown, its value makes no sense, or it does
                not go with that of another one that changed together with it in all runs.
        """
        return float(self.data.model.predict([self._point(at)])[0])

    def interval(self, level: float = LEVEL, **at: float) -> tuple[float, float]:
        """Return the bounds that contain a measurement with probability `level`.

        A parameter that changed together with another one in all runs follows it if it is missing.

        Raises:
            UsageError: a parameter is missing or unknown, its value makes no sense, or it does
                not go with that of another one that changed together with it in all runs.
        """
        ((low, high),) = self.data.model.interval([self._point(at)], level).tolist()
        return low, high

    def sympy(self) -> "Expr":
        """Return the model as a SymPy expression, with a positive symbol per parameter.

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
        """Draw points, model and interval with matplotlib, into `axes` or a new figure.

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
            target = [CHART_FACTOR * largest[0], *largest[1:]]
            axis = self.config.axis(model.parameters[0])
            picture = series_chart([self.data], target, axis) + legend([self.data])
        return (
            f'<div class="insitu"><style>.insitu {{ max-width: 440px; {CHART_STYLE} }}</style>'
            f"<b>{_text(str(key.callpath))}</b> "
            f"{_text(key.metric)}, class {_text(key.behaviour)}, error {error}{picture}</div>"
        )

    def _point(self, at: dict[str, float]) -> list[float]:
        names = self.data.model.parameters
        for name, value in at.items():
            least = 1.0 if name == RANKS else 0.0
            try:
                is_valid = float(value) >= least
            except (TypeError, ValueError):
                raise UsageError(
                    f"{name}={value!r:.40}: pass one number; call once per point"
                ) from None
            if not is_valid:  # NaN is not
                raise UsageError(f"{name}={value}: the value must be at least {number(least)}")
        values = with_followers(at, names, self.data.model.coordinates)
        if set(values) != set(names):
            wanted = ", ".join(f"{name}=…" for name in names)
            raise UsageError(f"the model is over {', '.join(names)}; pass {wanted}")
        point = [float(values[name]) for name in names]
        joint = find_joint_change(self.data.model, point)
        if joint is not None:
            raise UsageError(joint.describe(point, names))
        return point


@dataclass(frozen=True, slots=True, eq=False)
class Campaign:
    """The content of a campaign when it was opened; `series` has the most expensive first."""

    config: Config
    runs: tuple[RunRecord, ...]
    experiment: Experiment
    models: ModelSet
    series: tuple[ModelledSeries, ...]

    @property
    def name(self) -> str:
        """The name in campaign.toml, else that of the directory."""
        return self.config.name

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters that vary."""
        return self.experiment.parameters

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings about the models."""
        return self.models.findings

    def find(
        self, callpath: str = "", metric: str | None = None, behaviour: str | None = None
    ) -> list[ModelledSeries]:
        """Return the series whose call path contains a text, the most expensive first.

        Args:
            callpath: the text.
            metric: only this metric.
            behaviour: only this behaviour class.

        Raises:
            UsageError: no series has such a call path, metric or class; the message names similar
                ones.
        """
        matches = []
        for series in self.series:
            key = series.data.key
            is_wanted = metric in (None, key.metric) and behaviour in (None, key.behaviour)
            if is_wanted and callpath in str(key.callpath):
                matches.append(series)
        if not matches:
            self._refuse_unknown(callpath, metric, behaviour)
        return matches

    def _refuse_unknown(self, callpath: str, metric: str | None, behaviour: str | None) -> None:
        """Raise an error for the first name that no series has, with similar names."""
        keys = [series.data.key for series in self.series]
        functions = {key.callpath.name for key in keys}
        if keys and callpath and not any(callpath in str(key.callpath) for key in keys):
            raise UsageError(_no_such("call path", callpath, functions))
        metrics = {key.metric for key in keys}
        if keys and metric is not None and metric not in metrics:
            raise UsageError(_no_such("metric", metric, metrics))
        behaviours = {key.behaviour for key in keys}
        if keys and behaviour is not None and behaviour not in behaviours:
            raise UsageError(_no_such("class", behaviour, behaviours))

    def frame(self, metric: str | None = None) -> "DataFrame":
        """Return a tidy pandas frame with a row per run, call path, metric and rank.

        Raises:
            UsageError: pandas is not installed, or there is no such metric.
        """
        pandas = _pandas()
        metrics = self.experiment.metrics()
        if metric is not None and metric not in metrics:
            raise UsageError(_no_such("metric", metric, metrics))
        frames = []
        for key, table in self.experiment.runs:
            paths = np.array([str(path) for path in table.callpaths], dtype=object)
            for column in table.metrics:
                if metric not in (None, column.name):
                    continue
                values = table.values[column.name]
                row, rank = np.nonzero(~np.isnan(values))
                at = dict(zip(self.parameters, key.coordinate(self.parameters), strict=True))
                frames.append(
                    pandas.DataFrame(
                        {
                            **at,
                            "repetition": key.repetition,
                            "callpath": paths[row],
                            "metric": column.name,
                            "unit": column.unit,
                            "rank": rank,
                            "value": values[row, rank],
                        }
                    )
                )
        columns = [*self.parameters, "repetition", "callpath", "metric", "unit", "rank", "value"]
        return (
            pandas.concat(frames, ignore_index=True)
            if frames
            else pandas.DataFrame([], None, columns)
        )

    def points(self) -> "DataFrame":
        """Return a pandas frame with the fitted points and the values of their models.

        Raises:
            UsageError: pandas is not installed.
        """
        rows = []
        for series in self.series:
            model, key = series.data.model, series.data.key
            fitted = model.predict(model.coordinates).tolist()
            triples = zip(model.coordinates.tolist(), model.values.tolist(), fitted, strict=True)
            for at, value, predicted in triples:
                rows.append(
                    {
                        "callpath": str(key.callpath),
                        "metric": key.metric,
                        "class": key.behaviour,
                        **parameter_values(model.parameters, at),
                        "value": value,
                        "model_value": predicted,
                        "model": str(model),
                    }
                )
        return _pandas().DataFrame(rows)

    def draw(self, callpath: str, metric: str | None = None, axes: "Axes | None" = None) -> "Axes":
        """Draw all classes of the most expensive call path whose name contains a text.

        Raises:
            UsageError: there is no such series, or matplotlib is not installed.
        """
        matches = self.find(callpath, metric or cost_metric(self.models))
        first = matches[0].data.key.callpath
        classes = [series.data for series in matches if series.data.key.callpath == first]
        return _draw(classes, self.config, axes)

    def __repr__(self) -> str:
        over = ", ".join(self.parameters)
        return f"<{self.name}: {len(self.runs)} runs, {len(self.series)} models over {over}>"

    def _repr_html_(self) -> str:
        share = measured_shares(self.models)
        metric = cost_metric(self.models)

        rows = []
        for series in self.find(metric=metric)[:SHOWN_ROWS]:
            key = series.data.key
            behaviour = "" if key.behaviour == ALL else _text(key.behaviour)
            rows.append(
                f"<tr><td>{percent(share.get(key.callpath, 0.0))}</td>"
                f"<td><code>{_text(str(key.callpath))}</code></td><td>{behaviour}</td>"
                f"<td>{_text(series.data.text)}</td>"
                f"<td>{_largest_value(series.data)}</td></tr>"
            )

        titles = ("share", "call path", "class", _text(metric), "now")
        head = f"<tr>{''.join(f'<th>{title}</th>' for title in titles)}</tr>"
        return f"<b>{_text(repr(self)[1:-1])}</b><table>{head}{''.join(rows)}</table>"


def _no_such(what: str, name: str, available: Collection[str]) -> str:
    similar = get_close_matches(name, sorted(available), 3, 0.4) or sorted(available)[:SHOWN_NAMES]
    return f"no {what} '{name}' here; there are {', '.join(similar)}, among others"


def open_campaign(path: str) -> Campaign:
    """Read the runs of a campaign, with the value of every rank, and its models.

    Args:
        path: directory of the campaign.

    Raises:
        CampaignError: there is no campaign, or it cannot be read.
    """
    config = load_config(path)
    with open_store(path) as store:
        runs, experiment, models = tuple(store.runs()), load_experiment(store), store.models()

    sorted_models = sort_by_cost(models.models, measured_shares(models))
    series = tuple(ModelledSeries(model, config) for model in sorted_models)
    return Campaign(config, runs, experiment, models, series)


def _draw(series: Sequence[SeriesModel], config: Config, axes: "Axes | None") -> "Axes":
    try:
        from matplotlib import pyplot

        from insitu.views.plot import draw_panel
    except ImportError as error:
        raise UsageError(
            f"a picture needs matplotlib ({error}); {install_command('plot')}"
        ) from error
    drawn = pyplot.subplots()[1] if axes is None else axes
    draw_panel(drawn, series)
    drawn.set_xlabel(printable(config.axis(series[0].model.parameters[0])))
    drawn.set_title(printable(f"{series[0].key.callpath.name}: {series[0].key.metric}"))
    return drawn


def _pandas() -> Any:  # Any: pandas need not be installed
    try:
        import pandas
    except ImportError as error:
        raise UsageError(f"a frame needs pandas ({error}); {install_command('tables')}") from error
    return pandas


def _largest_value(series: SeriesModel) -> str:
    """Return the value at the largest measured coordinate; a dash if there is none."""
    finite = series.model.values[np.isfinite(series.model.values)]
    return _text(quantity(float(finite[-1]), series.metric.unit)) if len(finite) else "–"


def _text(text: str) -> str:
    return escape(printable(text), quote=True)
