// Text, elements and scales. Names come from measured programs: they are set as text only.

export const ARROW = "->";
export const COLOURS = 7;

const SCALES = {
  s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
  B: [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
  1: [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]],
};

export const byId = (id) => document.getElementById(id);

export function element(tag, kind = "", ...content) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  made.append(...content);
  return made;
}

export function drawn(tag, attributes = {}, ...content) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...content);
  return made;
}

// A row of a table; a cell is a text, a node, or a pair of a class and one of these.
export function row(cells, kind = "", tag = "td") {
  return element("tr", kind, ...cells.map((cell) => (
    Array.isArray(cell) ? element(tag, cell[0], cell[1]) : element(tag, "", cell)
  )));
}

// What a reader would not see, or would see elsewhere, becomes an escape.
export function printable(text) {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

export function pathText(path) {
  return path.split(ARROW).map(printable).join(" → ");
}

// The end of a call path, which tells most, in about so many characters.
export function lastFrames(path, width) {
  const text = pathText(path);
  return text.length <= width ? text : `…${text.slice(text.length - width + 1)}`;
}

export function number(value) {
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return String(Number(value.toPrecision(4)));
  return Number(value.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 4 });
}

export function quantity(value, unit) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const digits = (x) => (Math.abs(x) >= 100 && Math.abs(x) < 1e6 ? String(Math.round(x)) : String(Number(x.toPrecision(3))));
  const scales = SCALES[unit || 1];
  if (!scales) return `${digits(value)} ${unit}`;
  const size = Math.abs(value);
  const [scale, name] = size
    ? scales.find(([one]) => size >= 0.9995 * one) || scales.at(-1)
    : [1, unit === "1" ? "" : unit];
  return `${digits(value / scale)} ${name}`.trim();
}

export function percent(part) {
  if (part === null || part === undefined || Number.isNaN(part)) return "–";
  const value = 100 * part;
  if (value > 0 && value < 0.1) return "<0.1 %";
  return `${Math.abs(value) > 0 && Math.abs(value) < 9.95 ? value.toFixed(1) : Math.round(value)} %`;
}

export function times(factor) {
  return Number.isFinite(factor) ? `× ${number(Number(factor.toPrecision(3)))}` : "× ∞";
}

export function duration(seconds) {
  if (seconds < 100) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${Number((seconds / 3600).toPrecision(2))} h`;
}

export function choices(select, names, value, told = printable) {
  const before = [...select.options].map((one) => one.value).join("\0");
  if (select.options.length !== names.length || before !== names.join("\0")) {
    select.replaceChildren(...names.map((name) => {
      const made = element("option", "", told(name));
      made.value = name;
      return made;
    }));
  }
  select.value = value;
}

// Places of values between two ends; a logarithmic scale has no zero.
export function scaleOf(low, high, start, end, isLog) {
  const part = isLog
    ? (value) => Math.log(Math.max(value, low) / low) / Math.log(high / low)
    : (value) => (value - low) / (high - low);
  return (value) => start + Math.min(Math.max(part(value), -0.02), 1.02) * (end - start);
}

export function ticks(low, high, most = 5) {
  const raw = (high - low) / most;
  if (!(raw > 0) || !Number.isFinite(raw)) return [low];
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = size * ([1, 2, 5, 10].find((one) => size * one >= raw * 0.999) || 10);
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.min(Math.floor(high / step + 1e-9) - first + 1, 4 * most);
  return Array.from({ length: Math.max(count, 0) }, (_, i) => (first + i) * step);
}

// Powers of two for counts within a few decades, else 1, 2, 5, 10 … or powers of ten.
export function logTicks(low, high, most = 7, isCount = true) {
  if (!(low > 0) || !Number.isFinite(high / low)) return [];
  if (!isCount && high / low < 1000) {
    const size = 10 ** Math.floor(Math.log10(low));
    const steps = high / low < 80 ? [1, 2, 5] : [1, 3];
    const all = [1, 10, 100, 1000].flatMap((decade) => steps.map((one) => one * decade * size));
    const out = all.filter((value) => value >= low * 0.999 && value <= high * 1.001);
    return out.length > 1 ? out : ticks(low, high, most);
  }
  const base = isCount && high / low < 5000 ? 2 : 10;
  const first = Math.ceil(Math.log(low) / Math.log(base) - 1e-9);
  const last = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
  if (last - first < 1) return ticks(low, high, most);
  const step = Math.ceil((last - first + 1) / most);
  const out = [];
  for (let power = first; power <= last; power += step) out.push(base ** power);
  return out;
}

// Whether values spread so far that a logarithmic axis shows more.
export function isWide(values) {
  const used = values.filter((value) => value !== null);
  return used.length > 0 && used.every((value) => value > 0) && Math.max(...used) >= 8 * Math.min(...used);
}

// The sign of a class: its shape tells it apart without colours.
const SHAPES = [
  (x, y, r) => [[x, y, r]],
  (x, y, r) => [[x - r, y - r], [x + r, y - r], [x + r, y + r], [x - r, y + r]],
  (x, y, r) => [[x, y - 1.3 * r], [x + 1.3 * r, y], [x, y + 1.3 * r], [x - 1.3 * r, y]],
  (x, y, r) => [[x, y - 1.2 * r], [x + 1.2 * r, y + r], [x - 1.2 * r, y + r]],
  (x, y, r) => [[x, y + 1.2 * r], [x + 1.2 * r, y - r], [x - 1.2 * r, y - r]],
];

export function shape(index, x, y, r) {
  return SHAPES[index % SHAPES.length](x, y, r);
}

export function sign(index) {
  const key = drawn("svg", { viewBox: "0 0 12 12", class: `key c${index % COLOURS}`, "aria-hidden": "true" });
  const corners = shape(index, 6, 6, 4);
  key.append(corners.length === 1
    ? drawn("circle", { cx: 6, cy: 6, r: 4, class: "mark" })
    : drawn("polygon", { points: corners.map((at) => at.join(",")).join(" "), class: "mark" }));
  return key;
}
