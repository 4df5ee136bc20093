
// The chosen place: its chart, and further facts from its agent.

let requests = 0;

async function loadSeries() {
  const place = chosen.place;
  if (!place) return;
  const query = new URLSearchParams({ direction: chosen.direction, span: chosen.span });
  if (place.level === 1) query.set("rack", place.rack);
  else query.set("machine", place.machine);
  if (place.level === 3) query.set("service", place.service);
  requests += 1;
  const request = requests;
  const [past, machine] = await Promise.all([
    fetchJson(`/api/history?${query}`),
    place.level === 1 ? null : fetchJson(`/api/machine?machine=${encodeURIComponent(place.machine)}`),
  ]);
  // Another place was chosen meanwhile.
  if (request !== requests) return;
  series = { place, history: past.history, seconds: chosen.span };
  drawChart();
  drawFacts(place, machine?.status ?? null, machine?.credits ?? null);
  drawFlows(place, machine?.credits ?? null);
}

function drawFacts(place, status, credits) {
  const facts = [];
  const add = (name, value) => {
    if (value !== null && value !== undefined && value !== "") facts.push([name, value]);
  };
  const whole = (value) => (value === null || value === undefined ? null : value.toLocaleString("en"));
  if (place.level === 2 && status) {
    const policies = { runtime: "the rack's", static: "the machine's own" };
    const nothing = status.interface_absent ? "the interface is gone" : status.not_enforced;
    add("policy in force", nothing ? `none: ${nothing}` : policies[status.mode] ?? "limits of an earlier agent");
    add("peers alive", `${status.peers_alive} of ${status.peers}`);
    add("peers of an older epoch", (status.unheard ?? []).join(", "));
    add("enforced by", [status.backend, status.attachment].filter(Boolean).join(", "));
    add("interface", status.interface);
    add("running for", about(status.uptime_ms / 1000));
    add("latency bounds not in force", (status.level_obstacles ?? []).join("; "));
    for (const level of status.levels ?? []) {
      const bound = level.bound_ns === undefined ? "unbounded" : `worst delay ${about(level.bound_ns / 1e9)}`;
      const { counters } = level;
      const parts = [bound];
      if (counters) {
        parts.push(`longest wait ${about(counters.longest_wait_ns / 1e9)}`, `${whole(counters.backlog_bytes)} B wait`);
        parts.push(`${whole(counters.oversize)} over size`, `${whole(counters.dropped)} dropped`);
        parts.push(`${whole(counters.remarked)} re-marked`);
      }
      add(`latency level ${level.level}`, parts.join(", "));
    }
    if (credits) creditFacts(add, status.credits, credits.level);
    if (status.fabric) {
      add("the fabric's limits", status.fabric.receives ? "received" : "not received");
      const session = status.fabric.session?.state ?? "not configured";
      add("leads its rack", status.fabric.leads ? `yes, session ${session}` : status.fabric.leader);
      const why = status.fabric.session?.last_failure ?? `session ${session}`;
      add("shut out of the fabric broker", status.fabric.shut_out ? why : null);
    }
  }
  if (place.level === 3 && status) {
    const service = status.services.find((one) => one.service === place.service);
    const row = service?.[chosen.direction];
    if (row) {
      const demand = row.demand_bps === null ? "unlimited" : rate(row.demand_bps);
      add("demand", row.demand_bps === undefined ? null : demand);
      add("share", row.share_bps === undefined ? null : rate(row.share_bps));
      add("guarantee in the rack", row.rack_guarantee_bps ? rate(row.rack_guarantee_bps) : null);
      add("rate of each sender", row.sender_rate_bps === undefined ? null : rate(row.sender_rate_bps));
      const marked = (100 * row.packets_marked) / row.packets_markable;
      if (row.packets_markable) add("marked", `${marked.toFixed(2)} %`);
      add("feedback sent", whole(row.feedback_sent));
      add("feedback received", whole(row.feedback_received));
      add("waiting", row.backlog_bytes === undefined ? null : `${whole(row.backlog_bytes)} B`);
      add("offered", row.offered_bps === undefined ? null : rate(row.offered_bps));
      add("dropped", row.dropped_bps ? rate(row.dropped_bps) : null);
      add("packets dropped", whole(row.drops));
      add("remark", row.remark);
      add("destinations limited", whole(row.destinations_limited));
    }
    if (service?.latency) {
      const { target_ns, bound_ns, unproven } = service.latency;
      const bound = bound_ns === undefined ? "none" : about(bound_ns / 1e9) + (unproven ? ", unproven" : "");
      add("latency bound", `${bound} (target: ${about(target_ns / 1e9)})`);
    }
  }
  const fact = ([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
  byId("facts").replaceChildren(...facts.map(fact));
}

function drawTitle() {
  const place = chosen.place;
  if (!place) return;
  const what = chosen.direction === "tx" ? "sends" : "receives";
  const name = place.level === 3 ? `${place.service} on ${place.machine}` : place.name;
  setText(byId("chart-title"), `${name} ${what}`);
  const capacity = rate(place.capacity?.[chosen.direction]);
  const notes = {
    1: `the rack's machines together, by service; at most ${capacity} over its uplink`,
    2: `by service; the interface carries ${capacity}`,
    3: `rack ${place.rack}`,
  };
  setText(byId("chart-note"), notes[place.level]);
}

function choose(place) {
  chosen.place = place;
  cursor = null;
  history.replaceState(null, "", `#${encodeURIComponent(place.key)}`);
  drawTitle();
  drawTree();
  drawLimited();
  drawTenants();
  drawCredits();
  loadSeries().catch(trouble);
}
