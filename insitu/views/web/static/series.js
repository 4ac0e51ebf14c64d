// A metric of a call path: its curves beside the tree, and all that is known of it on a page.
import {
  byId, choices, drawn, element, lastFrames, number, pathText, percent, printable,
  quantity, row, sign,
} from "./text.js";
import { answers, data, go, state } from "./state.js";
import { axesOf, clear, curves } from "./plot.js";
import { chosenMetric, chosenPath, chosenRow, metrics } from "./tree.js";
import { drawSurface } from "./surface.js";

const DEAREST = 5; // call paths that are compared where none was chosen
const BANDS = 3; // series whose intervals can be told apart in one plot
const CANDIDATES = 3; // drawn besides the model

// A question for each of some call paths; none where another view is shown by now.
const questions = (view, paths) => (state.view !== view ? [] : paths.filter(Boolean).map((path) => (
  ["series", { callpath: path, metric: chosenMetric(), axis: state.axis }, heldOthers()]
)));

// Parameters off the axis may be held elsewhere than at their largest values.
function heldOthers() {
  return state.view === "model" ? Object.fromEntries(Object.entries(state.at).filter(([name]) => name !== state.axis)) : {};
}

// The newest run in progress on the same axis, and what is due by now.
function liveOf(path, name, axis) {
  const run = data.runs[0];
  const metric = chosenMetric();
  const now = data.board.series.find((one) => one.callpath === path && one.metric === metric && one.behaviour === name);
  const at = run && Object.fromEntries(run.parameters)[axis];
  return now && now.live !== null && Number.isFinite(at) ? [at, now.live, now.expected] : null;
}

function seriesOf(answer, path, { hasRivals = false } = {}) {
  return answer.classes.map((one, shade) => ({
    name: one.name, shade, at: answer.at, values: one.values, low: one.bounds[0], high: one.bounds[1],
    last: one.last, points: one.points, gaps: one.gaps, text: one.text, unit: one.unit,
    rivals: hasRivals ? one.candidates.slice(1, 1 + CANDIDATES).map((rival) => rival.values) : [],
    live: liveOf(path, one.name, answer.axis),
  }));
}

function legend(host, series, unit, isTold = true) {
  const values = [];
  host.replaceChildren(...series.map((one) => {
    const value = element("output");
    values.push(value);
    const item = element("li", one.isChosen ? "chosen" : "", sign(one.shade), element("b", "", `${one.label} `), isTold ? one.told : "", value);
    return item;
  }));
  return (x, found) => values.forEach((output, i) => {
    output.textContent = x === null || found[i] === undefined ? "" : `  at ${number(x)}: ${quantity(found[i], unit)}`;
  });
}

function drawCurves(hosts, answer, path, more = {}) {
  const series = seriesOf(answer, path, more).map((one) => ({
    ...one, label: printable(one.name), told: printable(one.text), isChosen: one.name === state.behaviour,
  }));
  const { unit } = series[0];
  const points = series.flatMap((one) => one.points);
  const axes = axesOf(state, points);
  byId(hosts.logX).checked = axes.isLogX;
  byId(hosts.logY).checked = axes.isLogY;
  curves(byId(hosts.plot), {
    key: `${path} ${chosenMetric()} ${answer.axis}`, axis: answer.axis, unit, ...axes, series, height: more.height,
    label: `${chosenMetric()} of ${pathText(path)} over ${answer.axis}: measured points, model, 95 % interval`,
    told: legend(byId(hosts.legend), series, unit),
  });
  return axes;
}

const noModel = (answer) => (answer === null ? "nobody answers; asked again soon"
  : `no model of ${printable(chosenMetric())} yet: it takes runs at three scales or more`);
const NOTE = "points, model and 95 % interval; dashed beyond what was measured";

// The card beside the tree.
export async function drawDetail() {
  const path = chosenPath();
  byId("chosen").textContent = path ? pathText(path) : "no call path yet";
  byId("open").hidden = !path;
  const found = await answers("detail", () => questions("paths", [chosenPath()]));
  if (!found) return;
  const [answer] = found;
  const names = data.board.parameters;
  byId("axis-label").hidden = names.length < 2;
  if (answer) choices(byId("axis"), names, answer.axis);
  const here = chosenRow();
  const now = here && here.live !== null ? `; now ${quantity(here.live, here.unit)}${dueText(here)}` : "";
  if (!answer || !answer.classes.length) {
    clear(byId("plot"));
    byId("legend").replaceChildren();
    byId("note").textContent = path ? `${noModel(answer)}${now}` : "";
  } else {
    drawCurves({ plot: "plot", legend: "legend", logX: "log-x", logY: "log-y" }, answer, path, { height: 260 });
    const others = names.length > 1 ? ", other parameters at their largest values" : "";
    byId("note").textContent = `${printable(chosenMetric())}: ${NOTE}${others}${now}`;
  }
  drawRanks(byId("ranks"), answer, 1);
}

function dueText(found) {
  if (!found.expected) return "";
  const [low, , high] = found.expected.map((value) => quantity(value, found.unit));
  const word = found.verdict ? `, ${found.verdict} than` : ", within";
  return `${word} the ${low} … ${high} that are due by now`;
}

