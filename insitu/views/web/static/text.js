// Text, elements, numbers and scales. Names come from measured programs: they are set as text only.

export const ARROW = "->"; // between the frames of a call path
export const COLOURS = 7; // --c0 to --c6 of the style sheet

// Units by magnitude, the largest first.
const SCALES = {
  s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
  B: [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]],
  1: [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]],
};
const ROUNDS_UP = 0.9995; // 999.6 ms is printed as 1 s
const FARTHEST = 1000; // the largest ratio of two bounds that are worth printing
const LARGEST = 1e18; // the largest bound that is worth printing

export const byId = (id) => document.getElementById(id);

export function element(tag, className = "", ...content) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...content);
  return node;
}

export function svgElement(tag, attributes = {}, ...content) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...content);
  return node;
}

// A row of a table. A cell is a text, a node, or a pair of a class and one of these.
export function tableRow(cells, className = "", tag = "td") {
  const nodes = cells.map((cell) => (
    Array.isArray(cell) ? element(tag, cell[0], cell[1]) : element(tag, "", cell)
  ));
  return element("tr", className, ...nodes);
}

// Escape characters that are invisible or that change the order of others.
export function printable(text) {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

export function pathText(path) {
  return path.split(ARROW).map(printable).join(" → ");
}

export function formatNumber(value) {
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return String(Number(value.toPrecision(4)));
  return Number(value.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 4 });
}

// A value with its unit, in three digits: 1.25 ms, 48.8 kB.
export function formatQuantity(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";

  // What four digits of seconds do not show, as units.py.
  if (unit === "s" && Math.abs(value) >= 9999.5) return `${threeDigits(value / 3600)} h`;

  const scales = SCALES[unit || 1];
  if (!scales) return `${threeDigits(value)} ${unit}`;

  const size = Math.abs(value);
  if (!size) return `0 ${unit === "1" ? "" : unit}`.trim();
  const [scale, name] = scales.find(([start]) => size >= ROUNDS_UP * start) || scales.at(-1);
  return `${threeDigits(value / scale)} ${name}`.trim();
}

// Two bounds with their unit; a dash where they are unknown or too far apart to be of use, as in units.py.
export function formatBounds(low, high, unit) {
  if (low === null || high === null) return "–";
  if ((low > 0 && high > FARTHEST * low) || Math.max(-low, high) > LARGEST) return "–";
  return `${formatQuantity(low, unit)} … ${formatQuantity(high, unit)}`;
}

function threeDigits(value) {
  const isLarge = Math.abs(value) >= 100 && Math.abs(value) < 1e6;
  return String(isLarge ? Math.round(value) : Number(value.toPrecision(3)));
}

// A fraction of 1 as a percentage.
export function formatPercent(fraction) {
  if (fraction === null || fraction === undefined || Number.isNaN(fraction)) return "–";

  const value = 100 * fraction;
  if (value > 0 && value < 0.1) return "<0.1 %";
  const hasDecimal = Math.abs(value) > 0 && Math.abs(value) < 9.95;
  return `${hasDecimal ? value.toFixed(1) : Math.round(value)} %`;
}

// A cost at the target in multiples of the cost now; null for a call path that costs nothing at either.
export function growthOf(then, now) {
  if (now > 0) return then / now;
  return then > 0 ? Infinity : null;
}

export function formatFactor(factor) {
  return Number.isFinite(factor) ? `× ${formatNumber(Number(factor.toPrecision(3)))}` : "× ∞";
}

