
// Time series as SVG: usage, limit and guarantee of one service, or the usage of all services of a machine or rack.

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [600, 250, 66, 8, 10, 34];
const COLOURS = 8;
let series = null;
let cursor = null;

/** A step of a scale: 1, 2 or 5 of a power of ten. */
function step(most) {
  const power = 10 ** Math.floor(Math.log10(most / 4));
  return [1, 2, 5, 10].map((of) => of * power).find((of) => most / of <= 5);
}

/** A path through values; unknown values are gaps. `y` is the height of a value. */
function path(values, x, y, steps = false) {
  let [text, before] = ["", null];
  values.forEach((value, at) => {
    if (value === null) { before = null; return; }
    const height = y(value).toFixed(1);
    if (before === null) text += `M${x(at).toFixed(1)} ${height}`;
    else text += steps ? `H${x(at).toFixed(1)}V${height}` : `L${x(at).toFixed(1)} ${height}`;
    before = value;
  });
  return text;
}

/** The area between two rows of heights, piece by piece. */
function area(low, high, x, y) {
  let [text, from] = ["", null];
  for (let at = 0; at <= high.length; at += 1) {
    const known = at < high.length && high[at] !== null;
    if (known && from === null) from = at;
    if (!known && from !== null) {
      const forth = [], back = [];
      for (let one = from; one < at; one += 1) {
        forth.push(`${x(one).toFixed(1)} ${y(high[one]).toFixed(1)}`);
        back.unshift(`${x(one).toFixed(1)} ${y(low[one] ?? 0).toFixed(1)}`);
      }
      text += `M${forth.join("L")}L${back.join("L")}Z`;
      from = null;
    }
  }
  return text;
}

/** The services that are distinguished, the largest first, and the others as one. */
function layers(history) {
  const sum = (values) => values.reduce((all, value) => all + (value ?? 0), 0);
  const order = history.services
    .map((values, index) => ({ index, values, size: sum(values) }))
    .filter((one) => one.size > 0);
  order.sort((a, b) => b.size - a.size || a.index - b.index);
  const shown = order.slice(0, COLOURS).map((one) => ({
    name: net.services[one.index].name, values: one.values, colour: `c${one.index % COLOURS}`,
  }));
  // Two services of one colour could not be distinguished.
  const colours = [...Array(COLOURS).keys()].map((colour) => `c${colour}`);
  shown.forEach((one, at) => {
    if (shown.findIndex((other) => other.colour === one.colour) === at) return;
    one.colour = colours.find((colour) => !shown.some((other) => other.colour === colour)) ?? "c8";
  });
  const rest = order.slice(COLOURS);
  if (rest.length > 0) {
    const add = (all, value) => (value === null ? all : (all ?? 0) + value);
    const values = rest[0].values.map((_, at) => rest.reduce((all, one) => add(all, one.values[at]), null));
    shown.push({ name: `${rest.length} others`, values, colour: "c8" });
  }
  return shown;
}

/** The lower and upper edges of stacked layers, and the upper edge of all. */
function edgesOf(stack, length) {
  const edges = [];
  let top = Array(length).fill(null);
  for (const layer of stack) {
    const low = top;
    top = low.map((value, at) => (layer.values[at] === null ? value : (value ?? 0) + layer.values[at]));
    edges.push({ layer, low, high: top });
  }
  return { edges, top };
}

