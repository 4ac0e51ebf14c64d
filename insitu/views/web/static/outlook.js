// Predictions at another scale: shares of the cost along a parameter, and a coordinate to choose.
import {
  byId, COLOURS, element, fillSelect, formatBounds, formatFactor, formatNumber, formatPercent, formatQuantity, growthOf,
  logTicks, makeScale, printable, svgElement, tableRow,
} from "./text.js";
import { data, fetchAnswers, go, noAnswerText, state } from "./state.js";
import { fullPath, pathName, shortPath } from "./names.js";

const CURVE_FACTOR = 4; // the curves end this many times farther
const SLIDER_FACTOR = 16384; // times the largest measured value, the end of a slider
const SLIDER_STEPS = 240;
const MEAN_NOTE = "the mean over ranks, because the sizes of classes are unknown there";
const MIN_REST = 0.01; // smaller shares without a model are not mentioned

const WIDTH = 720;
const HEIGHT = 330;
const LEFT = 46;
const RIGHT = WIDTH - 24;
const TOP = 10;
const BOTTOM = HEIGHT - 42;

let ranges = {}; // measured by parameter: { low, high }

function measuredRanges() {
  const result = {};
  const { parameters, series } = data.board;
  for (const row of series) {
    for (const [coordinate] of row.points) {
      parameters.forEach((name, i) => {
        const value = coordinate[i];
        const { low, high } = result[name] || { low: value, high: value };
        result[name] = { low: Math.min(low, value), high: Math.max(high, value) };
      });
    }
  }
  return result;
}

const sliderEnd = (name) => ranges[name].high * SLIDER_FACTOR;
const mainParameter = (names) => names.find((name) => name === "p") || names[0];

const defaultValue = (name) => data.target[name] ?? ranges[name].high;

// The coordinate on display: the default target, unless the user chose another.
function targetCoordinate(names) {
  return Object.fromEntries(names.map((name) => [name, state.at[name] ?? defaultValue(name)]));
}

// The coordinate of the outlook for other views; null as long as nothing is measured.
export function outlookTarget() {
  ranges = measuredRanges();
  const names = Object.keys(ranges);
  return names.length ? targetCoordinate(names) : null;
}

const selectedAxis = (names) => (names.includes(state.axis) ? state.axis : mainParameter(names));

function listQueries(names) {
  if (state.view !== "outlook") return [];

  const at = targetCoordinate(names);
  const axis = selectedAxis(names);
  const others = Object.fromEntries(Object.entries(at).filter(([name]) => name !== axis));

  // Round the end up to a power of two, so that the picture does not change with each step.
  const end = Math.max(at[axis], defaultValue(axis) * CURVE_FACTOR);
  const to = 2 ** Math.ceil(Math.log2(end));
  return [
    { name: "shares", words: { axis, to }, at: others },
    { name: "outlook", words: {}, at },
  ];
}

export async function drawOutlook() {
  ranges = measuredRanges();
  const names = Object.keys(ranges);
  byId("o-empty").hidden = names.length > 0;
  byId("o-all").hidden = !names.length;
  if (!names.length) return;

  const at = targetCoordinate(names);
  const axis = selectedAxis(names);
  drawSliders(names, at, axis);

  const answers = await fetchAnswers("o-all", () => listQueries(names));
  if (!answers) return;
  const [shares, outlook] = answers;
  const unclear = new Set((outlook?.rows ?? []).filter((row) => row.is_share_unclear).map((row) => row.callpath));
  if (outlook && isCrowded(outlook)) {
    hideShares("not drawn: ranks lacked cores, and times contain waiting for a core");
  } else if (shares && shares.names.length) {
    drawShares(shares, at[axis], unclear);
  } else {
    hideShares(shares ? "not drawn: it is unclear what takes the time, or the parameter has values of zero or less" : noAnswerText());
  }
  if (outlook) drawTable(outlook, at);
}

function drawSliders(names, at, axis) {
  fillSelect(byId("o-axis"), names, axis);
  byId("o-axis-label").hidden = names.length < 2;

  const host = byId("sliders");
  const content = JSON.stringify([names, ranges]);
  if (host.dataset.content !== content) {
    host.dataset.content = content;
    host.replaceChildren(...names.map(makeSlider));
  }

  for (const name of names) {
    const [field, slider] = document.getElementsByName(`at-${name}`);
    if (document.activeElement !== slider) slider.value = String(stepOf(name, at[name]));
    if (document.activeElement !== field) field.value = String(at[name]);
    slider.setAttribute("aria-valuetext", formatNumber(at[name]));
  }
}

// A slider moves in equal ratios, from the smallest measured value to far beyond the largest.
const isGeometric = (name) => ranges[name].low > 0;

function stepOf(name, value) {
  const { low } = ranges[name];
  const end = sliderEnd(name);
  const fraction = isGeometric(name) ? Math.log(value / low) / Math.log(end / low) : (value - low) / (end - low);
  return Math.round(SLIDER_STEPS * fraction);
}

