// What is known of the campaign, and what the user looks at; the latter is kept in the address.
import { byId } from "./text.js";

export const data = {
  board: { parameters: [], runs: [], series: [], findings: [], omitted: 0 },
  runs: [], // those being measured, newest first
  agenda: null,
  campaign: "",
  firstRun: "", // what makes it
  isLive: false,
  version: 0, // of the models: what was asked before is old
};

const FIRST = {
  view: "paths", metric: "", path: "", behaviour: "", filter: "", order: "tree", axis: "",
  x: "", y: "", pins: [], at: {}, rivals: false, relative: false, across: "", down: "",
};

export const state = structuredClone(FIRST);

const listeners = [];

export function onChange(listener) {
  listeners.push(listener);
}

// Look at something else; `isStep` makes it one that the back button knows.
export function go(changes, isStep = false) {
  Object.assign(state, changes);
  const address = hash();
  if (address !== location.hash) {
    if (isStep) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
  }
  for (const listener of listeners) listener();
}

// The address says only what is not as it is at first.
export function hash() {
  const said = new URLSearchParams();
  for (const [name, first] of Object.entries(FIRST)) {
    const value = state[name];
    if (name === "view") continue;
    if (name === "pins") value.forEach((pin) => said.append("pins", pin));
    else if (name === "at") Object.entries(value).forEach(([key, one]) => said.append("at", `${key}=${one}`));
    else if (value !== first) said.set(name, typeof first === "boolean" ? "yes" : value);
  }
  const text = said.toString();
  return `#${state.view}${text ? `?${text}` : ""}`;
}

export function readHash(views) {
  const [view, text] = location.hash.slice(1).split(/\?(.*)/s);
  const said = new URLSearchParams(text || "");
  Object.assign(state, structuredClone(FIRST));
  if (views.includes(view)) state.view = view;
  for (const [name, first] of Object.entries(FIRST)) {
    if (name === "view" || !said.has(name)) continue;
    if (name === "pins") state.pins = said.getAll("pins").filter(Boolean).slice(0, 12);
    else if (name === "at") {
      const pairs = said.getAll("at").map((one) => one.split("="));
      state.at = Object.fromEntries(pairs.map(([key, one]) => [key, Number(one)]).filter(([, one]) => Number.isFinite(one)));
    } else state[name] = typeof first === "boolean" ? true : said.get(name);
  }
}

const RETRY_MS = 2000;
let known = new Map();
let version = 0;
let retrying = 0;

// What the server says of the models, asked once for each version of them; null where it does not.
async function ask(name, words, at = {}) {
  const query = new URLSearchParams(words);
  for (const [key, value] of Object.entries(at)) query.append("at", `${key}=${value}`);
  const address = `${name}?${query}`;
  if (version !== data.version) [known, version] = [new Map(), data.version];
  if (!known.has(address)) {
    if (known.size > 200) known.clear();
    known.set(address, fetched(address, known));
  }
  return known.get(address);
}

// Nobody may answer for a while; what is shown then is asked again.
async function fetched(address, asked) {
  const response = await fetch(address).catch(() => null);
  const answer = response && response.ok ? await response.json().catch(() => null) : null;
  if (answer === null && !(response && response.status === 400)) {
    asked.delete(address);
    clearTimeout(retrying);
    retrying = setTimeout(() => go({}), RETRY_MS);
  }
  return answer;
}

let begun = 0;
const drawn = new Map(); // by host: which of its drawings is shown

// Answers for a host, in the order of its questions; null where these are not its questions any
// more, or newer answers are shown already: answers come in any order.
export async function answers(host, questions) {
  const mine = ++begun;
  const asked = questions();
  byId(host).classList.add("waiting");
  const found = await Promise.all(asked.map((one) => ask(...one)));
  if (mine < (drawn.get(host) || 0) || JSON.stringify(questions()) !== JSON.stringify(asked)) return null;
  drawn.set(host, mine);
  byId(host).classList.remove("waiting");
  return found;
}
