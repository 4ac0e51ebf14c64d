// Runs and their ranks, progress of the campaign, and deviations of the run in progress.
import {
  byId, element, formatDuration, formatFactor, formatNumber, formatPercent, formatQuantity, printable, svgElement, tableRow,
} from "./text.js";
import { makeCourse } from "./course.js";
import { data, go } from "./state.js";
import { fullPath, shortPath } from "./names.js";
import { deviationOf, SIGNS } from "./tree.js";

const MAX_RUNS = 60; // in the list
const MAX_SIDE_RUNS = 6; // beside the tree, so that findings are visible there
const MAX_RUN_FINDINGS = 4; // below a run
const MAX_MISSING = 6; // missing ranks that are listed
const MAX_DEVIATIONS = 40;
const MAX_SIDE_FINDINGS = 8;
const MAX_FINDINGS = 2000;
const MAX_PLACES = 3; // of a finding
const MAX_UNFOLDED = 6; // more findings with the same code are folded
const STRIP_WIDTH = 240;
const STRIP_HEIGHT = 10;
const SMOOTHING_S = 15; // time constant of the estimated end of a run
const MIN_PROGRESS = 0.02; // before that, the remaining time cannot be estimated

// Heights of the states of ranks: states differ without colours.
const HEIGHTS = { ended: 10, measuring: 7, awaited: 3, silent: 5, failed: 10, lost: 10 };

// The stored states as the user reads them.
const STATE_NAMES = { sealed: "complete", partial: "incomplete" };
const stateText = (run) => printable(STATE_NAMES[run.state] || run.state);

const listRuns = () => [...data.runs, ...data.board.runs];
const isFinished = (run) => ["sealed", "partial", "omitted"].includes(run.state);

function ranksText(run) {
  if (run.state === "sealed" || run.state === "omitted") return `${run.size} of ${run.size} ended`;
  if (run.state === "partial") {
    const more = run.missing.length > MAX_MISSING ? " …" : "";
    const missing = run.missing.slice(0, MAX_MISSING).join(", ");
    return `${run.ended} of ${run.size} ended${missing ? `; missing: ${missing}${more}` : ""}`;
  }
  return `${run.seen} of ${run.size} heard, ${run.ended} ended`;
}

// Consecutive ranks in the same state; only their numbers where the server sends no details.
function listSpans(run) {
  if (run.ranks.length) return run.ranks;
  return [
    ["ended", run.ended],
    ["measuring", Math.max(run.seen - run.ended, 0)],
    ["awaited", Math.max(run.size - run.seen, 0)],
  ];
}

// A strip with the state of each rank.
function makeStrip(run) {
  const strip = svgElement("svg", {
    viewBox: `0 0 ${STRIP_WIDTH} ${STRIP_HEIGHT}`,
    class: "states",
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": ranksText(run),
  });

  let rank = 0;
  for (const [state, count] of listSpans(run)) {
    if (!count) continue;
    const height = HEIGHTS[state] || STRIP_HEIGHT;
    const span = svgElement("rect", {
      class: `state-${state}`,
      x: (STRIP_WIDTH * rank) / run.size,
      y: STRIP_HEIGHT - height,
      width: (STRIP_WIDTH * count) / run.size,
      height,
    });
    const ranks = count > 1 ? `ranks ${rank} to ${rank + count - 1}` : `rank ${rank}`;
    span.append(svgElement("title", {}, `${ranks}: ${state}`));
    strip.append(span);
    rank += count;
  }
  return strip;
}

function makeBar(fraction) {
  const bar = element("progress");
  bar.max = 1;
  bar.value = fraction;
  return bar;
}

function remainingText(run) {
  if (!run.part || !run.started_at || run.ended === run.size) return "";
  const now = Date.now() / 1000;
  const elapsed = now - run.started_at;
  if (elapsed <= 1 || run.part <= MIN_PROGRESS) return "";

  const end = smoothEnd(run.id, now, now + (elapsed * (1 - run.part)) / run.part);
  return `, about ${formatDuration(Math.max(end - now, 1))} left`;
}

const ends = new Map(); // by id of the run: { at, end }, in seconds since 1970

// Progress comes in steps, so the estimated end jumps: follow it slowly.
function smoothEnd(id, now, end) {
  const before = ends.get(id);
  const weight = before ? 1 - Math.exp(-(now - before.at) / SMOOTHING_S) : 1;
  const smooth = before ? before.end + weight * (end - before.end) : end;
  ends.set(id, { at: now, end: smooth });
  return smooth;
}

function progressCell(run) {
  return element("span", "", makeBar(run.part), ` ${formatPercent(run.part)}${remainingText(run)}`);
}

const hasProgress = (run) => run.part !== null && !isFinished(run);

