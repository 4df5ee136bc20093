
// The choices at the top, and the clock.

function trouble(error) {
  const box = byId("trouble");
  box.hidden = error === null;
  const text = (error) => `The dashboard does not respond (${error.message}). The shown values are old.`;
  setText(box, error === null ? "" : text(error));
}

function brokerText({ leads, racks, racks_reporting, same_policy }) {
  // Polled, and no status has arrived yet.
  if (leads === null) return "has no status yet";
  const reports = `${racks_reporting} of ${count(racks, "rack")}`;
  const role = leads ? `leads with reports from ${reports}` : "standby";
  return same_policy ? role : `${role}, under another policy`;
}

function summarise() {
  const lost = net.machines.filter((machine) => now.machines[machine.index]?.lost).length;
  // A lost broker leads no longer, whatever its last status was.
  const broker = now.fabric.find((one) => one.leads) ?? now.fabric.find((one) => !one.lost);
  const sizes = [[net.racks, "rack"], [net.machines, "machine"], [net.services, "service"]];
  const lostBroker = ({ name, lost }) =>
    el("span", { class: "lost", title: lost.why }, ` · fabric broker ${name} is lost`);
  const broken = now.bounds_not_in_force;
  const more = broken.count > 1 ? ` and ${broken.count - 1} more` : "";
  const parts = [
    sizes.map(([list, noun]) => count(list.length, noun)).join(", "),
    lost > 0 ? el("span", { class: "lost" }, ` · ${lost} lost`) : "",
    broker ? ` · fabric broker ${broker.name} ${brokerText(broker)}` : "",
    ...now.fabric.filter((one) => one.lost).map(lostBroker),
    now.left_out > 0 ? ` · ${count(now.left_out, "series")} without history` : "",
    broken.count > 0 ? el("span", { class: "lost" }, ` · latency bounds not in force: ${broken.causes[0]}${more}`) : "",
    ` · policy ${net.policy.slice(0, 8)}`,
  ];
  const text = parts.map((part) => part.textContent ?? part).join("");
  if (byId("summary").textContent !== text) byId("summary").replaceChildren(...parts.filter(Boolean));
}

/** A group of buttons of which one is chosen, also by arrow keys. */
function choice(id, change) {
  const group = byId(id);
  const buttons = [...group.querySelectorAll("button")];
  const pick = (button) => {
    for (const one of buttons) {
      set(one, "aria-checked", one === button);
      one.tabIndex = one === button ? 0 : -1;
    }
    change(button.dataset.value);
  };
  buttons.forEach((button, at) => {
    button.tabIndex = at === 0 ? 0 : -1;
    button.addEventListener("click", () => pick(button));
    button.addEventListener("keydown", (event) => {
      if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
      event.preventDefault();
      const next = buttons[(at + 1) % buttons.length];
      pick(next);
      next.focus();
    });
  });
}

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let kept = null;
  // Without storage the system's choice applies.
  try { kept = localStorage.getItem("theme"); } catch { /* as above */ }
  const apply = () => { document.documentElement.dataset.theme = kept ?? (dark.matches ? "dark" : "light"); };
  dark.addEventListener("change", apply);
  byId("theme").addEventListener("click", () => {
    kept = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("theme", kept); } catch { /* as above */ }
    apply();
  });
  apply();
}

/** The place that the address names, opened: `#m/m1/dfs`. */
function linked() {
  let key = "";
  // An invalid address names no place.
  try { key = decodeURIComponent(location.hash.slice(1)); } catch { /* as above */ }
  const place = net.places.get(key);
  for (let above = place?.above; above; above = above.above) opened.add(above.key);
  return place;
}

let clock = -1;

async function refresh() {
  try {
    now = await fetchJson(`/api/now?direction=${chosen.direction}`);
    trouble(null);
    summarise();
    drawTree();
    drawTitle();
    drawLimited();
    drawTenants();
    drawCredits();
    // The hour has a new value every ten seconds.
    const isDue = Math.floor(now.clock / 10) !== Math.floor(clock / 10);
    if (chosen.span === 300 || isDue) await loadSeries();
    clock = now.clock;
  } catch (error) {
    trouble(error);
  }
}

async function start() {
  theme();
  for (;;) {
    try {
      await loadNetwork();
      break;
    } catch (error) {
      trouble(error);
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
  if (net.machines.length <= 40 || net.racks.length === 1) for (const rack of net.racks) opened.add(rack.key);
  choice("direction", (value) => { chosen.direction = value; refresh(); });
  choice("span", (value) => { chosen.span = Number(value); loadSeries().catch(trouble); });
  byId("filter").addEventListener("input", (event) => {
    chosen.filter = event.target.value;
    drawTree();
    drawLimited();
    drawTenants();
    drawCredits();
  });
  choose(linked() ?? net.racks[0]);
  addEventListener("hashchange", () => {
    const place = linked();
    if (place && place !== chosen.place) choose(place);
  });
  for (;;) {
    // A hidden page needs no refresh.
    if (!document.hidden) await refresh();
    await new Promise((done) => setTimeout(done, 1000));
  }
}

start();
