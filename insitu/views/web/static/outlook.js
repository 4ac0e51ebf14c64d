// What the models say of another scale: shares of the cost along a parameter, and a place to choose.
import {
  byId, choices, drawn, element, lastFrames, logTicks, number, pathText, percent, printable, quantity,
  row, scaleOf, times, COLOURS,
} from "./text.js";
import { answers, data, go, state } from "./state.js";

const AHEAD = 16; // times the largest measured value, where nobody chose a place
const FARTHEST = 4096;
const RELEVANT = 0.01; // a share that is worth a word
const STEPS = 240; // of a slider
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [720, 330, 46, 24, 10, 42];

let ranges = {};

function measuredRanges() {
  const found = {};
  data.board.parameters.forEach((name, i) => {
    for (const one of data.board.series) {
      for (const [at] of one.points) {
        if (!found[name]) found[name] = [at[i], at[i]];
        found[name] = [Math.min(found[name][0], at[i]), Math.max(found[name][1], at[i])];
      }
    }
  });
  return found;
}

const farthest = (name) => ranges[name][1] * FARTHEST;

// The place that is looked at; as far as nobody said, the first parameter is far and others stay.
function place(names) {
  const first = names.find((name) => name === "p") || names[0];
  return Object.fromEntries(names.map((name) => [name, state.at[name] ?? (name === first ? AHEAD : 1) * ranges[name][1]]));
}

const axisOf = (names) => (names.includes(state.axis) ? state.axis : names.find((name) => name === "p") || names[0]);

function questions(names) {
  if (state.view !== "outlook") return [];
  const [at, axis] = [place(names), axisOf(names)];
  const others = Object.fromEntries(Object.entries(at).filter(([name]) => name !== axis));
  const end = Math.max(at[axis], ranges[axis][1] * AHEAD * 4);
  const to = 2 ** Math.ceil(Math.log2(end)); // so that the picture does not change with each step
  return [["shares", { axis, to }, others], ["outlook", {}, at]];
}

export async function drawOutlook() {
  ranges = measuredRanges();
  const names = Object.keys(ranges);
  byId("o-empty").hidden = names.length > 0;
  byId("o-all").hidden = !names.length;
  if (!names.length) return;
  const at = place(names);
  const axis = axisOf(names);
  drawSliders(names, at, axis);
  const found = await answers("o-all", () => questions(names));
  if (!found) return;
  const [shares, there] = found;
  if (shares && shares.names.length) drawShares(shares, at[axis]);
  else byId("shares").replaceChildren(element("p", "dim", shares ? "shares need a parameter above zero" : "nobody answers; asked again soon"));
  if (there) drawPlaces(there, at);
}

// A slider runs in equal ratios from the smallest measured value to far beyond the largest.
function drawSliders(names, at, axis) {
  choices(byId("o-axis"), names, axis);
  byId("o-axis-label").hidden = names.length < 2;
  const host = byId("sliders");
  const said = JSON.stringify([names, ranges]);
  if (host.dataset.said !== said) {
    host.dataset.said = said;
    host.replaceChildren(...names.map(sliderOf));
  }
  for (const name of names) {
    const [field, slider] = document.getElementsByName(`at-${name}`);
    if (document.activeElement !== slider) slider.value = String(stepOf(name, at[name]));
    if (document.activeElement !== field) field.value = String(at[name]);
    slider.setAttribute("aria-valuetext", number(at[name]));
  }
}

const isRatio = (name) => ranges[name][0] > 0;
const stepOf = (name, value) => {
  const low = ranges[name][0];
  return Math.round(STEPS * (isRatio(name) ? Math.log(value / low) / Math.log(farthest(name) / low) : (value - low) / (farthest(name) - low)));
};

function valueOf(name, step) {
  const low = ranges[name][0];
  const part = step / STEPS;
  const value = isRatio(name) ? low * (farthest(name) / low) ** part : low + part * (farthest(name) - low);
  if (value < 16) return Number.isInteger(low) ? Math.round(value) : Number(value.toPrecision(3));
  const power = 2 ** Math.round(Math.log2(value)); // round values are easy to hit
  return Math.abs(value / power - 1) < 0.04 ? power : Number(value.toPrecision(2));
}

function sliderOf(name) {
  const slider = element("input");
  Object.assign(slider, { type: "range", min: 0, max: STEPS, name: `at-${name}` });
  slider.setAttribute("aria-label", `where to look: ${name}`);
  const field = element("input", "number");
  Object.assign(field, { type: "number", name: `at-${name}`, min: 0, step: "any" });
  field.setAttribute("aria-label", `where to look: ${name}, as a number`);
  const move = (value) => Number.isFinite(value) && value > 0 && go({ at: { ...state.at, [name]: value } });
  slider.addEventListener("input", () => move(valueOf(name, Number(slider.value))));
  field.addEventListener("change", () => move(Number(field.value)));
  const largest = element("span", "dim", `measured to ${number(ranges[name][1])}`);
  return element("label", "slider", element("b", "", `${printable(name)} =`), field, slider, largest);
}

