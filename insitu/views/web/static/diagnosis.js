// The diagnosis: what will limit the program on more ranks, the most important statement first.
import { byId, element, formatNumber, printable } from "./text.js";
import { data, fetchAnswers, go, noAnswerText, state } from "./state.js";
import { fullPath, shortPath } from "./names.js";

const MARKS = { limit: "✘", warning: "!", unclear: "?", fine: "✔", "not judged": "~" };

export async function drawDiagnosis() {
  const answers = await fetchAnswers("d-all", () => (
    state.view === "diagnosis" ? [{ name: "diagnosis", words: {} }] : []
  ));
  if (!answers || !answers.length) return;

  const [diagnosis] = answers;
  const hasRuns = diagnosis !== null && "verdict" in diagnosis;
  byId("d-verdict").textContent = hasRuns ? printable(diagnosis.verdict) : emptyText(diagnosis);
  byId("d-measured").textContent = hasRuns ? printable(diagnosis.measured) : "";
  byId("d-totals").textContent = hasRuns ? printable(diagnosis.totals) : "";
  byId("d-statements").replaceChildren(...(hasRuns ? listStatements(diagnosis) : []));
  byId("d-efficiencies").replaceChildren(...(hasRuns ? diagnosis.efficiencies.map(makeEfficiencyTable) : []));
  byId("d-notes").replaceChildren(...(hasRuns ? listNotes(diagnosis) : []));
}

function emptyText(diagnosis) {
  if (diagnosis === null) return noAnswerText();
  if (data.board.runs.length + data.runs.length) return "no complete run yet: the diagnosis follows the first one";
  return printable(data.firstRun);
}

function listStatements({ statements, profile }) {
  return [...statements, ...profile].map((statement) => makeStatement(statement));
}

function makeStatement(statement) {
  const { status, kind, text, callpath, ranks, where } = statement;
  const title = element("div", "title", element("span", "kind", kind));
  if (callpath) title.append(makeLink(statement));
  if (where) title.append(element("span", "dim", printable(where)));

  const item = element("li", status.replace(" ", "-"), element("span", "mark", MARKS[status] || " "));
  item.append(element("div", "", title, element("div", "text", printable(text)), factsOf(statement)));
  item.setAttribute("aria-label", `${status}: ${kind}, ${ranks || "all ranks"}`);
  return item;
}

// How sure a statement is, where its budget ends, and which ranks it is about.
function factsOf({ ranks, law, exact, points, breaks_at: breaksAt }) {
  const facts = [];
  if (law) facts.push(printable(law));
  if (exact && points) facts.push(`exact, ${points}`);
  if (breaksAt !== null) facts.push(`breaks at ${formatNumber(Number(breaksAt.toPrecision(2)))} ranks`);
  if (ranks && ranks !== "all") facts.push(printable(ranks));
  return element("div", "dim", facts.join(" · "));
}

function makeLink({ callpath, metric }) {
  const link = element("button", "link path", shortPath(callpath, 60));
  link.title = fullPath(callpath);
  const isModelled = data.board.series.some((row) => row.callpath === callpath && row.metric === metric);
  const target = isModelled ? { view: "model", metric } : { view: "paths" };
  link.addEventListener("click", () => go({ ...target, path: callpath, behaviour: "" }, true));
  return link;
}

// Load balance, communication efficiency and scaling at each scale, as in POP reports.
function makeEfficiencyTable({ name, heads, rows }) {
  const head = element("tr", "", ...[name, ...heads].map((text) => element("th", "", printable(text))));
  const lines = rows.map(([label, cells]) => (
    element("tr", "", ...[label, ...cells].map((text) => element("td", "", printable(text))))
  ));
  return element("table", "", element("thead", "", head), element("tbody", "", ...lines));
}

function listNotes(diagnosis) {
  const notes = [];
  if (diagnosis.hidden) notes.push(`and ${diagnosis.hidden} more; insitu diagnose --json lists them`);
  notes.push(...diagnosis.fine);
  for (const { name, text } of diagnosis.not_judged) notes.push(`~ not judged: ${name ? `${name}: ` : ""}${text}`);
  if (diagnosis.start_up) notes.push(`start-up: ${diagnosis.start_up}`);
  notes.push(...diagnosis.notes);
  if (diagnosis.next_run) notes.push(`the run that helps most: ${diagnosis.next_run}`);
  notes.push(diagnosis.machine);
  return notes.map((note) => element("li", "", printable(note)));
}
