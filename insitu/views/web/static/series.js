// A metric of a call path: its curves beside the tree, its own page, and several in one plot.
import {
  byId, classSign, COLOURS, element, fillSelect, formatBounds, formatNumber, formatPercent, formatQuantity,
  printable, svgElement, tableRow,
} from "./text.js";
import { data, fetchAnswers, go, noAnswerText, state } from "./state.js";
import { classShade, fullPath, pathName } from "./names.js";
import { chooseAxes, clearPlot, drawCurves } from "./plot.js";
import { listMetrics, selectedMetric, selectedPath, selectedRow } from "./tree.js";
import { drawSurface } from "./surface.js";

const MAX_RIVALS = 3; // candidates drawn besides the model
const MAX_STRIPS = 6; // runs whose ranks are drawn
const MAX_COLUMNS = 64; // ranks in a row of a strip
export const NOTE = "points, prediction by all candidates and its 95 % interval; dashed beyond the measured range";

// A query for each call path; none if another view is shown by now.
export function seriesQueries(view, paths) {
  if (state.view !== view) return [];
  return paths.filter(Boolean).map((path) => ({
    name: "series",
    words: { callpath: path, metric: selectedMetric(), axis: state.axis },
    at: fixedParameters(),
  }));
}

// On the page of a model, the user may choose the values of the parameters off the axis.
function fixedParameters() {
  if (state.view !== "model") return {};
  return Object.fromEntries(Object.entries(state.at).filter(([name]) => name !== state.axis));
}

// A query for the values of all repetitions of each call path; none if another view is shown by now.
export function repetitionQueries(view, paths) {
  if (state.view !== view) return [];
  return paths.filter(Boolean).map((path) => (
    { name: "repetitions", words: { callpath: path, metric: selectedMetric() } }
  ));
}

// The newest run in progress as a point on the axis, with the bounds of its forecast.
function livePoint(path, behaviour, axis) {
  const run = data.runs[0];
  const metric = selectedMetric();
  const row = data.board.series.find((each) => (
    each.callpath === path && each.metric === metric && each.behaviour === behaviour
  ));
  const x = run && Object.fromEntries(run.parameters)[axis];
  return row && row.live !== null && Number.isFinite(x) ? [x, row.live, row.expected] : null;
}

// The values of all repetitions of a class along the axis of an answer: [x, value].
function listRepetitions(answer, repetitions, name) {
  const rows = (repetitions && repetitions.classes[name]) || [];
  if (!rows.length) return [];

  const { parameters } = repetitions;
  const others = parameters.filter((parameter) => parameter !== answer.axis);
  const isShown = ({ at }) => others.every((parameter) => (
    !(parameter in answer.held) || at[parameters.indexOf(parameter)] === answer.held[parameter]
  ));
  const along = parameters.indexOf(answer.axis);
  return rows.filter(isShown).map(({ at, value }) => [at[along], value]);
}

// The series of an answer as `drawCurves` expects them, one for each class.
export function makeSeries(answer, path, { hasRivals = false, repetitions = null } = {}) {
  return answer.classes.map((behaviour) => ({
    name: behaviour.name,
    label: printable(behaviour.label),
    text: withUnit(behaviour.text, behaviour.unit),
    isSelected: behaviour.name === state.behaviour,
    unit: behaviour.unit,
    shade: classShade(behaviour.name),
    at: answer.at,
    values: behaviour.values,
    low: behaviour.bounds[0],
    high: behaviour.bounds[1],
    last: behaviour.last,
    points: behaviour.points,
    repetitions: listRepetitions(answer, repetitions, behaviour.name),
    gaps: behaviour.gaps,
    rivals: hasRivals ? listRivals(behaviour) : [],
    live: livePoint(path, behaviour.name, answer.axis),
  }));
}

// The first candidate is the model itself.
const listRivals = (behaviour) => behaviour.candidates.slice(1, 1 + MAX_RIVALS).map((rival) => rival.values);

// A formula with the unit of its values.
function withUnit(text, unit) {
  return unit && unit !== "1" ? `${printable(text)} [${printable(unit)}]` : printable(text);
}