const SIGNALS = { 1: "SIGHUP", 2: "SIGINT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM", 24: "SIGXCPU" };
const STATUS_UNKNOWN = -1000;

function statusText(status) {
  if (status === STATUS_UNKNOWN) return "killed, no exit code";
  if (status > 0) return `exit code ${status}`;
  const name = SIGNALS[-status];
  return `signal ${-status}${name ? ` (${name})` : ""}`;
}

// When and where a run was made, its command, and how its failed ranks ended.
function makeFactsRow(run) {
  const facts = [];
  if (run.started_at) facts.push(new Date(1000 * run.started_at).toLocaleString("sv").slice(0, 16));
  if (run.host) facts.push(`on ${printable(run.host)}`);
  if (run.command) facts.push(printable(run.command));
  const isComplete = run.state === "sealed" && !run.failures.length;
  if (isComplete && run.command) facts.push("exit code 0");

  const failures = run.failures.map(([rank, status]) => `rank ${rank}: ${statusText(status)}`);
  const cell = element("td", "dim", facts.join(" · "));
  if (failures.length) cell.append(element("div", "failure", failures.join(", ")));
  cell.colSpan = 5;

  const findings = data.board.findings.filter((finding) => finding.where === run.id || finding.where === run.name);
  for (const finding of findings.slice(0, MAX_RUN_FINDINGS)) {
    cell.append(element("div", "", element("span", "code", printable(finding.code)), printable(finding.text)));
  }
  return element("tr", "facts", cell);
}

// A stored run links to its icicle, where it can be compared with others.
function makeRunName(run) {
  if (!isFinished(run)) return printable(run.name);
  const link = element("button", "link", printable(run.name));
  link.title = "what took its time";
  link.addEventListener("click", () => go({ view: "icicle", run: run.id, path: "" }, true));
  return link;
}

function makeRunRow(run) {
  const elapsed = run.ended_at > run.started_at ? formatDuration(run.ended_at - run.started_at) : "";
  return tableRow([
    ["nowrap", makeRunName(run)],
    [`state ${run.state}`, stateText(run)],
    makeStrip(run),
    ranksText(run),
    hasProgress(run) ? progressCell(run) : elapsed,
  ]);
}

// The short lists beside the tree, and the facts in the title.
export function drawSide() {
  const runs = listRuns();
  const rows = runs.slice(0, MAX_SIDE_RUNS).map((run) => tableRow([
    ["nowrap", printable(run.name)],
    [`state ${run.state}`, stateText(run)],
    hasProgress(run) ? progressCell(run) : ranksText(run),
  ]));
  if (runs.length > MAX_SIDE_RUNS) rows.push(tableRow([["dim", `${runs.length - MAX_SIDE_RUNS} more`], "", ""]));
  if (!runs.length) rows.push(tableRow([["dim", printable(data.firstRun)]]));
  byId("runs").replaceChildren(...rows);

  drawSideFindings();
  byId("facts").textContent = listFacts(runs).join(" · ");
  byId("count-findings").textContent = countText(mergeFindings(data.board.findings).length);
  byId("count-runs").textContent = countText(runs.length);
}

const countText = (count) => (count ? ` ${count}` : "");
const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

function listFacts(runs) {
  const { board, agenda } = data;
  const facts = [`${plural(runs.length, "run")} over ${board.parameters.map(printable).join(", ") || "–"}`];

  if (agenda && !agenda.trouble) facts.push(`${agenda.done} of ${agenda.done + agenda.left} runs made`);

  const deviating = new Set(board.series.filter((row) => row.verdict).map((row) => row.callpath));
  if (deviating.size) facts.push(`${plural(deviating.size, "call path")} off the forecast`);
  if (board.omitted) facts.push(`${board.omitted} more series: insitu models shows all`);
  return facts;
}

// One entry for each distinct finding, which names the first places where it was found.
function mergeFindings(findings) {
  const merged = new Map();
  for (const finding of findings) {
    const key = JSON.stringify([finding.code, finding.text]);
    if (!merged.has(key)) merged.set(key, { ...finding, places: new Set() });
    if (finding.where) merged.get(key).places.add(finding.where);
  }
  return [...merged.values()].map(({ code, text, places }) => {
    const shown = [...places].slice(0, MAX_PLACES).join(", ");
    const hidden = places.size - MAX_PLACES;
    return { code, text, where: hidden > 0 ? `${shown} and ${hidden} more` : shown };
  });
}

function makeFindingRow(finding) {
  const location = finding.where ? element("span", "dim", ` – ${printable(finding.where)}`) : "";
  return element("li", "", element("span", "code", printable(finding.code)), printable(finding.text), location);
}

function groupByCode(findings) {
  const groups = new Map();
  for (const finding of findings) {
    if (!groups.has(finding.code)) groups.set(finding.code, []);
    groups.get(finding.code).push(finding);
  }
  return groups;
}