function valueOf(name, step) {
  const { low } = ranges[name];
  const end = sliderEnd(name);
  const fraction = step / SLIDER_STEPS;
  const value = isGeometric(name) ? low * (end / low) ** fraction : low + fraction * (end - low);
  if (value < 16) return Number.isInteger(low) ? Math.round(value) : Number(value.toPrecision(3));

  const power = 2 ** Math.round(Math.log2(value)); // snap to powers of two
  return Math.abs(value / power - 1) < 0.04 ? power : Number(value.toPrecision(2));
}

function makeSlider(name) {
  const slider = element("input");
  Object.assign(slider, { type: "range", min: 0, max: SLIDER_STEPS, name: `at-${name}` });
  slider.setAttribute("aria-label", `target value of ${name}`);

  const field = element("input", "number");
  Object.assign(field, { type: "number", name: `at-${name}`, min: 0, step: "any" });
  field.setAttribute("aria-label", `target value of ${name}, as a number`);

  const setValue = (value) => {
    if (Number.isFinite(value) && value > 0) go({ at: { ...state.at, [name]: value } });
  };
  slider.addEventListener("input", () => setValue(valueOf(name, Number(slider.value))));
  field.addEventListener("change", () => setValue(Number(field.value)));

  const largest = element("span", "dim", `measured up to ${formatNumber(ranges[name].high)}`);
  return element("label", "slider", element("b", "", `${printable(name)} =`), field, slider, largest);
}

// Colours repeat after COLOURS names, in a lighter shade. The unnamed rest is grey.
function shareClass(name, i) {
  return name === "" ? "rest" : `c${i % COLOURS} n${Math.floor(i / COLOURS)}`;
}

// Whether ranks shared cores in the runs whose times are the cost.
const isCrowded = ({ rows }) => rows.some((row) => row.trust === "crowded");

function hideShares(reason) {
  byId("shares").replaceChildren(element("p", "dim", reason));
  byId("shares-key").replaceChildren();
  byId("shares-card").hidden = true;
}

// Exclusive times add up and are drawn as bands; other metrics are drawn as lines.
function drawShares(answer, target, unclear) {
  const { at, names, parts, axis, last, farthest, metric } = answer;
  byId("shares-card").hidden = false;
  const isSum = metric === "time_exclusive";
  const end = at.at(-1);
  const px = makeScale(at[0], farthest, LEFT, RIGHT, true);
  const py = makeScale(0, 1, BOTTOM, TOP, false);
  const svg = svgElement("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    class: "shares",
    role: "img",
    "aria-label": `shares of ${metric} over ${axis}`,
  });
  const listPositions = (values) => at.map((x, i) => `${px(x).toFixed(1)} ${py(values[i]).toFixed(1)}`);

  let floor = at.map(() => 0);
  names.forEach((name, i) => {
    const shares = parts[i].map((value) => value || 0);
    const className = shareClass(name, i);
    if (!isSum) {
      svg.append(svgElement("path", { class: `line ${className}`, d: `M${listPositions(shares).join("L")}` }));
      return;
    }

    const top = floor.map((value, k) => value + shares[k]);
    const outline = [...listPositions(top), ...listPositions(floor).reverse()];
    const band = svgElement("path", { class: `share ${className}`, d: `M${outline.join("L")}Z` });
    band.append(svgElement("title", {}, shareName(name, metric)));
    svg.append(band);
    floor = top;
  });

  if (end < farthest) {
    const middle = { class: "x", x: (px(end) + RIGHT) / 2, y: (TOP + BOTTOM) / 2 };
    svg.append(svgElement("text", middle, `unclear beyond ${printable(axis)}=${formatNumber(end)}`));
  }
  svg.append(...makeShareAxes([at[0], farthest], px, py, axis));
  svg.append(
    svgElement("path", { class: "last", d: `M${px(last)} ${TOP}V${BOTTOM}` }),
    svgElement("text", { class: "y caption", x: px(last) - 5, y: TOP + 12 }, "measured"),
    svgElement("path", { class: "target", d: `M${px(target)} ${TOP - 4}V${BOTTOM + 4}` }),
  );
  byId("shares").replaceChildren(svg);
  byId("o-metric").textContent = `share of ${printable(metric)}${isSum ? "" : " in the largest"}`;
  drawSharesKey(answer, target, unclear);
}

function makeShareAxes(range, px, py, axis) {
  const nodes = [];
  for (const value of [0, 0.25, 0.5, 0.75, 1]) {
    nodes.push(svgElement("text", { class: "y", x: LEFT - 6, y: py(value) + 4 }, formatPercent(value)));
  }
  for (const value of logTicks(...range, 8)) {
    nodes.push(
      svgElement("path", { class: "edge", d: `M${px(value)} ${BOTTOM}v5` }),
      svgElement("text", { class: "x", x: px(value), y: BOTTOM + 17 }, formatNumber(value)),
    );
  }
  nodes.push(svgElement("text", { class: "x name", x: (LEFT + RIGHT) / 2, y: HEIGHT - 6 }, printable(axis)));
  return nodes;
}

