// The course of a run in progress over time: ranks that report and that ended, progress, memory.
import { element, formatDuration, formatPercent, formatQuantity, linearTicks, makeScale, svgElement } from "./text.js";

const WIDTH = 360;
const HEIGHT = 130;
const LEFT = 58;
const RIGHT = WIDTH - 10;
const TOP = 8;
const BOTTOM = HEIGHT - 24;

// Columns of a sample, as the server sends them.
const SECONDS = 0;
const SEEN = 1;
const ENDED = 2;
const PART = 3;
const MEMORY = 4;

// The pictures of a run: { size }, samples.
export function makeCourse({ size }, samples) {
  if (samples.length < 2) return [];

  const pictures = [
    makePicture("ranks", samples, [["c0", "reporting", SEEN], ["c1", "ended", ENDED]], {
      high: size,
      format: (value) => (Number.isInteger(value) ? String(value) : ""),
    }),
  ];
  if (samples.some((sample) => sample[PART] !== null)) {
    pictures.push(makePicture("progress", samples, [["c0", "progress", PART]], { high: 1, format: formatPercent }));
  }
  if (samples.some((sample) => sample[MEMORY] !== null)) {
    pictures.push(makePicture("memory of a mean rank", samples, [["c0", "memory", MEMORY]], {
      format: (value) => formatQuantity(value, "B"),
    }));
  }
  return pictures;
}

function makePicture(title, samples, lines, { high, format }) {
  const values = lines.flatMap(([, , column]) => samples.map((sample) => sample[column]).filter((value) => value !== null));
  const top = high ?? (1.1 * Math.max(...values) || 1);
  const px = makeScale(samples[0][SECONDS], samples.at(-1)[SECONDS], LEFT, RIGHT, false);
  const py = makeScale(0, top, BOTTOM, TOP, false);

  const svg = svgElement("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title} over time` });
  svg.append(...makeAxes(samples, top, px, py, format));
  for (const [shade, , column] of lines) {
    const points = samples.filter((sample) => sample[column] !== null);
    const path = points.map((sample, i) => `${i ? "L" : "M"}${px(sample[SECONDS]).toFixed(1)} ${py(sample[column]).toFixed(1)}`);
    svg.append(svgElement("path", { class: `line ${shade}`, d: path.join("") }));
  }

  const names = lines.length > 1 ? lines.map(([shade, name]) => element("span", `course-key ${shade}`, name)) : [];
  return element("figure", "course", element("figcaption", "", `${title} `, ...names), svg);
}

function makeAxes(samples, top, px, py, format) {
  const nodes = [svgElement("path", { class: "edge", d: `M${LEFT} ${TOP}V${BOTTOM}H${RIGHT}` })];
  for (const seconds of linearTicks(samples[0][SECONDS], samples.at(-1)[SECONDS], 5)) {
    nodes.push(svgElement("text", { class: "x", x: px(seconds), y: BOTTOM + 15 }, formatDuration(seconds)));
  }
  for (const value of linearTicks(0, top, 4)) {
    nodes.push(svgElement("text", { class: "y", x: LEFT - 6, y: py(value) + 4 }, format(value)));
  }
  return nodes;
}