// Which rank is which class, in the order of ranks; a strip for each of some runs.
function drawRanks(host, answer, most) {
  const runs = answer ? answer.ranks.slice(0, most) : [];
  if (runs.length && runs.every((run) => run.names.length < 2)) {
    host.replaceChildren(element("p", "note", `all ranks behave alike${runs[0].labels.length > 1 ? `, as the ${number(runs[0].labels.length)} of ${printable(runs[0].run)} do` : ""}`));
    return;
  }
  host.replaceChildren(...runs.flatMap((run) => {
    const shades = run.names.map((name, i) => {
      const place = answer.classes.findIndex((one) => one.name === name);
      return place < 0 ? i : place;
    });
    const title = element("h3", "", `ranks of ${printable(run.run)} by class`);
    const told = element("ul", "names", ...run.names.map((name, i) => element("li", "", sign(shades[i]), `${printable(name)}: ${run.counts[i]}`)));
    return [title, told, strip(run, shades)];
  }));
}

function strip(run, shades) {
  const across = Math.min(run.labels.length, 64);
  const made = drawn("svg", { viewBox: `0 0 ${across * 10} ${Math.ceil(run.labels.length / across) * 10}`, class: "strip", role: "img", "aria-label": `classes of ${run.labels.length} ranks` });
  made.style.maxWidth = `${across * 14}px`;
  run.labels.forEach((label, rank) => {
    const cell = drawn("rect", {
      x: (rank % across) * 10, y: Math.floor(rank / across) * 10, width: 9, height: 9,
      class: label < 0 ? "cell none" : `cell c${shades[label] % 7}`,
    });
    cell.append(drawn("title", {}, `rank ${rank}: ${label < 0 ? "no value" : printable(run.names[label])}`));
    made.append(cell);
  });
  return made;
}

const classOf = (answer) => answer.classes.find((each) => each.name === state.behaviour) || answer.classes[0];

// The page of a model.
export async function drawModel() {
  const path = chosenPath();
  byId("m-path").textContent = path ? pathText(path) : "no call path yet";
  choices(byId("m-metric"), metrics(), chosenMetric());
  const found = await answers("m-all", () => questions("model", [chosenPath()]));
  if (!found) return;
  const [answer] = found;
  const isEmpty = !answer || !answer.classes.length;
  byId("m-empty").hidden = !isEmpty;
  byId("m-empty").textContent = noModel(answer);
  byId("m-all").hidden = isEmpty;
  if (isEmpty) return;
  const names = data.board.parameters;
  byId("m-axis-label").hidden = names.length < 2;
  choices(byId("m-axis"), names, answer.axis);
  drawHeld(answer);
  byId("rivals").checked = state.rivals;
  const hosts = { plot: "m-plot", legend: "m-legend", logX: "m-log-x", logY: "m-log-y" };
  const axes = drawCurves(hosts, answer, path, { height: 340, hasRivals: state.rivals });
  const one = classOf(answer);
  choices(byId("m-class"), answer.classes.map((each) => each.name), one.name);
  drawResiduals(answer, path, axes);
  drawFacts(one);
  drawCandidates(one);
  drawPoints(one, names);
  drawRanks(byId("m-ranks"), answer, 6);
  byId("m-ranks-card").hidden = !answer.ranks.length;
  drawSurface(() => ({ callpath: chosenPath(), metric: chosenMetric(), class: classOf(answer).name }));
}

// Values of the parameters off the axis, each among those that were measured.
function drawHeld(answer) {
  const others = Object.keys(answer.levels).filter((name) => name !== answer.axis);
  const said = JSON.stringify([others, answer.levels, answer.held]);
  const host = byId("m-held");
  if (host.dataset.said === said) return;
  host.dataset.said = said;
  host.replaceChildren(...others.map((name) => {
    const select = element("select");
    choices(select, answer.levels[name].map(String), String(answer.held[name]), (value) => number(Number(value)));
    select.addEventListener("change", () => go({ at: { ...state.at, [name]: Number(select.value) } }));
    return element("label", "", `${printable(name)} = `, select);
  }));
}

function drawResiduals(answer, path, axes) {
  const series = answer.classes.map((one, shade) => ({
    name: one.name, shade, at: answer.at, values: answer.at.map(() => 0), last: one.last, low: null,
    points: one.points.map(([x], i) => [x, one.residuals[i]]),
  }));
  curves(byId("m-residuals"), {
    key: `residuals ${path}`, axis: answer.axis, unit: "", isLogX: axes.isLogX, isLogY: false, series, height: 150,
    least: 0.02, format: percent, label: "how far the points are off the model, in percent of it",
  });
}

