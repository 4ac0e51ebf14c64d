// Runs and their ranks, how far the campaign has come, and where the run in progress is off.
import { byId, drawn, duration, element, number, pathText, percent, printable, quantity, row } from "./text.js";
import { data, go } from "./state.js";
import { offness, SIGNS } from "./tree.js";

const MOST = 60; // runs that are listed
const ALIKE = 6; // findings of a kind that are not folded
const MOST_FINDINGS = 2000;
const BESIDE = 6; // runs beside the tree, so that findings are seen there, too
const OFF = 40; // call paths off their forecast that are listed

export const allRuns = () => [...data.runs, ...data.board.runs];

function ranksText(run) {
  if (run.state === "sealed" || run.state === "omitted") return `${run.size} of ${run.size} ended`;
  if (run.state === "partial") {
    const lost = run.missing.slice(0, 6).join(", ") + (run.missing.length > 6 ? " …" : "");
    return `${run.ended} of ${run.size} ended${lost ? `; missing: ${lost}` : ""}`;
  }
  return `${run.seen} of ${run.size} heard, ${run.ended} ended`;
}

// A strip with the state of every rank; states are told apart by height as well.
const HEIGHTS = { ended: 10, measuring: 7, awaited: 3, silent: 5, failed: 10, lost: 10 };

function strip(run) {
  const spans = run.ranks.length ? run.ranks : [["ended", run.ended], ["measuring", Math.max(run.seen - run.ended, 0)], ["awaited", Math.max(run.size - run.seen, 0)]];
  const width = 240;
  const made = drawn("svg", { viewBox: `0 0 ${width} 10`, class: "states", preserveAspectRatio: "none", role: "img", "aria-label": ranksText(run) });
  let rank = 0;
  for (const [state, many] of spans) {
    if (!many) continue;
    const height = HEIGHTS[state] || 10;
    const part = drawn("rect", { class: `state-${state}`, x: (width * rank) / run.size, y: 10 - height, height, width: (width * many) / run.size });
    part.append(drawn("title", {}, `rank${many > 1 ? `s ${rank} to ${rank + many - 1}` : ` ${rank}`}: ${state}`));
    made.append(part);
    rank += many;
  }
  return made;
}

function bar(part) {
  const made = element("progress");
  made.max = 1;
  made.value = part;
  return made;
}

function remaining(run) {
  if (!run.part || !run.started_at || run.ended === run.size) return "";
  const seconds = Date.now() / 1000 - run.started_at;
  return seconds > 1 && run.part > 0.02 ? `, about ${duration((seconds * (1 - run.part)) / run.part)} to go` : "";
}

function runRow(run) {
  const isGoing = run.part !== null && !atRest(run);
  const took = run.ended_at > run.started_at ? duration(run.ended_at - run.started_at) : "";
  const part = isGoing ? element("span", "", bar(run.part), ` ${percent(run.part)}${remaining(run)}`) : took;
  return row([["nowrap", printable(run.name)], [`state ${run.state}`, printable(run.state)], strip(run), ranksText(run), part]);
}

const atRest = (run) => ["sealed", "partial", "omitted"].includes(run.state);

// The short list beside the tree, and the facts above everything.
export function drawSide() {
  const runs = allRuns();
  byId("runs").replaceChildren(...runs.slice(0, BESIDE).map((run) => row([
    ["nowrap", printable(run.name)], [`state ${run.state}`, printable(run.state)],
    atRest(run) || run.part === null ? ranksText(run) : element("span", "", bar(run.part), ` ${percent(run.part)}${remaining(run)}`),
  ])));
  if (runs.length > BESIDE) byId("runs").append(row([["dim", `${runs.length - BESIDE} more`], "", ""]));
  if (!runs.length) byId("runs").append(row([["dim", printable(data.firstRun)]]));
  drawFindings(byId("findings"), 8);
  const { board } = data;
  const more = board.omitted ? ` · ${board.omitted} more series: insitu models shows all` : "";
  const off = new Set(board.series.filter((one) => one.verdict).map((one) => one.callpath)).size;
  const marks = off ? ` · ${off} call path${off === 1 ? "" : "s"} off the forecast` : "";
  const plan = data.agenda && !data.agenda.trouble ? ` · ${data.agenda.done} of ${data.agenda.done + data.agenda.left} runs made` : "";
  byId("facts").textContent = `${runs.length} run${runs.length === 1 ? "" : "s"} over ${board.parameters.map(printable).join(", ") || "–"}${plan}${marks}${more}`;
  byId("count-findings").textContent = board.findings.length ? ` ${board.findings.length}` : "";
  byId("count-runs").textContent = runs.length ? ` ${runs.length}` : "";
}