// What a series has at x: the measured value, and the value and the bounds of the model.
function hoverText(series, x, index, unit) {
  const texts = [];
  const measured = series.points.filter(([at]) => at === x).map(([, value]) => formatQuantity(value, unit));
  const each = (series.repetitions || []).filter(([at]) => at === x).map(([, value]) => formatQuantity(value, unit));
  if (each.length > 1) texts.push(`measured ${each.join(", ")} (${each.length} repetitions)`);
  else if (measured.length) texts.push(`measured ${measured.join(", ")}`);

  texts.push(`model ${formatQuantity(series.values[index], unit)}`);
  if (series.low && series.low[index] !== null) {
    texts.push(`95 % ${formatBounds(series.low[index], series.high[index], unit)}`);
  }
  return `  at ${formatNumber(x)}: ${texts.join(", ")}`;
}

// Fill a legend; the result shows the values at a position: (x, indices into the curves).
export function drawLegend(host, series, unit) {
  const outputs = series.map(() => element("output"));
  const items = series.map((each, i) => {
    const className = each.isSelected ? "chosen" : "";
    return element("li", className, classSign(each.shade), element("b", "", `${each.label} `), each.text, outputs[i]);
  });
  host.replaceChildren(...items);

  return (x, indices) => {
    outputs.forEach((output, i) => {
      output.textContent = x === null ? "" : hoverText(series[i], x, indices[i], unit);
    });
  };
}

// Draw all classes of a call path. `ids` names the elements: plot, legend, logX, logY.
function drawClasses(ids, answer, path, options) {
  const series = makeSeries(answer, path, options);
  const { unit } = series[0];
  const axes = chooseAxes(state, series.flatMap((each) => each.points));
  byId(ids.logX).checked = axes.isLogX;
  byId(ids.logY).checked = axes.isLogY;

  drawCurves(byId(ids.plot), {
    key: `${path} ${selectedMetric()} ${answer.axis}`,
    axis: answer.axis,
    valueLabel: selectedMetric(),
    unit,
    ...axes,
    series,
    height: options.height,
    label: `${selectedMetric()} of ${fullPath(path)} over ${answer.axis}: measured points, model, 95 % interval`,
    onHover: drawLegend(byId(ids.legend), series, unit),
  });
  return axes;
}

export function missingModelText(answer) {
  if (answer === null) return noAnswerText();
  const path = selectedPath();
  const rows = data.board.series;
  if (path && rows.some((row) => row.metric === selectedMetric())) {
    const others = new Set(rows.filter((row) => row.callpath === path).map((row) => row.metric));
    if (others.has(selectedMetric())) return noAnswerText();
    const has = others.size ? `; it has ${[...others].map(printable).join(", ")}` : "; call paths below it may have them";
    return `${pathName(path)} has no values of ${printable(selectedMetric())}${has}`;
  }
  return `no model of ${printable(selectedMetric())} yet: a model needs runs at three scales or more`;
}

// The card beside the tree.
export async function drawDetail() {
  const path = selectedPath();
  byId("chosen").textContent = path ? pathName(path) : "no model yet";
  byId("chosen").title = fullPath(path);
  byId("open").hidden = !path;

  const answers = await fetchAnswers("detail", () => seriesQueries("paths", [selectedPath()]));
  if (!answers) return;
  const [answer] = answers;
  const names = data.board.parameters;
  byId("axis-label").hidden = names.length < 2;
  if (answer) fillSelect(byId("axis"), names, answer.axis);

  const row = selectedRow();
  const live = row && row.live !== null ? `; now ${formatQuantity(row.live, row.unit)}${comparisonText(row)}` : "";
  if (!answer || !answer.classes.length) {
    clearPlot(byId("plot"));
    byId("legend").replaceChildren();
    byId("note").textContent = path ? `${missingModelText(answer)}${live}` : "";
  } else {
    const ids = { plot: "plot", legend: "legend", logX: "log-x", logY: "log-y" };
    drawClasses(ids, answer, path, { height: 260 });
    drawDetailRepetitions(ids, answer);
    const others = names.length > 1 ? ", other parameters at their largest values" : "";
    byId("note").textContent = `${printable(selectedMetric())}: ${NOTE}${others}${live}`;
  }
  drawRanks(byId("ranks"), answer, 1);
}

// The values of repetitions follow the curves: the server reads them from every run.
async function drawDetailRepetitions(ids, answer) {
  const answers = await fetchAnswers("legend", () => repetitionQueries("paths", [selectedPath()]));
  if (!answers || !answers.length) return;
  drawClasses(ids, answer, selectedPath(), { height: 260, repetitions: answers[0] });
}

// How the run in progress compares with its forecast.
function comparisonText(row) {
  if (!row.expected) return "";
  const [low, , high] = row.expected.map((value) => formatQuantity(value, row.unit));
  const word = row.verdict ? `, ${row.verdict} than` : ", within";
  return `${word} the forecast ${low} … ${high} by now`;
}

