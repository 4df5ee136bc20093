
// What is chosen: its chart, and what its agent tells besides.

let asked = 0;

async function loadSeries() {
  const place = chosen.place;
  if (!place) return;
  const question = new URLSearchParams({ direction: chosen.direction, span: chosen.span });
  if (place.level === 1) question.set("rack", place.rack);
  else question.set("machine", place.machine);
  if (place.level === 3) question.set("service", place.service);
  asked += 1;
  const mine = asked;
  const [past, machine] = await Promise.all([
    ask(`/api/history?${question}`),
    place.level === 1 ? null : ask(`/api/machine?machine=${encodeURIComponent(place.machine)}`),
  ]);
  // Something else was chosen meanwhile.
  if (mine !== asked) return;
  series = { place, history: past.history, seconds: chosen.span };
  drawChart();
  drawFacts(place, machine?.status ?? null);
}

function drawFacts(place, status) {
  const facts = [];
  const add = (name, value) => { if (value !== null && value !== undefined && value !== "") facts.push([name, value]); };
  const whole = (value) => (value === null || value === undefined ? null : value.toLocaleString("en"));
  if (place.level === 2 && status) {
    const policies = { runtime: "the rack's", static: "the machine's own" };
    const nothing = status.interface_absent ? "the interface is gone" : status.not_enforced;
    add("policy in force", nothing ? `none: ${nothing}` : policies[status.mode] ?? "what an earlier agent left");
    add("peers heard", `${status.peers_alive} of ${status.peers}`);
    add("enforced by", [status.backend, status.attachment].filter(Boolean).join(", "));
    add("interface", status.interface);
    add("running for", about(status.uptime_ms / 1000));
    if (status.fabric) {
      add("the fabric's limits", status.fabric.receives ? "received" : "not received");
      add("leads its rack", status.fabric.leads ? `yes, session ${status.fabric.session?.state ?? "not configured"}` : null);
    }
  }
  if (place.level === 3 && status) {
    const service = status.services.find((one) => one.service === place.service);
    const row = service?.[chosen.direction];
    if (row) {
      add("demand", row.demand_bps === undefined ? null : row.demand_bps === null ? "all it can get" : rate(row.demand_bps));
      add("share", row.share_bps === undefined ? null : rate(row.share_bps));
      add("guarantee in the rack", row.rack_guarantee_bps ? rate(row.rack_guarantee_bps) : null);
      add("each sender may send", row.sender_rate_bps === undefined ? null : rate(row.sender_rate_bps));
      if (row.packets_markable) add("marked", `${((100 * row.packets_marked) / row.packets_markable).toFixed(2)} %`);
      add("feedback sent", whole(row.feedback_sent));
      add("feedback received", whole(row.feedback_received));
      add("waiting", row.backlog_bytes === undefined ? null : `${whole(row.backlog_bytes)} B`);
      add("packets dropped", whole(row.drops));
      add("destinations held", whole(row.destinations_limited));
    }
    if (service?.latency) {
      const { target_ns, bound_ns } = service.latency;
      add("latency bound", `${bound_ns === undefined ? "none" : about(bound_ns / 1e9)} (asked: ${about(target_ns / 1e9)})`);
    }
  }
  byId("facts").replaceChildren(...facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function drawTitle() {
  const place = chosen.place;
  if (!place) return;
  const what = chosen.direction === "tx" ? "sends" : "receives";
  say(byId("chart-title"), place.level === 3 ? `${place.service} on ${place.machine} ${what}` : `${place.name} ${what}`);
  const notes = {
    1: `the rack's machines together, by service; at most ${rate(place.capacity?.[chosen.direction])} over its uplink`,
    2: `by service; the interface carries ${rate(place.capacity?.[chosen.direction])}`,
    3: `rack ${place.rack}`,
  };
  say(byId("chart-note"), notes[place.level]);
}

function choose(place) {
  chosen.place = place;
  cursor = null;
  history.replaceState(null, "", `#${encodeURIComponent(place.key)}`);
  drawTitle();
  drawTree();
  drawLimited();
  loadSeries().catch(trouble);
}
