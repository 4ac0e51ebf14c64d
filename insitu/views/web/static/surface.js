// A model over two parameters: a heat map with lines of equal value, and the measured points.
import { byId, choices, drawn, element, isWide, logTicks, number, printable, quantity, scaleOf, ticks } from "./text.js";
import { answers, data, state } from "./state.js";

// Of cividis: dark to bright without red and green, alike for all eyes and in grey.
const RAMP = [[0, 34, 78], [33, 57, 109], [76, 84, 108], [108, 110, 114], [144, 137, 120], [182, 165, 112], [219, 195, 92], [254, 232, 56]];
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [560, 330, 66, 92, 10, 42];

const shadeOf = (part) => {
  const at = Math.min(Math.max(part, 0), 1) * (RAMP.length - 1);
  const i = Math.min(Math.floor(at), RAMP.length - 2);
  return `rgb(${RAMP[i].map((from, k) => Math.round(from + (at - i) * (RAMP[i + 1][k] - from))).join(",")})`;
};

// The two parameters that were chosen, else the first two.
function chosenAxes() {
  const names = data.board.parameters;
  const across = names.includes(state.across) ? state.across : names[0];
  const down = names.includes(state.down) && state.down !== across ? state.down : names.find((name) => name !== across);
  return [across, down];
}

function question(about) {
  const [x, y] = chosenAxes();
  const held = Object.fromEntries(Object.entries(state.at).filter(([name]) => name !== x && name !== y));
  return ["surface", { ...about, x, y }, held];
}

// Draw that of a class of a metric of a call path, which `about` gives as long as it is looked at.
export async function drawSurface(about) {
  const names = data.board.parameters;
  byId("s-card").hidden = names.length < 2;
  if (names.length < 2) return;
  const [across, down] = chosenAxes();
  choices(byId("s-x"), names, across);
  choices(byId("s-y"), names.filter((name) => name !== across), down);
  const { class: name } = about();
  const found = await answers("surface", () => [question(about())]);
  if (!found) return;
  const [answer] = found;
  if (!answer || !answer.values.length) {
    byId("surface").replaceChildren(element("p", "dim", "no model over these two"));
    return;
  }
  byId("surface").replaceChildren(picture(answer, name));
  const others = Object.entries(answer.held).map(([name, value]) => `${printable(name)} = ${number(value)}`).join(", ");
  byId("s-note").textContent = `class ${printable(name)}; circles are measured${others ? `; ${others}` : ""}`;
}

function picture(answer, name) {
  const { x, y, values, points, unit, axes } = answer;
  const isLog = [x, y].map((side) => side[0] > 0);
  const px = scaleOf(x[0], x.at(-1), LEFT, WIDTH - RIGHT, isLog[0]);
  const py = scaleOf(y[0], y.at(-1), HEIGHT - BOTTOM, TOP, isLog[1]);
  const known = values.flat().filter((value) => value !== null);
  const isLogZ = isWide(known);
  let [low, high] = [Math.min(...known), Math.max(...known)];
  if (low === high) high = low + (Math.abs(low) || 1);
  const pz = scaleOf(low, high, 0, 1, isLogZ);
  const made = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "heat", role: "img", "aria-label": `${printable(name)} over ${printable(axes[0])} and ${printable(axes[1])}` });
  made.append(...cells(x, y, values, px, py, pz));
  const levels = (isLogZ ? logTicks(low, high, 8, unit === "B") : ticks(low, high, 8)).filter((value) => value > low && value < high);
  for (const level of levels) made.append(...contour(x, y, values, level, px, py, quantity(level, unit), pz(level)));
  for (const [a, b, value] of points) {
    const dot = drawn("circle", { cx: px(a), cy: py(b), r: 5, class: "dot", fill: shadeOf(pz(value)) });
    dot.append(drawn("title", {}, `${axes[0]} = ${number(a)}, ${axes[1]} = ${number(b)}: ${quantity(value, unit)}`));
    made.append(dot);
  }
  made.append(...frame(x, y, px, py, isLog, axes), ...ramp(low, high, isLogZ, unit));
  return made;
}