// The first finding of each kind.
function drawSideFindings() {
  const groups = [...groupByCode(mergeFindings(data.board.findings)).values()];
  const items = groups.slice(0, MAX_SIDE_FINDINGS).map(([first, ...others]) => {
    const row = makeFindingRow(first);
    if (others.length) row.append(element("span", "dim", ` (${others.length} more of this kind)`));
    return row;
  });
  if (!groups.length) items.push(element("li", "dim", "none"));
  const more = groups.length - items.length;
  if (more > 0) items.push(element("li", "dim", `${more} more kinds`));
  byId("findings").replaceChildren(...items);
}

// All findings, grouped by code. Groups that the user opened stay open.
export function drawFindingsPage() {
  const findings = mergeFindings(data.board.findings);
  const host = byId("f-all");
  if (host.dataset.version === String(data.version)) return;
  host.dataset.version = String(data.version);

  const opened = new Set([...host.querySelectorAll("details[open]")].map((group) => group.dataset.code));
  const groups = groupByCode(findings.slice(0, MAX_FINDINGS));
  const nodes = [...groups].map(([code, group]) => makeFindingGroup(code, group, opened.has(code)));
  host.replaceChildren(...nodes);
  if (!findings.length) host.append(element("p", "dim", "none"));
}

function makeFindingGroup(code, group, isOpen) {
  const list = element("ul", "", ...group.map(makeFindingRow));
  if (group.length <= MAX_UNFOLDED) return list;

  const label = `${group.length} of this kind, for example: ${printable(group[0].text)}`;
  const summary = element("summary", "", element("span", "code", printable(code)), label);
  const details = element("details", "", summary, list);
  details.dataset.code = code;
  details.open = isOpen;
  return details;
}

export function drawRuns() {
  const runs = listRuns();
  byId("r-rows").replaceChildren(...runs.slice(0, MAX_RUNS).flatMap((run) => [makeRunRow(run), makeFactsRow(run)]));
  byId("r-table").hidden = !runs.length;

  const older = runs.length > MAX_RUNS ? `${runs.length - MAX_RUNS} older runs` : "";
  byId("r-more").textContent = runs.length ? older : printable(data.firstRun);
  drawAgenda();
  drawDeviations();
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

  const total = agenda.done + agenda.left;
  const progress = total ? agenda.done / total : 0;
  byId("r-agenda").replaceChildren(makeBar(progress), ` ${agenda.done} of ${total} runs, ${agendaText(agenda)}`);

  const rows = agenda.lines.map((line) => tableRow([
    ["path", printable(line.at)],
    ["n", `${line.done} of ${line.wanted}`],
    [line.failed ? "n partial" : "n dim", line.failed ? `failed ${formatNumber(line.failed)} ×` : ""],
    ["n dim", line.seconds === null ? "" : `${formatDuration(line.seconds)} each`],
  ]));
  byId("r-plan").replaceChildren(...rows);
}

function agendaText(agenda) {
  if (!agenda.left) return "all runs are made";
  if (agenda.seconds === null) return `${agenda.left} left`;
  const coreHours = Number(agenda.core_hours.toPrecision(2));
  return `${agenda.left} left: about ${formatDuration(agenda.seconds)}, ${coreHours} core hours`;
}

// Call paths that differ from the forecast of earlier runs, the largest deviation first.
function drawDeviations() {
  const run = data.runs[0];
  byId("r-off-card").hidden = !run;
  if (!run) return;

  const judged = data.board.series.filter((row) => row.expected);
  const deviating = judged.filter((row) => row.verdict).sort((a, b) => deviationOf(b) - deviationOf(a));
  const text = judged.length
    ? `${deviating.length} of ${judged.length} values differ from the forecast of earlier runs`
    : "the models cannot forecast this run yet";
  byId("r-off-note").textContent = `${printable(run.name)}: ${text}`;
  byId("r-course").replaceChildren(...makeCourse(run, data.course));
  byId("r-off-table").hidden = !deviating.length;
  byId("r-off").replaceChildren(...deviating.slice(0, MAX_DEVIATIONS).map(makeDeviationRow));
}

function makeDeviationRow(row) {
  const { callpath, metric, behaviour, unit, verdict } = row;
  const name = element("button", "link path", shortPath(callpath, 90));
  name.title = fullPath(callpath);
  name.addEventListener("click", () => go({ view: "model", path: callpath, metric, behaviour }, true));

  const [low, expected, high] = row.expected;
  return tableRow([
    [`off ${verdict}`, `${SIGNS[verdict] || ""}${verdict}`],
    name,
    printable(metric),
    ["n", formatQuantity(row.live, unit)],
    ["n dim", `${formatQuantity(low, unit)} … ${formatQuantity(high, unit)}`],
    ["n", formatFactor(row.live / expected)],
  ]);
}