function drawFacts(one) {
  const { quality } = one;
  const facts = [
    ["error (SMAPE)", quality.smape === null ? "–" : percent(quality.smape / 100)],
    ["adjusted R²", quality.adjusted_r2 === null ? "–" : quality.adjusted_r2.toFixed(4)],
    ["residual sum of squares", quality.rss === null ? "–" : Number(quality.rss.toPrecision(3)).toString()],
    ["leading term is right with", percent(quality.probability)],
    ["modeler", printable(one.modeler)],
  ];
  byId("m-facts").replaceChildren(...facts.flatMap(([name, value]) => [element("dt", "", name), element("dd", "", value)]));
  const axis = printable(data.board.parameters[0] || "");
  const rows = one.segments.map((part) => {
    const where = part.from === null && part.to === null ? "everywhere"
      : part.from === null ? `${axis} ≤ ${number(part.to)}`
        : part.to === null ? `${axis} ≥ ${number(part.from)}` : `${number(part.from)} ≤ ${axis} ≤ ${number(part.to)}`;
    return row([["nowrap", where], ["path", printable(part.text)]]);
  });
  const gaps = one.gaps.map(([low, high, chance]) => element("p", "gap", `behaviour changes between ${number(low)} and ${number(high)}${chance === null ? "" : ` (${percent(chance)})`}`));
  const notes = one.findings.map((text) => element("p", "dim", printable(text)));
  byId("m-segments").replaceChildren(element("table", "", element("tbody", "", ...rows)), ...gaps, ...notes);
}

function drawCandidates(one) {
  byId("m-candidates").replaceChildren(...one.candidates.map((each) => {
    const bar = drawn("svg", { viewBox: "0 0 100 8", class: "bar", preserveAspectRatio: "none", "aria-hidden": "true" });
    bar.append(drawn("rect", { width: 100, height: 8, class: "rest" }), drawn("rect", { width: 100 * each.probability, height: 8, class: "part" }));
    return row([["n", percent(each.probability)], bar, ["path", printable(each.text)]]);
  }));
}

function drawPoints(one, names) {
  byId("m-points-head").replaceChildren(row([...names.map((name) => ["n", printable(name)]), ["n", "measured"]], "", "th"));
  byId("m-points").replaceChildren(...one.measured.map(([at, value]) => (
    row([...at.map((each) => ["n", number(each)]), ["n", quantity(value, one.unit)]])
  )));
}

// Those that were chosen, else the dearest.
function compared() {
  if (state.pins.length) return state.pins;
  const rows = data.board.series.filter((one) => one.metric === chosenMetric());
  return [...new Set(rows.sort((a, b) => b.share - a.share).map((one) => one.callpath))].slice(0, DEAREST);
}

// Several call paths in one picture.
export async function drawCompare() {
  const paths = compared();
  choices(byId("c-metric"), metrics(), chosenMetric());
  byId("relative").checked = state.relative;
  byId("c-note").textContent = "";
  const found = await answers("c-plot", () => questions("compare", compared()));
  if (!found) return;
  let shade = 0;
  const all = paths.flatMap((path, i) => (found[i] ? seriesOf(found[i], path) : []).map((one) => ({
    ...one, path, shade: shade++, label: `${lastFrames(path, 60)}${one.name === "all" ? "" : ` (${printable(one.name)})`}`, told: printable(one.text),
  }))).map((one) => (state.relative ? scaled(one) : one));
  const series = all.map((one) => (all.length > BANDS ? { ...one, low: null } : one));
  if (!series.length) {
    clear(byId("c-plot"));
    byId("c-legend").replaceChildren(element("li", "dim", noModel(found.find((one) => one === null))));
    return;
  }
  const which = state.pins.length ? "☐ in the tree adds and removes call paths" : "the costliest call paths; ☐ in the tree, or the key c, chooses others";
  byId("c-note").textContent = `${series.length > BANDS ? "points and models, dashed beyond what was measured; a page has the interval" : NOTE}; ${which}`;
  const { axis } = found.find((one) => one && one.classes.length);
  const axes = axesOf(state, series.flatMap((one) => one.points));
  byId("c-log-x").checked = axes.isLogX;
  byId("c-log-y").checked = axes.isLogY;
  const unit = state.relative ? "" : series[0].unit;
  const told = legend(byId("c-legend"), series, unit);
  [...byId("c-legend").children].forEach((item, i) => {
    const link = element("button", "link", "page");
    link.addEventListener("click", () => go({ view: "model", path: series[i].path, behaviour: series[i].name }, true));
    const drop = element("button", "link", "remove");
    drop.addEventListener("click", () => go({ pins: paths.filter((path) => path !== series[i].path) }));
    item.append(" ", link, ...(state.pins.length ? [" ", drop] : []));
  });
  curves(byId("c-plot"), {
    key: paths.join(" "), axis, unit, ...axes, series, height: 430, told,
    format: state.relative ? (value) => `× ${number(value)}` : undefined,
    label: `${chosenMetric()} of ${series.length} series over ${axis}`,
  });
}

// In multiples of the first measured value, so that growth is compared and not size.
function scaled(one) {
  const first = one.points.length ? one.points[0][1] : 0;
  if (!(first > 0)) return one;
  const by = (values) => values.map((value) => (value === null ? null : value / first));
  return { ...one, values: by(one.values), low: by(one.low), high: by(one.high), live: null, points: one.points.map(([x, y]) => [x, y / first]) };
}
