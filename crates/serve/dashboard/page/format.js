
// Texts and elements. Texts from elsewhere only ever become text nodes and attributes.

const UNITS = [[1e12, "Tb/s"], [1e9, "Gb/s"], [1e6, "Mb/s"], [1e3, "kb/s"]];

/** A rate in three digits: 1.25 Gb/s. */
function rate(bps) {
  if (bps === null || bps === undefined) return "–";
  for (const [size, unit] of UNITS) {
    // A value that is rounded up to the next unit is shown in it.
    if (bps >= size * 0.9995) {
      const value = bps / size;
      const digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
      return `${value.toFixed(digits).replace(/\.0+$|(\.\d)0$/, "$1")} ${unit}`;
    }
  }
  return `${Math.round(bps)} b/s`;
}

/** A time in a readable unit. */
function about(seconds) {
  if (seconds < 1e-3) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${+(seconds * 1e3).toPrecision(3)} ms`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; a child that is a text becomes a text node. */
function make(space, name, attributes, children) {
  const element = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}
const el = (name, attributes = {}, ...children) => make(null, name, attributes, children);
const shape = (name, attributes = {}, ...children) => make(SVG, name, attributes, children);
const byId = (id) => document.getElementById(id);

/** Changes a text only where it differs: a page of thousands of rows is repainted every second. */
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
function set(element, name, value) {
  const text = String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}