function findingRow(one) {
  const where = one.where ? element("span", "dim", ` – ${printable(one.where)}`) : "";
  return element("li", "", element("span", "code", printable(one.code)), printable(one.text), where);
}

function drawFindings(host, most) {
  const { findings } = data.board;
  host.replaceChildren(...findings.slice(0, most).map(findingRow));
  if (!findings.length) host.append(element("li", "dim", "none"));
  else if (findings.length > most) host.append(element("li", "dim", `${findings.length - most} more`));
}

// Those of a kind together; many of them are folded, and stay as they were folded until others come.
export function drawFindingsPage() {
  const { findings } = data.board;
  const host = byId("f-all");
  if (host.dataset.version === String(data.version)) return;
  host.dataset.version = String(data.version);
  const open = new Set([...host.querySelectorAll("details[open]")].map((one) => one.dataset.code));
  const kinds = new Map();
  for (const one of findings.slice(0, MOST_FINDINGS)) kinds.set(one.code, [...(kinds.get(one.code) || []), one]);
  host.replaceChildren(...[...kinds].map(([code, alike]) => {
    const rows = element("ul", "", ...alike.map(findingRow));
    if (alike.length <= ALIKE) return rows;
    const many = element("details", "", element("summary", "", element("span", "code", printable(code)), `${alike.length} of this kind, as: ${printable(alike[0].text)}`), rows);
    many.dataset.code = code;
    many.open = open.has(code);
    return many;
  }));
  if (!findings.length) host.append(element("p", "dim", "none"));
}

export function drawRuns() {
  const runs = allRuns();
  byId("r-rows").replaceChildren(...runs.slice(0, MOST).map(runRow));
  byId("r-table").hidden = !runs.length;
  byId("r-more").textContent = runs.length > MOST ? `${runs.length - MOST} runs before these` : runs.length ? "" : printable(data.firstRun);
  drawAgenda();
  drawOff();
}

function drawAgenda() {
  const { agenda } = data;
  byId("r-agenda-card").hidden = !agenda;
  if (!agenda) return;
  if (agenda.trouble) {
    byId("r-agenda").textContent = printable(agenda.trouble);
    byId("r-plan").replaceChildren();
    return;
  }
  const all = agenda.done + agenda.left;
  const rest = !agenda.left ? "all runs are made"
    : agenda.seconds === null ? `${agenda.left} to go`
      : `${agenda.left} to go: about ${duration(agenda.seconds)}, ${Number(agenda.core_hours.toPrecision(2))} core hours`;
  byId("r-agenda").replaceChildren(bar(all ? agenda.done / all : 0), ` ${agenda.done} of ${all} runs, ${rest}`);
  byId("r-plan").replaceChildren(...agenda.lines.map((one) => row([
    ["path", printable(one.at)], ["n", `${one.done} of ${one.wanted}`],
    [one.failed ? "n partial" : "n dim", one.failed ? `failed ${number(one.failed)} ×` : ""],
    ["n dim", one.seconds === null ? "" : `${duration(one.seconds)} each`],
  ])));
}

// Call paths outside of what the models of other runs let expect by now, the farthest off first.
function drawOff() {
  const run = data.runs[0];
  byId("r-off-card").hidden = !run;
  if (!run) return;
  const judged = data.board.series.filter((one) => one.expected);
  const off = judged.filter((one) => one.verdict).sort((a, b) => offness(b) - offness(a));
  byId("r-off-note").textContent = !judged.length ? `${printable(run.name)}: the models say nothing of this run yet`
    : `${printable(run.name)}: ${off.length} of ${judged.length} forecasts of call paths are outside of what the models of other runs let expect by now`;
  byId("r-off-table").hidden = !off.length;
  byId("r-off").replaceChildren(...off.slice(0, OFF).map((one) => {
    const name = element("button", "link path", pathText(one.callpath));
    name.addEventListener("click", () => go({ view: "model", path: one.callpath, metric: one.metric, behaviour: one.behaviour }, true));
    const [low, , high] = one.expected;
    return row([
      [`off ${one.verdict}`, `${SIGNS[one.verdict] || ""}${one.verdict}`], name, printable(one.metric), ["n", quantity(one.live, one.unit)],
      ["n dim", `${quantity(low, one.unit)} … ${quantity(high, one.unit)}`], ["n", `× ${number(Number((one.live / one.expected[1]).toPrecision(3)))}`],
    ]);
  }));
}
