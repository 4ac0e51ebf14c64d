// Short names of call paths, and colours of classes: the same in every view.
import { ARROW, pathText, printable } from "./text.js";
import { data } from "./state.js";

const UNDIVIDED = "all"; // the class of call paths whose ranks all behave alike

let indexVersion = -1; // of the data
let shades = new Map(); // by name of the class
let ambiguous = new Set(); // shortened names that belong to several functions

// Rebuild the index when another board has arrived.
function updateIndex() {
  if (indexVersion === data.version) return;
  indexVersion = data.version;

  const classes = new Set();
  const frames = new Set();
  for (const row of data.board.series) {
    classes.add(row.behaviour);
    for (const frame of row.callpath.split(ARROW)) frames.add(frame);
  }
  classes.delete(UNDIVIDED);
  shades = new Map([UNDIVIDED, ...[...classes].sort()].map((name, i) => [name, i]));

  const owners = new Map(); // by shortened name: the full name
  ambiguous = new Set();
  for (const frame of frames) {
    for (const name of new Set(shortNames(frame))) {
      if (owners.has(name)) ambiguous.add(name);
      owners.set(name, frame);
    }
  }
}

// Ever longer names of a function.
function shortNames(frame) {
  const name = withoutArguments(frame);
  return [markTemplates(name), name, frame];
}

// The index of the colour and shape of a class. Classes without models get the next free ones.
export function classShade(name) {
  updateIndex();
  if (!shades.has(name)) shades.set(name, shades.size);
  return shades.get(name);
}

// A C++ function without its argument list: "solve(double*, int) const" becomes "solve".
// Names such as "(import)" and "operator()" stay as they are.
export function withoutArguments(frame) {
  const end = frame.lastIndexOf(")");
  const suffix = frame.slice(end + 1);
  if (end < 0 || !/^( const| noexcept|&| \[clone [^\]]*\])*$/.test(suffix)) return frame;

  let depth = 0;
  for (let i = end; i >= 0; i -= 1) {
    if (frame[i] === ")") depth += 1;
    if (frame[i] === "(") depth -= 1;
    if (depth > 0) continue;

    const name = frame.slice(0, i).trimEnd();
    return name && !name.endsWith("operator") && !name.endsWith("::") ? name : frame;
  }
  return frame;
}

// A C++ function without the arguments of its templates: "solve<Matrix<double>, int>" becomes "solve<…>".
function markTemplates(name) {
  let kept = "", depth = 0;
  for (let i = 0; i < name.length; i += 1) {
    if (name[i] === "<" && (depth > 0 || /\w/.test(name[i - 1] || ""))) {
      depth += 1;
      if (depth === 1) kept += "<…>";
    } else if (name[i] === ">" && depth > 0) depth -= 1;
    else if (depth === 0) kept += name[i];
  }
  return depth ? name : kept;
}

// The name of a frame; arguments of templates and of the function are dropped where the name is unambiguous.
export function frameName(frame) {
  updateIndex();
  return printable(shortNames(frame).find((name) => !ambiguous.has(name)) || frame);
}

const frameNames = (path) => path.split(ARROW).map(frameName);

export function pathName(path) {
  return frameNames(path).join(" → ");
}

// A call path in about `width` characters: arguments of templates, then frames in the middle are dropped,
// the leaf is kept.
export function shortPath(path, width) {
  let text = pathName(path);
  if (text.length <= width) return text;

  const frames = frameNames(path).map(markTemplates);
  text = frames.join(" → ");
  if (text.length <= width) return text;

  const root = frames.shift();
  while (frames.length > 1) {
    text = `${root} → … → ${frames.join(" → ")}`;
    if (text.length <= width) return text;
    frames.shift();
  }

  const leaf = frames[0] || root;
  if (leaf.length <= width) return frames.length && leaf.length + 4 <= width ? `… → ${leaf}` : leaf;
  const half = Math.floor((width - 1) / 2);
  return `${leaf.slice(0, half)}…${leaf.slice(leaf.length - half)}`;
}

// The full names, for titles that appear under the mouse.
export const fullPath = pathText;

const START_UP = /^(\(import\)|P?MPI_(Init|Init_thread|Finalize|Session_\w+))$/;

// Whether a call path belongs to imports, or to the start or the end of MPI.
export const isStartUp = (path) => path.split(ARROW).some((frame) => START_UP.test(frame));