const shareName = (name, metric) => (name === "" ? `all others of ${printable(metric)}` : fullPath(name));

// Which band is which call path, with its share at the target.
function drawSharesKey({ at, names, parts, metric, axis, farthest }, target, unclear) {
  const end = at.at(-1);
  const isBeyond = end < farthest && target > end;
  byId("shares-at").textContent = isBeyond ? `at ${printable(axis)} = ${formatNumber(end)}` : "at the target";
  const distance = (x) => Math.abs(Math.log(x / target));
  const nearest = at.reduce((best, x, i) => (distance(x) < distance(at[best]) ? i : best), 0);

  const items = names.map((name, i) => {
    const key = svgElement("svg", { viewBox: "0 0 12 12", class: "key", "aria-hidden": "true" });
    key.append(svgElement("rect", { width: 12, height: 12, class: `share ${shareClass(name, i)}` }));

    const share = element("b", "n", !isBeyond && unclear.has(name) ? "unclear" : formatPercent(parts[i][nearest]));
    const label = name === "" ? shareName(name, metric) : shortPath(name, 64);
    const item = element("li", "", key, share, " ", label);
    item.title = shareName(name, metric);
    return item;
  });
  byId("shares-key").replaceChildren(...items);
}

function drawTable(outlook, at) {
  byId("headline").textContent = headlineText(outlook, at);
  byId("o-rows").replaceChildren(...outlook.rows.map((row) => makeOutlookRow(row, outlook)));

  const notes = ["per rank, with 95 % bounds"];
  if (outlook.left_out) notes.push(`${outlook.left_out} call paths take less`);
  if (outlook.rest >= MIN_REST) {
    notes.push(`call paths without a model take ${formatPercent(outlook.rest)} of the time now and are not included`);
  }
  if (outlook.rows.some((row) => row.by_mean)) notes.push(`≈ by ${MEAN_NOTE}`);
  byId("o-note").textContent = notes.join("; ");
}

function headlineText({ rows, metric }, at) {
  const target = Object.entries(at).map(([name, value]) => `${printable(name)} = ${formatNumber(value)}`).join(", ");
  const first = rows.find((row) => row.then[0] !== null); // shares of unreliable predictions are null
  if (isCrowded({ rows })) {
    return `At ${target} no share of ${printable(metric)} is predicted: ranks lacked cores, and times contain waiting for a core.`;
  }
  if (first && first.is_share_unclear) {
    const doubtful = rows.filter((row) => row.unclear || row.then[0] === null);
    const largest = doubtful.reduce((best, row) => (row.share > best.share ? row : best), doubtful[0] ?? first);
    const name = `${pathName(largest.callpath)}, ${formatPercent(largest.share)} now,`;
    const reason = largest.unclear.replace(/^unclear: /, "unclear, ") || "a guess";
    const others = doubtful.length > 1 ? `; so are ${doubtful.length - 1} others` : "";
    return `At ${target} it is unclear what dominates: ${name} is ${reason}${others}.`;
  }
  if (first) {
    const share = `${formatPercent(first.then[0])} of ${printable(metric)}${boundsText(first.then)}`;
    return `At ${target} ${pathName(first.callpath)} takes ${share}; it takes ${formatPercent(first.share)} now.`;
  }
  if (rows.length) return `At ${target}, all predictions are too uncertain to name the most expensive call path.`;
  return `At ${target}, no call path has a cost.`;
}

function boundsText([value, low, high]) {
  if (low === null) return "";
  const texts = [low, high].map((bound) => formatPercent(bound));
  const isNarrow = texts.every((text) => text === formatPercent(value));
  return isNarrow ? "" : ` (${texts[0]} to ${texts[1]} at 95 %)`;
}

function thenText({ then, is_share_unclear, by_mean, unclear }) {
  if (then[0] === null) return unclear ? "unclear" : "guess";
  return is_share_unclear ? "unclear" : (by_mean ? "≈ " : "") + formatPercent(then[0]);
}

function makeOutlookRow(row, { metric, unit }) {
  const [cost, low, high] = row.cost;
  const name = element("button", "link path", shortPath(row.callpath, 70));
  name.title = fullPath(row.callpath);
  name.addEventListener("click", () => go({ view: "model", path: row.callpath, behaviour: "", metric }, true));

  const growth = growthOf(cost, row.now);
  return tableRow([
    ["n", thenText(row)],
    ["n dim", formatPercent(row.share)],
    name,
    ["n", row.unclear || formatQuantity(cost, unit)],
    ["n dim", formatBounds(low, high, unit)],
    ["n", row.unclear || growth === null ? "–" : formatFactor(growth)],
    [`trust ${row.trust.replace(/ /g, "-")}`, row.trust],
  ]);
}
