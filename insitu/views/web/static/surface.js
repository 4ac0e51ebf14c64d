// A model over two parameters: a heat map with contour lines, and the measured points.
import {
  byId, element, fillSelect, formatNumber, formatQuantity, isWide, linearTicks, logTicks, makeScale,
  printable, svgElement,
} from "./text.js";
import { data, fetchAnswers, state } from "./state.js";

// Colours of cividis, from dark to bright: distinguishable without red and green, and in grey.
const RAMP = [
  [0, 34, 78], [33, 57, 109], [76, 84, 108], [108, 110, 114],
  [144, 137, 120], [182, 165, 112], [219, 195, 92], [254, 232, 56],
];
const RAMP_STEPS = 40; // rectangles of the colour scale
const BRIGHT = 0.55; // fraction of the ramp from which lines are black

const WIDTH = 560;
const HEIGHT = 330;
const LEFT = 66;
const RIGHT = WIDTH - 92;
const TOP = 10;
const BOTTOM = HEIGHT - 42;

// The colour at a fraction of the ramp.
function rampColour(fraction) {
  const position = Math.min(Math.max(fraction, 0), 1) * (RAMP.length - 1);
  const i = Math.min(Math.floor(position), RAMP.length - 2);
  const channels = RAMP[i].map((from, k) => Math.round(from + (position - i) * (RAMP[i + 1][k] - from)));
  return `rgb(${channels.join(",")})`;
}

// The two selected parameters; the first two by default.
function selectedAxes() {
  const names = data.board.parameters;
  const across = names.includes(state.across) ? state.across : names[0];
  const isDown = names.includes(state.down) && state.down !== across;
  return [across, isDown ? state.down : names.find((name) => name !== across)];
}

function makeQuery(series) {
  const [x, y] = selectedAxes();
  const at = Object.fromEntries(Object.entries(state.at).filter(([name]) => name !== x && name !== y));
  return { name: "surface", words: { ...series, x, y }, at };
}

// Draw the surface of a series. `selectSeries` returns the call path, metric and class on display.
export async function drawSurface(selectSeries) {
  const names = data.board.parameters;
  byId("s-card").hidden = names.length < 2;
  if (names.length < 2) return;

  const [across, down] = selectedAxes();
  fillSelect(byId("s-x"), names, across);
  fillSelect(byId("s-y"), names.filter((name) => name !== across), down);

  const behaviour = printable(selectSeries().class);
  const answers = await fetchAnswers("surface", () => [makeQuery(selectSeries())]);
  if (!answers) return;
  const [answer] = answers;
  if (!answer || !answer.values.length) {
    const reason = (answer && answer.reason) || "no model over these two parameters";
    byId("surface").replaceChildren(element("p", "dim", printable(reason)));
    byId("s-note").textContent = "";
    return;
  }

  byId("surface").replaceChildren(makePicture(answer, behaviour));
  const others = Object.entries(answer.held).map(([name, value]) => `${printable(name)} = ${formatNumber(value)}`);
  byId("s-note").textContent = [`class ${behaviour}; circles are measured`, ...others].join("; ");
}

function makePicture(answer, behaviour) {
  const { x, y, values, points, unit, axes } = answer;
  const isLogX = x[0] > 0;
  const isLogY = y[0] > 0;
  const px = makeScale(x[0], x.at(-1), LEFT, RIGHT, isLogX);
  const py = makeScale(y[0], y.at(-1), BOTTOM, TOP, isLogY);

  const finite = values.flat().filter((value) => value !== null);
  const isLogZ = isWide(finite);
  const low = Math.min(...finite);
  let high = Math.max(...finite);
  if (low === high) high = low + (Math.abs(low) || 1);
  const pz = makeScale(low, high, 0, 1, isLogZ);

  const grid = { x, y, values, px, py, pz };
  const svg = svgElement("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    class: "heat",
    role: "img",
    "aria-label": `${behaviour} over ${printable(axes[0])} and ${printable(axes[1])}`,
  });
  svg.append(...makeCells(grid));

  const levels = isLogZ ? logTicks(low, high, 8, unit === "B") : linearTicks(low, high, 8);
  for (const level of levels) {
    if (level > low && level < high) svg.append(...makeContour(grid, level, unit));
  }
  for (const [a, b, value] of points) {
    const dot = svgElement("circle", { cx: px(a), cy: py(b), r: 5, class: "dot", fill: rampColour(pz(value)) });
    const coordinate = `${axes[0]} = ${formatNumber(a)}, ${axes[1]} = ${formatNumber(b)}`;
    dot.append(svgElement("title", {}, `${coordinate}: ${formatQuantity(value, unit)}`));
    svg.append(dot);
  }

  svg.append(...makeAxes(grid, isLogX, isLogY, axes));
  svg.append(...makeColourScale(low, high, isLogZ, unit));
  return svg;
}