/** Grid lines with their rates, and the times. */
function drawAxes(svg, most, seconds, y) {
  for (let value = 0; value <= most; value += step(most)) {
    svg.append(shape("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }));
    const position = { x: LEFT - 7, y: y(value) + 4, "text-anchor": "end" };
    svg.append(shape("text", position, value === 0 ? "0" : rate(value)));
  }
  for (let part = 0; part <= 5; part += 1) {
    const text = part === 5 ? "now" : `−${(seconds * (5 - part)) / 300} min`;
    const anchor = part === 5 ? "end" : part === 0 ? "start" : "middle";
    const left = LEFT + ((WIDTH - LEFT - RIGHT) * part) / 5;
    svg.append(shape("text", { x: left, y: HEIGHT - 6, "text-anchor": anchor }, text));
  }
}

/** A line across the chart. */
function across(kind, height) {
  return shape("path", { class: kind, d: `M${LEFT} ${height}H${WIDTH - RIGHT}` });
}

function drawService(svg, history, guarantee, x, y) {
  const zero = history.usage.map(() => 0);
  svg.append(shape("path", { class: "area", d: area(zero, history.usage, x, y) }));
  if (guarantee) svg.append(across("guarantee", y(guarantee)));
  svg.append(shape("path", { class: "usage", d: path(history.usage, x, y) }));
  svg.append(shape("path", { class: "limit", d: path(history.limit, x, y, true) }));
  strip(svg, history, x);
}

function drawLayers(svg, edges, x, y) {
  for (const { layer, low, high } of edges) {
    const known = high.map((value, at) => (layer.values[at] === null ? null : value));
    svg.append(shape("path", { class: layer.colour, opacity: 0.85, d: area(low, known, x, y) }));
  }
}

/** A cursor that follows the pointer and the arrow keys, with the text at it. Returns the function that moves it. */
function addCursor(svg, length, x, text) {
  const line = shape("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  svg.append(line);
  const move = (at) => {
    cursor = at;
    line.setAttribute("visibility", at === null ? "hidden" : "visible");
    if (at !== null) { line.setAttribute("x1", x(at)); line.setAttribute("x2", x(at)); }
    setText(byId("reading"), at === null ? "" : text(at));
  };
  const at = (event) => {
    const box = svg.getBoundingClientRect();
    const part = (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
    return Math.max(0, Math.min(length - 1, Math.round(part * (length - 1))));
  };
  svg.addEventListener("pointermove", (event) => move(at(event)));
  svg.addEventListener("pointerleave", () => move(null));
  svg.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (event.key === "Escape") move(null);
    if (!by) return;
    event.preventDefault();
    move(Math.max(0, Math.min(length - 1, (cursor ?? length - 1) + by)));
  });
  return move;
}

function drawChart() {
  if (!series) return;
  const { place, history, seconds } = series;
  const single = place.level === 3;
  const capacity = place.capacity?.[chosen.direction] ?? 0;
  const { guarantee } = totals(place);
  const stack = single ? [] : layers(history);
  const length = single ? history.usage.length : history.services[0].length;
  const { edges, top } = edgesOf(stack, length);
  // A limit far above the usage would flatten everything, so the scale includes near limits only.
  const used = Math.max(1e3, guarantee ?? 0, ...(single ? history.usage : top).map((value) => value ?? 0));
  const nearCapacity = capacity < 1.5 * used ? [capacity] : [];
  const near = single ? history.limit.filter((value) => value !== null && value < 3 * used) : nearCapacity;
  const most = Math.max(used, ...near) * 1.08;
  const x = (at) => LEFT + ((WIDTH - LEFT - RIGHT) * at) / (length - 1);
  const y = (value) => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (Math.min(value, most) / most);
  const viewBox = `0 0 ${WIDTH} ${HEIGHT}`;
  const svg = shape("svg", { viewBox, role: "img", tabindex: 0, "aria-label": describe(place, top) });
  drawAxes(svg, most, seconds, y);
  if (capacity > 0 && capacity <= most) svg.append(across("capacity", y(capacity)));
  if (single) drawService(svg, history, guarantee, x, y);
  else drawLayers(svg, edges, x, y);
  const move = addCursor(svg, length, x, (at) => reading(at, length, seconds, stack));
  const had = document.activeElement?.closest?.("#chart svg");
  byId("chart").replaceChildren(svg);
  if (had) svg.focus();
  move(cursor === null ? null : Math.min(cursor, length - 1));
  legend(single, guarantee, stack);
}

/** The deciding constraints, below the chart: grey is the service's own demand. */
function strip(svg, history, x) {
  const height = 7, top = HEIGHT - BOTTOM + 4;
  let from = 0;
  for (let at = 1; at <= history.decided_by.length; at += 1) {
    const by = history.decided_by[from];
    if (at < history.decided_by.length && history.decided_by[at] === by) continue;
    const text = constraint(by, history.constraints);
    if (by > 0) {
      const width = Math.max(1, x(Math.min(at, history.decided_by.length - 1)) - x(from));
      const box = { class: stripColour(by, text), x: x(from), y: top, width, height };
      svg.append(shape("rect", box, shape("title", {}, text)));
    }
    from = at;
  }
}

function stripColour(by, text) {
  return text === "demand" ? "strip-free" : `c${(by + 1) % COLOURS}`;
}

function swatch(kind) {
  const inside = kind === "usage" || kind === "limit" || kind === "guarantee"
    ? shape("path", { class: kind, d: "M0 5H12" })
    : shape("rect", { class: kind, width: 12, height: 10, rx: 2 });
  return shape("svg", { viewBox: "0 0 12 10", "aria-hidden": "true" }, inside);
}

function legend(single, guarantee, stack) {
  const items = [];
  if (single) {
    items.push(["usage", "usage"], ["limit", "limit"]);
    if (guarantee) items.push(["guarantee", "guarantee"]);
    const history = series.history;
    for (const by of new Set(history.decided_by)) {
      const text = constraint(by, history.constraints);
      if (by > 0) items.push([stripColour(by, text), text === "demand" ? "by its demand" : `by ${text}`]);
    }
  } else for (const layer of stack) items.push([layer.colour, layer.name]);
  byId("legend").replaceChildren(...items.map(([kind, text]) => el("span", {}, swatch(kind), text)));
}

function ago(at, length, seconds) {
  const back = (seconds * (length - 1 - at)) / (length - 1);
  return back < 0.5 ? "now" : `${about(back)} ago`;
}

function reading(at, length, seconds, stack) {
  const { place, history } = series;
  if (place.level === 3) {
    const [usage, limit] = [history.usage[at], history.limit[at]];
    if (usage === null) return `${ago(at, length, seconds)}: unknown`;
    const atMost = limit === null ? "" : ` of at most ${rate(limit)}`;
    const by = constraint(history.decided_by[at], history.constraints);
    return `${ago(at, length, seconds)}: ${rate(usage)}${atMost}, decided by ${by}`;
  }
  const used = stack.filter((layer) => layer.values[at]);
  const parts = used.map((layer) => `${layer.name} ${rate(layer.values[at])}`);
  return `${ago(at, length, seconds)}: ${parts.join(", ") || "nothing"}`;
}

function describe(place, top) {
  const { usage, limit, by } = totals(place);
  const what = place.level === 3 ? `${place.service} on ${place.machine}` : place.name;
  const values = place.level === 3 ? series.history.usage : top;
  const peak = Math.max(0, ...values.filter((value) => value !== null));
  const cap = limit === null ? "no limit" : `limit ${rate(limit)}`;
  const decision = place.level === 3 ? `, ${cap}, decided by ${by}` : "";
  const rates = `now ${rate(usage)}, at most ${rate(peak)}`;
  return `${what} over ${about(series.seconds)}: ${rates}${decision}. Arrow keys read values.`;
}