// The class of each rank, as a strip for each of at most `maxRuns` runs.
function drawRanks(host, answer, maxRuns) {
  const all = answer ? answer.ranks : []; // the largest run first
  const isDivided = (run) => run.names.length > 1;
  const largest = all.slice(0, maxRuns);
  const runs = largest.some(isDivided) ? largest : all.filter(isDivided).slice(0, maxRuns);
  if (all.length && !runs.length) {
    host.replaceChildren(element("p", "note", uniformText(all[0])));
    return;
  }

  const content = [];
  for (const run of runs) {
    const shades = run.names.map(classShade);
    const items = run.names.map((name, i) => (
      element("li", "", classSign(shades[i]), `${printable(name)}: ${run.counts[i]}`)
    ));
    content.push(
      element("h3", "", `ranks of ${printable(run.run)} by class`),
      element("ul", "names", ...items),
      makeStrip(run, shades),
    );
  }
  host.replaceChildren(...content);
}

function uniformText(run) {
  const { length } = run.labels;
  if (length === 1 && run.size > 1) {
    return "the runs have one value for all ranks: which of them differ is not known";
  }
  const size = length > 1 ? `, for example the ${formatNumber(length)} of ${printable(run.run)}` : "";
  return `all ranks behave alike${size}`;
}

function makeStrip(run, shades) {
  const { labels } = run;
  const columns = Math.min(labels.length, MAX_COLUMNS);
  const rows = Math.ceil(labels.length / columns);
  const strip = svgElement("svg", {
    viewBox: `0 0 ${columns * 10} ${rows * 10}`,
    class: "strip",
    role: "img",
    "aria-label": `classes of ${labels.length} ranks`,
  });
  strip.style.maxWidth = `${columns * 14}px`;

  labels.forEach((label, rank) => {
    const cell = svgElement("rect", {
      x: (rank % columns) * 10,
      y: Math.floor(rank / columns) * 10,
      width: 9,
      height: 9,
      class: label < 0 ? "cell none" : `cell c${shades[label] % COLOURS}`,
    });
    const name = label < 0 ? "no value" : printable(run.names[label]);
    cell.append(svgElement("title", {}, `rank ${rank}: ${name}`));
    strip.append(cell);
  });
  return strip;
}

const selectedClass = (answer) => (
  answer.classes.find((behaviour) => behaviour.name === state.behaviour) || answer.classes[0]
);

function modelQueries() {
  const queries = seriesQueries("model", [selectedPath()]);
  if (!queries.length) return [];
  return [...queries, ...repetitionQueries("model", [selectedPath()])];
}

// The page of a model.
export async function drawModel() {
  const path = selectedPath();
  byId("m-path").textContent = path ? pathName(path) : "no model yet";
  byId("m-path").title = fullPath(path);
  fillSelect(byId("m-metric"), listMetrics(), selectedMetric());

  const answers = await fetchAnswers("m-all", () => modelQueries());
  if (!answers) return;
  const [answer, repetitions] = answers;
  const isEmpty = !answer || !answer.classes.length;
  byId("m-empty").hidden = !isEmpty;
  byId("m-empty").textContent = missingModelText(answer);
  byId("m-all").hidden = isEmpty;
  if (isEmpty) return;

  const names = data.board.parameters;
  const behaviour = selectedClass(answer);
  byId("m-axis-label").hidden = names.length < 2;
  fillSelect(byId("m-axis"), names, answer.axis);
  fillSelect(byId("m-class"), answer.classes.map((each) => each.name), behaviour.name);
  byId("rivals").checked = state.rivals;
  drawFixedParameters(answer);

  const ids = { plot: "m-plot", legend: "m-legend", logX: "m-log-x", logY: "m-log-y" };
  const axes = drawClasses(ids, answer, path, { height: 340, hasRivals: state.rivals, repetitions });
  drawResiduals(answer, path, axes);
  drawFacts(behaviour);
  drawSegments(behaviour);
  drawCandidates(behaviour);
  drawMeasuredPoints(behaviour, names);
  drawRanks(byId("m-ranks"), answer, MAX_STRIPS);
  byId("m-ranks-card").hidden = !answer.ranks.length;
  drawSurface(() => ({ callpath: selectedPath(), metric: selectedMetric(), class: selectedClass(answer).name }));
}