function drawShares(answer, target) {
  const { at, names, parts, axis, last, metric } = answer;
  const isSum = metric === "time_exclusive";
  const px = scaleOf(at[0], at.at(-1), LEFT, WIDTH - RIGHT, true);
  const py = scaleOf(0, 1, HEIGHT - BOTTOM, TOP, false);
  const made = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "shares", role: "img", "aria-label": `shares of ${metric} over ${axis}` });
  const line = (values) => at.map((x, i) => `${px(x).toFixed(1)} ${py(values[i]).toFixed(1)}`);
  let floor = at.map(() => 0);
  parts.forEach((values, i) => {
    const shade = names[i] === "" ? "rest" : `c${i % COLOURS} n${Math.floor(i / COLOURS)}`;
    if (isSum) {
      const top = floor.map((value, k) => value + (values[k] || 0));
      const band = drawn("path", { class: `share ${shade}`, d: `M${line(top).join("L")}L${line(floor).reverse().join("L")}Z` });
      band.append(drawn("title", {}, nameOf(names[i], metric)));
      made.append(band);
      floor = top;
    } else made.append(drawn("path", { class: `line ${shade}`, d: `M${line(values.map((value) => value || 0)).join("L")}` }));
  });
  for (const value of [0, 0.25, 0.5, 0.75, 1]) made.append(drawn("text", { class: "y", x: LEFT - 6, y: py(value) + 4 }, percent(value)));
  for (const value of logTicks(at[0], at.at(-1), 8)) {
    made.append(drawn("path", { class: "edge", d: `M${px(value)} ${HEIGHT - BOTTOM}v5` }));
    made.append(drawn("text", { class: "x", x: px(value), y: HEIGHT - BOTTOM + 17 }, number(value)));
  }
  made.append(drawn("text", { class: "x name", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6 }, printable(axis)));
  made.append(drawn("path", { class: "last", d: `M${px(last)} ${TOP}V${HEIGHT - BOTTOM}` }));
  made.append(drawn("text", { class: "y told", x: px(last) - 5, y: TOP + 12 }, "measured"));
  made.append(drawn("path", { class: "target", d: `M${px(target)} ${TOP - 4}V${HEIGHT - BOTTOM + 4}` }));
  byId("shares").replaceChildren(made);
  byId("o-metric").textContent = `share of ${printable(metric)}${isSum ? "" : " in the largest"}`;
  drawKey(answer, target, metric);
}

const nameOf = (name, metric) => (name === "" ? `all others of ${printable(metric)}` : pathText(name));

// Which band is which, with its share at the target.
function drawKey({ at, names, parts }, target, metric) {
  const i = at.reduce((best, x, k) => (Math.abs(Math.log(x / target)) < Math.abs(Math.log(at[best] / target)) ? k : best), 0);
  byId("shares-key").replaceChildren(...names.map((name, k) => {
    const key = drawn("svg", { viewBox: "0 0 12 12", class: "key", "aria-hidden": "true" });
    key.append(drawn("rect", { width: 12, height: 12, class: `share ${name === "" ? "rest" : `c${k % COLOURS} n${Math.floor(k / COLOURS)}`}` }));
    const item = element("li", "", key, element("b", "n", percent(parts[k][i])), " ", name === "" ? nameOf(name, metric) : lastFrames(name, 64));
    item.title = nameOf(name, metric);
    return item;
  }));
}

function drawPlaces(answer, at) {
  const { rows, unit, metric } = answer;
  const where = Object.entries(at).map(([name, value]) => `${printable(name)} = ${number(value)}`).join(", ");
  const best = rows.find((one) => one.then[0] !== null); // the others are guesses
  byId("headline").textContent = best
    ? `At ${where} ${pathText(best.callpath)} takes ${percent(best.then[0])} of ${printable(metric)}${boundsText(best.then)}; it takes ${percent(best.share)} now.`
    : rows.length ? `What costs most at ${where} is a guess.` : `Nothing costs anything at ${where}.`;
  const growth = (one) => (one.now > 0 ? one.cost[0] / one.now : Infinity);
  byId("o-rows").replaceChildren(...rows.map((one) => {
    const name = element("button", "link path", lastFrames(one.callpath, 70));
    name.title = pathText(one.callpath);
    name.addEventListener("click", () => go({ view: "model", path: one.callpath, behaviour: "", metric }, true));
    return row([
      ["n", one.then[0] === null ? "guess" : percent(one.then[0])], ["n dim", percent(one.share)], name, ["n", quantity(one.cost[0], unit)],
      ["n dim", one.cost[1] === null ? "–" : `${quantity(one.cost[1], unit)} … ${quantity(one.cost[2], unit)}`],
      ["n", times(growth(one))], [`trust ${one.trust.replace(/ /g, "-")}`, one.trust],
    ]);
  }));
  const less = answer.left_out ? `; ${answer.left_out} call paths take less` : "";
  const rest = answer.rest >= RELEVANT ? `; ${percent(answer.rest)} of the time now is in call paths without a model, which are in no share there` : "";
  byId("o-note").textContent = `per rank, with 95 % bounds${less}${rest}`;
}

const boundsText = ([value, low, high]) => (low === null || (percent(low) === percent(value) && percent(high) === percent(value)) ? "" : ` (${percent(low)} to ${percent(high)} at 95 %)`);
