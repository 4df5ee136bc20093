
// What is chosen at the top, and the clock.

function trouble(error) {
  const box = byId("trouble");
  box.hidden = error === null;
  say(box, error === null ? "" : `The dashboard does not answer (${error.message}). What is shown is old.`);
}

function brokerText({ leads, racks, racks_reporting, same_policy }) {
  // Asked, and nothing said yet.
  if (leads === null) return "says nothing";
  const doing = leads ? `hears ${racks_reporting} of ${count(racks, "rack")}` : "stands by";
  return same_policy ? doing : `${doing}, under another policy`;
}

function summarise() {
  const lost = net.machines.filter((machine) => now.machines[machine.index]?.lost).length;
  // One that is lost leads no longer, whatever it said last.
  const broker = now.fabric.find((one) => one.leads) ?? now.fabric.find((one) => !one.lost);
  const parts = [
    `${count(net.racks.length, "rack")}, ${count(net.machines.length, "machine")}, ${count(net.services.length, "service")}`,
    lost > 0 ? el("span", { class: "lost" }, ` · ${lost} lost`) : "",
    broker ? ` · fabric broker ${broker.name} ${brokerText(broker)}` : "",
    ...now.fabric.filter((one) => one.lost).map((one) => el("span", { class: "lost", title: one.lost.why }, ` · fabric broker ${one.name} is lost`)),
    now.left_out > 0 ? ` · ${count(now.left_out, "series")} without history` : "",
    ` · policy ${net.policy.slice(0, 8)}`,
  ];
  const text = parts.map((part) => part.textContent ?? part).join("");
  if (byId("summary").textContent !== text) byId("summary").replaceChildren(...parts.filter(Boolean));
}

/** One of several buttons, of which arrows choose too. */
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
  // A browser may keep nothing: then the system's choice counts.
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
  // Somebody may have written anything there, which then names no place.
  try { key = decodeURIComponent(location.hash.slice(1)); } catch { /* as above */ }
  const place = net.places.get(key);
  for (let above = place?.above; above; above = above.above) opened.add(above.key);
  return place;
}

let clock = -1;

async function look() {
  try {
    now = await ask(`/api/now?direction=${chosen.direction}`);
    trouble(null);
    summarise();
    drawTree();
    drawTitle();
    drawLimited();
    // An hour moves every ten seconds.
    if (chosen.span === 300 || Math.floor(now.clock / 10) !== Math.floor(clock / 10)) await loadSeries();
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
  for (const rack of net.racks) if (net.machines.length <= 40 || net.racks.length === 1) opened.add(rack.key);
  choice("direction", (value) => { chosen.direction = value; look(); });
  choice("span", (value) => { chosen.span = Number(value); loadSeries().catch(trouble); });
  byId("filter").addEventListener("input", (event) => { chosen.filter = event.target.value; drawTree(); drawLimited(); });
  choose(linked() ?? net.racks[0]);
  addEventListener("hashchange", () => { const place = linked(); if (place && place !== chosen.place) choose(place); });
  for (;;) {
    // Who does not look at the page needs no news.
    if (!document.hidden) await look();
    await new Promise((done) => setTimeout(done, 1000));
  }
}

start();