// Selectors for the parameters off the axis, with their measured values.
function drawFixedParameters(answer) {
  const others = Object.keys(answer.levels).filter((name) => name !== answer.axis);
  const content = JSON.stringify([others, answer.levels, answer.held]);
  const host = byId("m-held");
  if (host.dataset.content === content) return;
  host.dataset.content = content;

  const labels = others.map((name) => {
    const select = element("select");
    const levels = answer.levels[name].map(String);
    fillSelect(select, levels, String(answer.held[name]), (value) => formatNumber(Number(value)));
    select.addEventListener("change", () => go({ at: { ...state.at, [name]: Number(select.value) } }));
    return element("label", "", `${printable(name)} = `, select);
  });
  host.replaceChildren(...labels);
}

function drawResiduals(answer, path, axes) {
  const series = answer.classes.map((behaviour) => ({
    name: behaviour.name,
    shade: classShade(behaviour.name),
    at: answer.at,
    values: answer.at.map(() => 0),
    low: null,
    last: behaviour.last,
    points: behaviour.points.map(([x], i) => [x, behaviour.residuals[i]]),
  }));

  drawCurves(byId("m-residuals"), {
    key: `residuals ${path}`,
    axis: answer.axis,
    valueLabel: "residual",
    unit: "",
    isLogX: axes.isLogX,
    isLogY: false,
    series,
    height: 150,
    minExtent: 0.02, // residuals below 2 % fill only a small range of the plot
    format: formatPercent,
    label: "residuals of the points in percent of the model",
  });
}

function drawFacts(behaviour) {
  const { quality } = behaviour;
  const { smape, adjusted_r2: adjustedR2, rss } = quality;
  const facts = [
    ["error (SMAPE)", smape === null ? "–" : formatPercent(smape / 100)],
    ["adjusted R²", adjustedR2 === null ? "–" : adjustedR2.toFixed(4)],
    ["residual sum of squares", rss === null ? "–" : String(Number(rss.toPrecision(3)))],
    ["leading term", printable(quality.claim) || "–"],
    ["modeler", printable(behaviour.modeler)],
  ];
  byId("m-facts").replaceChildren(
    ...facts.flatMap(([name, value]) => [element("dt", "", name), element("dd", "", value)]),
  );
}

function drawSegments(behaviour) {
  const axis = printable(data.board.parameters[0] || "");
  const rows = behaviour.segments.map((segment) => (
    tableRow([["nowrap", rangeText(segment, axis)], ["path", withUnit(segment.text, behaviour.unit)]])
  ));
  const gaps = behaviour.gaps.map(([low, high, probability]) => {
    const chance = probability === null ? "" : ` (${formatPercent(probability)})`;
    return element("p", "gap", `behaviour changes between ${formatNumber(low)} and ${formatNumber(high)}${chance}`);
  });
  const notes = behaviour.findings.map((text) => element("p", "dim", printable(text)));
  byId("m-segments").replaceChildren(element("table", "", element("tbody", "", ...rows)), ...gaps, ...notes);
}

function rangeText(segment, axis) {
  const { from, to } = segment;
  if (from === null && to === null) return printable(segment.domain) || "everywhere";
  if (from === null) return `${axis} ≤ ${formatNumber(to)}`;
  if (to === null) return `${axis} ≥ ${formatNumber(from)}`;
  return `${formatNumber(from)} ≤ ${axis} ≤ ${formatNumber(to)}`;
}

function drawCandidates(behaviour) {
  const rows = behaviour.candidates.map((candidate) => {
    const { probability } = candidate;
    const bar = svgElement("svg", {
      viewBox: "0 0 100 8",
      class: "bar",
      preserveAspectRatio: "none",
      "aria-hidden": "true",
    });
    bar.append(
      svgElement("rect", { width: 100, height: 8, class: "rest" }),
      svgElement("rect", { width: 100 * probability, height: 8, class: "filled" }),
    );
    return tableRow([["n", formatPercent(probability)], bar, ["path", withUnit(candidate.text, behaviour.unit)]]);
  });
  byId("m-candidates").replaceChildren(...rows);
}

function drawMeasuredPoints(behaviour, names) {
  const titles = [...names.map((name) => ["n", printable(name)]), ["n", "measured"]];
  byId("m-points-head").replaceChildren(tableRow(titles, "", "th"));

  const rows = behaviour.measured.map(([coordinate, value]) => tableRow([
    ...coordinate.map((number) => ["n", formatNumber(number)]),
    ["n", formatQuantity(value, behaviour.unit)],
  ]));
  byId("m-points").replaceChildren(...rows);
}