export function formatDuration(seconds) {
  if (seconds > 0 && seconds < 0.95) return formatQuantity(seconds, "s");
  if (seconds < 100) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${Number((seconds / 3600).toPrecision(2))} h`;
}

// Fill a select with options; options that are already there are kept, so that an open list stays.
export function fillSelect(select, names, value, label = printable) {
  const present = [...select.options].map((option) => option.value);

  if (present.length !== names.length || present.join("\0") !== names.join("\0")) {
    const options = names.map((name) => {
      const option = element("option", "", label(name));
      option.value = name;
      return option;
    });
    select.replaceChildren(...options);
  }
  select.value = value;
}

// A function from values between `low` and `high` to positions between `start` and `end`.
// Values beyond the range are drawn slightly outside of it. A logarithmic scale needs low > 0.
export function makeScale(low, high, start, end, isLog) {
  const fraction = isLog
    ? (value) => Math.log(Math.max(value, low) / low) / Math.log(high / low)
    : (value) => (value - low) / (high - low);
  return (value) => start + Math.min(Math.max(fraction(value), -0.02), 1.02) * (end - start);
}

// Round values between two limits: multiples of 1, 2 or 5 times a power of ten.
export function linearTicks(low, high, maxTicks = 5) {
  const raw = (high - low) / maxTicks;
  if (!(raw > 0) || !Number.isFinite(raw)) return [low];

  const decade = 10 ** Math.floor(Math.log10(raw));
  const step = decade * ([1, 2, 5, 10].find((digit) => decade * digit >= raw * 0.999) || 10);
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.min(Math.floor(high / step + 1e-9) - first + 1, 4 * maxTicks);
  return Array.from({ length: Math.max(count, 0) }, (_, i) => (first + i) * step);
}

// Powers of two for counts within a few decades; otherwise 1, 2, 5, 10 … or powers of ten.
export function logTicks(low, high, maxTicks = 7, isCount = true) {
  if (!(low > 0) || !Number.isFinite(high / low)) return [];
  if (!isCount && high / low < 1000) return decadeTicks(low, high, maxTicks);

  const base = isCount && high / low < 5000 ? 2 : 10;
  const first = Math.ceil(Math.log(low) / Math.log(base) - 1e-9);
  const last = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
  if (last - first < 1) return linearTicks(low, high, maxTicks);

  const step = Math.ceil((last - first + 1) / maxTicks);
  const values = [];
  for (let power = first; power <= last; power += step) values.push(base ** power);
  return values;
}

function decadeTicks(low, high, maxTicks) {
  const start = 10 ** Math.floor(Math.log10(low));
  const digits = high / low < 80 ? [1, 2, 5] : [1, 3];

  const values = [];
  for (const decade of [1, 10, 100, 1000]) {
    for (const digit of digits) {
      const value = digit * decade * start;
      if (value >= low * 0.999 && value <= high * 1.001) values.push(value);
    }
  }
  return values.length > 1 ? values : linearTicks(low, high, maxTicks);
}

// Whether values are spread so widely that a logarithmic axis shows more.
export function isWide(values) {
  const present = values.filter((value) => value !== null);
  const isPositive = present.length > 0 && present.every((value) => value > 0);
  return isPositive && Math.max(...present) >= 8 * Math.min(...present);
}

// Each class has a shape as well as a colour, so that classes differ without colours.
// A shape is a list of corners; a circle is its centre and radius.
const SHAPES = [
  (x, y, r) => [[x, y, r]],
  (x, y, r) => [[x - r, y - r], [x + r, y - r], [x + r, y + r], [x - r, y + r]],
  (x, y, r) => [[x, y - 1.3 * r], [x + 1.3 * r, y], [x, y + 1.3 * r], [x - 1.3 * r, y]],
  (x, y, r) => [[x, y - 1.2 * r], [x + 1.2 * r, y + r], [x - 1.2 * r, y + r]],
  (x, y, r) => [[x, y + 1.2 * r], [x + 1.2 * r, y - r], [x - 1.2 * r, y - r]],
];

export function classShape(index, x, y, r) {
  return SHAPES[index % SHAPES.length](x, y, r);
}

// The sign of a class as a small picture.
export function classSign(index) {
  const className = `key c${index % COLOURS}`;
  const svg = svgElement("svg", { viewBox: "0 0 12 12", class: className, "aria-hidden": "true" });

  const corners = classShape(index, 6, 6, 4);
  if (corners.length === 1) {
    svg.append(svgElement("circle", { cx: 6, cy: 6, r: 4, class: "mark" }));
  } else {
    const points = corners.map((corner) => corner.join(",")).join(" ");
    svg.append(svgElement("polygon", { points, class: "mark" }));
  }
  return svg;
}