// A cell about each place of the grid.
function cells(x, y, values, px, py, pz) {
  const middle = (places, at) => {
    const p = places.map(at);
    return [p[0], ...p.slice(1).map((one, i) => (one + p[i]) / 2), p.at(-1)];
  };
  const [xs, ys] = [middle(x, px), middle(y, py)];
  return values.flatMap((line, j) => line.map((value, i) => drawn("rect", {
    x: xs[i].toFixed(1), y: ys[j + 1].toFixed(1), width: (xs[i + 1] - xs[i] + 0.6).toFixed(1), height: (ys[j] - ys[j + 1] + 0.6).toFixed(1),
    fill: value === null ? "none" : shadeOf(pz(value)),
  })));
}

// Where the value crosses a level between neighbours of the grid; each square of it gives a line.
function contour(x, y, values, level, px, py, text, part) {
  let path = "";
  let label = null;
  for (let j = 0; j + 1 < y.length; j++) {
    for (let i = 0; i + 1 < x.length; i++) {
      const corners = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]].map(([a, b]) => [px(x[a]), py(y[b]), values[b][a]]);
      if (corners.some(([, , value]) => value === null)) continue;
      const crossings = [];
      corners.forEach((from, k) => {
        const to = corners[(k + 1) % 4];
        if ((from[2] < level) === (to[2] < level)) return;
        const t = (level - from[2]) / (to[2] - from[2]);
        crossings.push([from[0] + t * (to[0] - from[0]), from[1] + t * (to[1] - from[1])]);
      });
      for (let k = 0; k + 1 < crossings.length; k += 2) {
        if (Math.hypot(crossings[k][0] - crossings[k + 1][0], crossings[k][1] - crossings[k + 1][1]) < 0.5) continue;
        path += `M${crossings[k].map((one) => one.toFixed(1)).join(" ")}L${crossings[k + 1].map((one) => one.toFixed(1)).join(" ")}`;
        const [cx, cy] = crossings[k];
        const isInside = cx > LEFT + 24 && cx < WIDTH - RIGHT - 30 && cy > TOP + 16 && cy < HEIGHT - BOTTOM - 10;
        if (isInside && (label === null || Math.abs(cx - cy - 150) < Math.abs(label[0] - label[1] - 150))) label = [cx, cy];
      }
    }
  }
  const tone = part > 0.55 ? "over-bright" : "over-dark";
  const out = [drawn("path", { d: path, class: `contour ${tone}` })];
  if (label) out.push(drawn("text", { x: label[0], y: label[1] - 3, class: `x ${tone}` }, text));
  return out;
}

function frame(x, y, px, py, isLog, axes) {
  const of = (side, log) => (log ? logTicks(side[0], side.at(-1), 7) : ticks(side[0], side.at(-1), 6));
  const out = [drawn("path", { class: "edge", d: `M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - RIGHT}` })];
  for (const value of of(x, isLog[0])) {
    out.push(drawn("path", { class: "edge", d: `M${px(value)} ${HEIGHT - BOTTOM}v5` }));
    out.push(drawn("text", { class: "x", x: px(value), y: HEIGHT - BOTTOM + 17 }, number(value)));
  }
  for (const value of of(y, isLog[1])) {
    out.push(drawn("path", { class: "edge", d: `M${LEFT} ${py(value)}h-5` }));
    out.push(drawn("text", { class: "y", x: LEFT - 8, y: py(value) + 4 }, number(value)));
  }
  out.push(drawn("text", { class: "x name", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6 }, printable(axes[0])));
  out.push(drawn("text", { class: "x name", transform: `translate(14 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)` }, printable(axes[1])));
  return out;
}

function ramp(low, high, isLog, unit) {
  const [left, steps] = [WIDTH - RIGHT + 22, 40];
  const size = (HEIGHT - BOTTOM - TOP) / steps;
  const out = Array.from({ length: steps }, (_, i) => drawn("rect", { x: left, y: HEIGHT - BOTTOM - (i + 1) * size, width: 12, height: size + 0.6, fill: shadeOf(i / (steps - 1)) }));
  const at = scaleOf(low, high, HEIGHT - BOTTOM, TOP, isLog);
  for (const value of isLog ? logTicks(low, high, 6, unit === "B") : ticks(low, high, 5)) {
    out.push(drawn("text", { x: left + 16, y: at(value) + 4 }, quantity(value, unit)));
  }
  return out;
}
