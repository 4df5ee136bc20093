
// Time series as SVG: one service's usage, limit and guarantee, or what the services of a machine or rack use together.

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [600, 250, 66, 8, 10, 34];
const COLOURS = 8;
let series = null;
let cursor = null;

/** A step of a scale: 1, 2 or 5 of a power of ten. */
function step(most) {
  const power = 10 ** Math.floor(Math.log10(most / 4));
  return [1, 2, 5, 10].map((of) => of * power).find((of) => most / of <= 5);
}

/** A path through values; what is unknown is a gap. `y` is the height of a value. */
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

/** The services that are told apart, the largest first, and the rest as one. */
function layers(history) {
  const sum = (values) => values.reduce((all, value) => all + (value ?? 0), 0);
  const order = history.services.map((values, index) => ({ index, values, size: sum(values) })).filter((one) => one.size > 0);
  order.sort((a, b) => b.size - a.size || a.index - b.index);
  const told = order.slice(0, COLOURS).map((one) => ({ name: net.services[one.index].name, values: one.values, colour: `c${one.index % COLOURS}` }));
  // Two services of one colour would be told as one.
  told.forEach((one, at) => { if (told.findIndex((other) => other.colour === one.colour) < at) one.colour = [...Array(COLOURS).keys()].map((c) => `c${c}`).find((c) => !told.some((other) => other.colour === c)) ?? "c8"; });
  const rest = order.slice(COLOURS);
  if (rest.length > 0) {
    const values = rest[0].values.map((_, at) => rest.reduce((all, one) => (one.values[at] === null ? all : (all ?? 0) + one.values[at]), null));
    told.push({ name: `${rest.length} others`, values, colour: "c8" });
  }
  return told;
}

function drawChart() {
  if (!series) return;
  const { place, history, seconds } = series;
  const single = place.level === 3;
  const capacity = place.capacity?.[chosen.direction] ?? 0;
  const { guarantee } = totals(place);
  const stack = single ? [] : layers(history);
  const length = single ? history.usage.length : history.services[0].length;
  const sums = [];
  let top = Array(length).fill(null);
  for (const layer of stack) {
    const low = top;
    top = low.map((value, at) => (layer.values[at] === null ? value : (value ?? 0) + layer.values[at]));
    sums.push({ layer, low, high: top });
  }
  // A limit far above what is used would flatten everything: it is shown where it is near.
  const used = Math.max(1e3, guarantee ?? 0, ...(single ? history.usage : top).map((value) => value ?? 0));
  const near = single ? history.limit.filter((value) => value !== null && value < 3 * used) : capacity < 1.5 * used ? [capacity] : [];
  const most = Math.max(used, ...near) * 1.08;
  const x = (at) => LEFT + ((WIDTH - LEFT - RIGHT) * at) / (length - 1);
  const y = (value) => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (Math.min(value, most) / most);
  const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", tabindex: 0, "aria-label": describe(place, top) });
  for (let value = 0; value <= most; value += step(most)) {
    svg.append(shape("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }));
    svg.append(shape("text", { x: LEFT - 7, y: y(value) + 4, "text-anchor": "end" }, value === 0 ? "0" : rate(value)));
  }
  for (let part = 0; part <= 5; part += 1) {
    const text = part === 5 ? "now" : `−${(seconds * (5 - part)) / 300} min`;
    svg.append(shape("text", { x: LEFT + ((WIDTH - LEFT - RIGHT) * part) / 5, y: HEIGHT - 6, "text-anchor": part === 5 ? "end" : part === 0 ? "start" : "middle" }, text));
  }
  if (capacity > 0 && capacity <= most) svg.append(shape("path", { class: "capacity", d: `M${LEFT} ${y(capacity)}H${WIDTH - RIGHT}` }));
  if (single) {
    const zero = history.usage.map(() => 0);
    svg.append(shape("path", { class: "area", d: area(zero, history.usage, x, y) }));
    if (guarantee) svg.append(shape("path", { class: "guarantee", d: `M${LEFT} ${y(guarantee)}H${WIDTH - RIGHT}` }));
    svg.append(shape("path", { class: "usage", d: path(history.usage, x, y) }));
    svg.append(shape("path", { class: "limit", d: path(history.limit, x, y, true) }));
    strip(svg, history, x);
  } else {
    for (const { layer, low, high } of sums) svg.append(shape("path", { class: layer.colour, opacity: 0.85, d: area(low, high.map((value, at) => (layer.values[at] === null ? null : value)), x, y) }));
  }
  const line = shape("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  svg.append(line);
  const read = (at) => {
    cursor = at;
    line.setAttribute("visibility", at === null ? "hidden" : "visible");
    if (at !== null) { line.setAttribute("x1", x(at)); line.setAttribute("x2", x(at)); }
    say(byId("reading"), at === null ? "" : reading(at, length, seconds, stack));
  };
  const at = (event) => {
    const box = svg.getBoundingClientRect();
    const part = (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
    return Math.max(0, Math.min(length - 1, Math.round(part * (length - 1))));
  };
  svg.addEventListener("pointermove", (event) => read(at(event)));
  svg.addEventListener("pointerleave", () => read(null));
  svg.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (event.key === "Escape") read(null);
    if (!by) return;
    event.preventDefault();
    read(Math.max(0, Math.min(length - 1, (cursor ?? length - 1) + by)));
  });
  const had = document.activeElement?.closest?.("#chart svg");
  byId("chart").replaceChildren(svg);
  if (had) svg.focus();
  read(cursor === null ? null : Math.min(cursor, length - 1));
  legend(single, guarantee, stack);
}

/** What decided, below the chart: grey is the service's own demand. */
function strip(svg, history, x) {
  const height = 7, top = HEIGHT - BOTTOM + 4;
  let from = 0;
  for (let at = 1; at <= history.decided_by.length; at += 1) {
    const by = history.decided_by[from];
    if (at < history.decided_by.length && history.decided_by[at] === by) continue;
    const text = word(by, history.words);
    if (by > 0) {
      const colour = text === "demand" ? "strip-free" : `c${(by + 1) % COLOURS}`;
      svg.append(shape("rect", { class: colour, x: x(from), y: top, width: Math.max(1, x(Math.min(at, history.decided_by.length - 1)) - x(from)), height }, shape("title", {}, text)));
    }
    from = at;
  }
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
      const text = word(by, history.words);
      if (by > 0) items.push([text === "demand" ? "strip-free" : `c${(by + 1) % COLOURS}`, text === "demand" ? "by its demand" : `by ${text}`]);
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
    if (usage === null) return `${ago(at, length, seconds)}: nothing known`;
    return `${ago(at, length, seconds)}: ${rate(usage)}${limit === null ? "" : ` of at most ${rate(limit)}`}, decided by ${word(history.decided_by[at], history.words)}`;
  }
  const parts = stack.filter((layer) => layer.values[at]).map((layer) => `${layer.name} ${rate(layer.values[at])}`);
  return `${ago(at, length, seconds)}: ${parts.join(", ") || "nothing"}`;
}

function describe(place, top) {
  const { usage, limit, by } = totals(place);
  const what = place.level === 3 ? `${place.service} on ${place.machine}` : place.name;
  const peak = place.level === 3 ? Math.max(0, ...series.history.usage.filter((value) => value !== null)) : Math.max(0, ...top.filter((value) => value !== null));
  const held = place.level === 3 ? `, ${limit === null ? "no limit" : `limit ${rate(limit)}`}, decided by ${by}` : "";
  return `${what} over ${about(series.seconds)}: now ${rate(usage)}, at most ${rate(peak)}${held}. Arrow keys read values.`;
}
