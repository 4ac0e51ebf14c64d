// The icicle view: each call path as a bar as wide as its time, below the bar of its caller. It shows
// a run, or what the models predict; two of them are compared in a table.
import {
  ARROW, byId, COLOURS, element, fillSelect, formatFactor, formatNumber, formatPercent, formatQuantity,
  printable, svgElement, tableRow,
} from "./text.js";
import { data, fetchAnswers, go, noAnswerText, state } from "./state.js";
import { frameName, fullPath, pathName, shortPath } from "./names.js";
import { outlookTarget } from "./outlook.js";

const PREDICTION = "prediction";
const NOTHING = "nothing";
const LEAST_WIDTH = 320;
const ROW = 22;
const MIN_WIDTH = 1.5; // narrower bars are left out
const LETTER = 6.6; // width of a character of a label
const MAX_DEPTH = 40;
const MAX_DIFFERENCES = 30;
const START_UP = /(^|->)(\(import\)|P?MPI_(Init|Init_thread|Finalize|Session_\w+))(->|$)/;

let root = null; // of the tree on display
let bars = []; // { node, x, span, depth } of the bars on display
let width = LEAST_WIDTH; // of the picture
let drawn = null; // the answer and the zoom on display

const storedRuns = () => data.board.runs.filter((run) => ["sealed", "partial", "omitted"].includes(run.state));

// The run or prediction on display: by default the largest complete run, else the newest run.
function subject() {
  const runs = storedRuns();
  const names = [...runs.map((run) => run.id), PREDICTION];
  if (names.includes(state.run)) return state.run;

  const complete = runs.filter((run) => run.state === "sealed");
  const largest = complete.reduce((best, run) => (best && best.size >= run.size ? best : run), null);
  const chosen = largest || runs[0];
  return chosen ? chosen.id : "";
}

const queryOf = (name) => (
  name === PREDICTION
    ? { name: "icicle", words: {}, at: outlookTarget() || {} }
    : { name: "icicle", words: { run: name } }
);

function listQueries() {
  if (state.view !== "icicle" || !subject()) return [];
  const other = state.against && state.against !== subject() ? [queryOf(state.against)] : [];
  return [queryOf(subject()), ...other];
}

function optionText(name) {
  if (name === NOTHING) return "nothing";
  if (name === PREDICTION) {
    const at = Object.entries(outlookTarget() || {}).map(([key, value]) => `${printable(key)} = ${formatNumber(value)}`);
    return `prediction at ${at.join(", ")}`;
  }
  const run = storedRuns().find((each) => each.id === name);
  return run ? `${printable(run.name)}${run.state === "partial" ? " (incomplete)" : ""}` : name;
}

export async function drawIcicle() {
  const names = [...storedRuns().map((run) => run.id), ...(data.board.series.length ? [PREDICTION] : [])];
  byId("i-empty").hidden = names.length > 0;
  byId("i-all").hidden = !names.length;
  if (!names.length) {
    byId("i-empty").textContent = printable(data.firstRun);
    return;
  }
  fillSelect(byId("i-run"), names, subject(), optionText);
  const others = [NOTHING, ...names.filter((name) => name !== subject())];
  fillSelect(byId("i-against"), others, others.includes(state.against) ? state.against : NOTHING, optionText);

  const answers = await fetchAnswers("i-all", listQueries);
  if (!answers) return;
  const [answer, other] = answers;
  byId("start-up").checked = state.startUp;
  const zoom = `${state.path} ${state.startUp}`;
  if (drawn !== null && drawn.answer === answer && drawn.zoom === zoom && drawn.other === other) return;
  drawn = { answer, other, zoom };

  if (!answer || !answer.rows.length) {
    byId("i-plot").replaceChildren();
    byId("i-line").textContent = answer ? "no times were measured" : noAnswerText();
    byId("i-differences").hidden = true;
    return;
  }
  root = makeTree(answer);
  drawBars();
  drawNote(answer);
  drawDifferences(answer, other);
}

// The tree of an answer; the value of a node includes what it calls.
function makeTree({ rows, sites }) {
  const top = { path: "", name: "", children: new Map(), own: 0, total: 0, range: null, site: "" };
  for (const [path, mean, low, high, site] of rows) {
    if (!state.startUp && START_UP.test(path)) continue;
    let node = top;
    let prefix = "";
    for (const frame of path.split(ARROW)) {
      prefix = prefix ? prefix + ARROW + frame : frame;
      if (!node.children.has(frame)) {
        node.children.set(frame, {
          path: prefix, name: frameName(frame), children: new Map(), own: 0, total: 0, range: null, site: sites[prefix] || "",
        });
      }
      node = node.children.get(frame);
    }
    Object.assign(node, { own: mean, range: [low, high], site });
  }
  sumTotals(top);
  return top;
}

// What is left out, and what the numbers are.
function drawNote(answer) {
  const startUp = answer.rows.filter(([path]) => START_UP.test(path)).reduce((sum, row) => sum + row[1], 0);
  const texts = ["mean over ranks; a click or the arrow keys enlarge a call path, a second click or Esc shows its caller"];
  if (startUp > 0 && !state.startUp) texts.unshift(`without start-up (imports, MPI_Init, MPI_Finalize: ${formatQuantity(startUp, "s")})`);
  if (answer.left_out) texts.push(`${formatNumber(answer.left_out)} smaller call paths left out`);
  if (answer.is_crowded) texts.unshift("ranks had to wait for a core in some runs: their times, and this prediction, contain this waiting");
  byId("i-note").textContent = texts.join("; ");
}

function sumTotals(node) {
  node.total = node.own;
  for (const child of node.children.values()) node.total += sumTotals(child);
  return node.total;
}