// A rectangle around each point of the grid.
function makeCells({ x, y, values, px, py, pz }) {
  const xs = cellEdges(x.map(px));
  const ys = cellEdges(y.map(py));
  const overlap = 0.6; // hides gaps between neighbours

  const cells = [];
  values.forEach((line, j) => {
    line.forEach((value, i) => {
      cells.push(svgElement("rect", {
        x: xs[i].toFixed(1),
        y: ys[j + 1].toFixed(1),
        width: (xs[i + 1] - xs[i] + overlap).toFixed(1),
        height: (ys[j] - ys[j + 1] + overlap).toFixed(1),
        fill: value === null ? "none" : rampColour(pz(value)),
      }));
    });
  });
  return cells;
}

// The middles between neighbours, and the two ends.
function cellEdges(positions) {
  const middles = positions.slice(1).map((position, i) => (position + positions[i]) / 2);
  return [positions[0], ...middles, positions.at(-1)];
}

// The line along which the values cross a level, with a label (marching squares).
function makeContour(grid, level, unit) {
  const { x, y, px, py, pz, values } = grid;
  let path = "";
  let label = null;

  for (let j = 0; j + 1 < y.length; j += 1) {
    for (let i = 0; i + 1 < x.length; i += 1) {
      const indices = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]];
      const corners = indices.map(([a, b]) => [px(x[a]), py(y[b]), values[b][a]]);

      for (const [from, to] of listCrossings(corners, level)) {
        path += `M${positionText(from)}L${positionText(to)}`;
        if (canLabel(from) && (label === null || labelDistance(from) < labelDistance(label))) label = from;
      }
    }
  }

  const tone = pz(level) > BRIGHT ? "over-bright" : "over-dark";
  const nodes = [svgElement("path", { d: path, class: `contour ${tone}` })];
  if (label) {
    const position = { x: label[0], y: label[1] - 3, class: `x ${tone}` };
    nodes.push(svgElement("text", position, formatQuantity(level, unit)));
  }
  return nodes;
}

// The pieces of a contour line inside a square, as pairs of positions on its edges.
function listCrossings(corners, level) {
  if (corners.some(([, , value]) => value === null)) return [];

  const crossings = [];
  corners.forEach((from, k) => {
    const to = corners[(k + 1) % 4];
    if ((from[2] < level) === (to[2] < level)) return;
    const t = (level - from[2]) / (to[2] - from[2]);
    crossings.push([from[0] + t * (to[0] - from[0]), from[1] + t * (to[1] - from[1])]);
  });

  const pieces = [];
  for (let k = 0; k + 1 < crossings.length; k += 2) {
    const [from, to] = [crossings[k], crossings[k + 1]];
    const length = Math.hypot(from[0] - to[0], from[1] - to[1]);
    if (length >= 0.5) pieces.push([from, to]); // shorter pieces are invisible
  }
  return pieces;
}

const positionText = (position) => position.map((value) => value.toFixed(1)).join(" ");

// Labels keep a distance from the frame, and are placed along one diagonal of the picture.
const canLabel = ([left, top]) => (
  left > LEFT + 24 && left < RIGHT - 30 && top > TOP + 16 && top < BOTTOM - 10
);
const labelDistance = ([left, top]) => Math.abs(left - top - 150);

function makeAxes({ x, y, px, py }, isLogX, isLogY, axes) {
  const xTicks = isLogX ? logTicks(x[0], x.at(-1), 7) : linearTicks(x[0], x.at(-1), 6);
  const yTicks = isLogY ? logTicks(y[0], y.at(-1), 7) : linearTicks(y[0], y.at(-1), 6);

  const nodes = [svgElement("path", { class: "edge", d: `M${LEFT} ${TOP}V${BOTTOM}H${RIGHT}` })];
  for (const value of xTicks) {
    nodes.push(
      svgElement("path", { class: "edge", d: `M${px(value)} ${BOTTOM}v5` }),
      svgElement("text", { class: "x", x: px(value), y: BOTTOM + 17 }, formatNumber(value)),
    );
  }
  for (const value of yTicks) {
    nodes.push(
      svgElement("path", { class: "edge", d: `M${LEFT} ${py(value)}h-5` }),
      svgElement("text", { class: "y", x: LEFT - 8, y: py(value) + 4 }, formatNumber(value)),
    );
  }

  const middle = (TOP + BOTTOM) / 2;
  nodes.push(
    svgElement("text", { class: "x name", x: (LEFT + RIGHT) / 2, y: HEIGHT - 6 }, printable(axes[0])),
    svgElement("text", { class: "x name", transform: `translate(14 ${middle}) rotate(-90)` }, printable(axes[1])),
  );
  return nodes;
}

function makeColourScale(low, high, isLog, unit) {
  const left = RIGHT + 22;
  const height = (BOTTOM - TOP) / RAMP_STEPS;

  const nodes = [];
  for (let i = 0; i < RAMP_STEPS; i += 1) {
    nodes.push(svgElement("rect", {
      x: left,
      y: BOTTOM - (i + 1) * height,
      width: 12,
      height: height + 0.6,
      fill: rampColour(i / (RAMP_STEPS - 1)),
    }));
  }

  const py = makeScale(low, high, BOTTOM, TOP, isLog);
  const values = isLog ? logTicks(low, high, 6, unit === "B") : linearTicks(low, high, 5);
  for (const value of values) {
    nodes.push(svgElement("text", { x: left + 16, y: py(value) + 4 }, formatQuantity(value, unit)));
  }
  return nodes;
}
