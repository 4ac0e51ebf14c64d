// Several call paths in one plot.
import { byId, element, fillSelect, formatNumber } from "./text.js";
import { data, fetchAnswers, go, state } from "./state.js";
import { isStartUp, shortPath } from "./names.js";
import { chooseAxes, clearPlot, drawCurves } from "./plot.js";
import { drawLegend, makeSeries, missingModelText, NOTE, repetitionQueries, seriesQueries } from "./series.js";
import { listMetrics, selectedMetric } from "./tree.js";

const DEFAULT_COMPARED = 5; // the most expensive call paths are compared if none is selected
const MAX_INTERVALS = 3; // intervals of more series cannot be distinguished in one plot

// The selected call paths; without a selection the most expensive.
function comparedPaths() {
  if (state.pins.length) return state.pins;
  const metric = selectedMetric();
  const rows = data.board.series
    .filter((row) => row.metric === metric && !isStartUp(row.callpath))
    .sort((a, b) => b.share - a.share);
  return [...new Set(rows.map((row) => row.callpath))].slice(0, DEFAULT_COMPARED);
}

export async function drawCompare() {
  const paths = comparedPaths();
  fillSelect(byId("c-metric"), listMetrics(), selectedMetric());
  byId("relative").checked = state.relative;
  byId("c-note").textContent = byId("c-plot").childElementCount ? "" : "loading …";

  const answers = await fetchAnswers("c-plot", () => seriesQueries("compare", comparedPaths()));
  if (!answers) return;
  drawComparison(paths, answers, []);
  const repetitions = await fetchAnswers("c-legend", () => repetitionQueries("compare", comparedPaths()));
  if (repetitions && repetitions.length) drawComparison(paths, answers, repetitions);
}

// Draw several call paths; the values of repetitions, by path, may follow later.
function drawComparison(paths, answers, repetitions) {
  const series = makeComparedSeries(paths, answers, repetitions);
  if (!series.length) {
    const failed = answers.find((answer) => answer === null);
    clearPlot(byId("c-plot"));
    byId("c-legend").replaceChildren(element("li", "dim", missingModelText(failed)));
    return;
  }

  byId("c-note").textContent = compareNote(series.length);
  const axes = chooseAxes(state, series.flatMap((each) => each.points));
  byId("c-log-x").checked = axes.isLogX;
  byId("c-log-y").checked = axes.isLogY;

  const unit = state.relative ? "" : series[0].unit;
  const onHover = drawLegend(byId("c-legend"), series, unit);
  addLegendButtons(series, paths);
  const { axis } = answers.find((answer) => answer && answer.classes.length);
  drawCurves(byId("c-plot"), {
    key: paths.join(" "),
    axis,
    valueLabel: selectedMetric(),
    unit,
    ...axes,
    series,
    height: 430,
    onHover,
    format: state.relative ? (value) => `× ${formatNumber(value)}` : undefined,
    label: `${selectedMetric()} of ${series.length} series over ${axis}`,
  });
}

function makeComparedSeries(paths, answers, repetitions) {
  const result = [];
  paths.forEach((path, i) => {
    for (const series of answers[i] ? makeSeries(answers[i], path, { repetitions: repetitions[i] }) : []) {
      if (series.name === "maximum") continue; // of all ranks: twice as many curves say little more
      const name = series.name === "all" ? "" : ` (${series.label})`;
      const compared = { ...series, path, shade: result.length, label: `${shortPath(path, 60)}${name}` };
      result.push(state.relative ? scaleToFirst(compared) : compared);
    }
  });

  const hasIntervals = result.length <= MAX_INTERVALS;
  return hasIntervals ? result : result.map((series) => ({ ...series, low: null }));
}

function compareNote(count) {
  const content = count > MAX_INTERVALS
    ? "points and models, dashed beyond the measured range; the page of a model shows its interval"
    : NOTE;
  const selection = state.pins.length
    ? "☐ in the tree adds and removes call paths"
    : "the most expensive call paths; ☐ in the tree, or the key c, selects others";
  return `${content}; ${selection}`;
}

function addLegendButtons(series, paths) {
  [...byId("c-legend").children].forEach((item, i) => {
    const { path, name } = series[i];
    const open = element("button", "link", "page");
    open.addEventListener("click", () => go({ view: "model", path, behaviour: name }, true));
    item.append(" ", open);

    if (state.pins.length) {
      const remove = element("button", "link", "remove");
      remove.addEventListener("click", () => go({ pins: paths.filter((each) => each !== path) }));
      item.append(" ", remove);
    }
  });
}

// In multiples of the first measured value: compares growth instead of size.
function scaleToFirst(series) {
  const first = series.points.length ? series.points[0][1] : 0;
  if (!(first > 0)) return series;

  const scale = (values) => values.map((value) => (value === null ? null : value / first));
  return {
    ...series,
    values: scale(series.values),
    low: scale(series.low),
    high: scale(series.high),
    points: series.points.map(([x, y]) => [x, y / first]),
    repetitions: series.repetitions.map(([x, y]) => [x, y / first]),
    live: null,
  };
}