// The selected call path, if the tree contains it: it fills the width, below its callers.
function listZoomed() {
  const chain = [];
  let node = root;
  for (const frame of state.path ? state.path.split(ARROW) : []) {
    node = node.children.get(frame);
    if (!node) break;
    chain.push(node);
  }
  return chain;
}

function drawBars() {
  bars = [];
  width = Math.max(byId("i-plot").clientWidth, LEAST_WIDTH);
  const chain = listZoomed();
  chain.forEach((node, depth) => bars.push({ node, x: 0, span: width, depth }));
  placeChildren(chain.at(-1) || root, 0, width, chain.length);

  const depth = Math.max(...bars.map((bar) => bar.depth), 0) + 1;
  const picture = svgElement("svg", {
    viewBox: `0 0 ${width} ${depth * ROW}`,
    class: "icicle",
    role: "img",
    "aria-label": "time by call path: callers above, as wide as their time",
  });
  for (const bar of bars) picture.append(makeBar(bar));
  byId("i-plot").replaceChildren(picture);
  describe(chain.at(-1) || bars[0]?.node);
}

function placeChildren(node, start, span, depth) {
  if (depth > MAX_DEPTH || !(node.total > 0)) return;
  let x = start;
  const children = [...node.children.values()].sort((a, b) => b.total - a.total);
  for (const child of children) {
    const share = (span * child.total) / node.total;
    if (share >= MIN_WIDTH) {
      bars.push({ node: child, x, span: share, depth });
      placeChildren(child, x, share, depth + 1);
    }
    x += share;
  }
}

// The colour is that of the function's name, so that it is the same in all runs.
function colourOf(name) {
  if (name.startsWith("MPI_")) return 1;
  let hash = 7;
  for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) % 9973;
  return [0, 2, 3, 4, 5, 6][hash % (COLOURS - 1)];
}

function makeBar(bar) {
  const { node, x, span, depth } = bar;
  const group = svgElement("g", { class: `bar c${colourOf(node.name)}` });
  group.append(svgElement("rect", { x, y: depth * ROW, width: Math.max(span - 1, 0.5), height: ROW - 1 }));

  const letters = Math.floor((span - 8) / LETTER);
  if (letters >= 3) {
    const { name } = node;
    const text = name.length <= letters ? name : `${name.slice(0, letters - 1)}…`;
    group.append(svgElement("text", { x: x + 4, y: depth * ROW + 15 }, text));
  }
  group.append(svgElement("title", {}, textOf(node)));
  group.addEventListener("mouseenter", () => describe(node));
  group.addEventListener("click", () => zoomTo(node));
  return group;
}

// A click on the call path that already fills the width shows its caller.
function zoomTo(node) {
  const isZoomed = state.path === node.path;
  go({ path: isZoomed ? node.path.split(ARROW).slice(0, -1).join(ARROW) : node.path, behaviour: "" });
}

function textOf(node) {
  const texts = [`${formatQuantity(node.total, "s")} (${formatPercent(node.total / root.total)})`];
  if (node.own !== node.total) texts.push(`${formatQuantity(node.own, "s")} without what it calls`);
  if (node.range && node.range[0] !== node.range[1]) {
    texts.push(`on the ranks ${node.range.map((value) => formatQuantity(value, "s")).join(" … ")}`);
  }
  if (node.site) texts.push(printable(node.site));
  return `${pathName(node.path)}: ${texts.join(" · ")}`;
}

function describe(node) {
  byId("i-line").textContent = node ? textOf(node) : "";
}

// Arrow keys: down into the most expensive callee, up to the caller, aside to its other callees.
export function moveInIcicle(key) {
  if (!root) return;
  const chain = listZoomed();
  const node = chain.at(-1) || root;
  const caller = chain.at(-2) || root;
  const sorted = (parent) => [...parent.children.values()].sort((a, b) => b.total - a.total);

  let next = null;
  if (key === "ArrowDown") [next] = sorted(node);
  else if (key === "ArrowUp") next = chain.length ? caller : null;
  else if (chain.length) {
    const siblings = sorted(caller);
    next = siblings[siblings.indexOf(node) + (key === "ArrowRight" ? 1 : -1)];
  }
  if (next) go({ path: next.path, behaviour: "" });
}

// Call paths whose times differ most between two icicles.
function drawDifferences(answer, other) {
  byId("i-differences").hidden = !other;
  if (!other) return;

  const before = new Map(other.rows.map((row) => [row[0], row[1]]));
  const after = new Map(answer.rows.map((row) => [row[0], row[1]]));
  const paths = [...new Set([...before.keys(), ...after.keys()])];
  const change = (path) => (after.get(path) || 0) - (before.get(path) || 0);
  paths.sort((a, b) => Math.abs(change(b)) - Math.abs(change(a)));

  byId("i-title").textContent = `${optionText(subject())}, compared with ${optionText(state.against)}`;
  byId("i-rows").replaceChildren(...paths.slice(0, MAX_DIFFERENCES).map((path) => {
    const name = element("button", "link path", shortPath(path, 90));
    name.title = fullPath(path);
    name.addEventListener("click", () => go({ path, behaviour: "" }));
    const [was, is] = [before.get(path), after.get(path)];
    const sign = change(path) > 0 ? "+" : "";
    return tableRow([
      name,
      ["n", was === undefined ? "–" : formatQuantity(was, "s")],
      ["n", is === undefined ? "–" : formatQuantity(is, "s")],
      ["n", `${sign}${formatQuantity(change(path), "s")}`],
      ["n", was > 0 && is !== undefined ? formatFactor(is / was) : ""],
    ]);
  }));
}
