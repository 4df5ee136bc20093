
// The tenants of the leading fabric broker: their queues, by falling score.

function drawTenants() {
  if (!now) return;
  const all = now.fabric.map((broker) => broker.tenants).filter(Boolean);
  const shown = all.flatMap((tenants) => tenants.shown).filter(matchesTenant);
  const total = all.reduce((sum, tenants) => sum + tenants.count, 0);
  byId("tenants").hidden = total === 0;
  if (total === 0) return;
  const row = (tenant) => {
    const usage = tenant[chosen.direction];
    const cells = [
      el("th", { scope: "row" }, tenant.name), el("td", {}, queuesOf(tenant)),
      el("td", { class: "number" }, rate(tenant.guarantee)), el("td", { class: "number" }, rate(usage)),
      el("td", { class: "number" }, rate(tenant.score)), el("td", { class: "by" }, competesAt(tenant)),
    ];
    return el("tr", {}, ...cells);
  };
  byId("tenants").querySelector("tbody").replaceChildren(...shown.map(row));
  setText(byId("tenants-note"), shown.length < total ? `${shown.length} of ${count(total, "tenant")}` : "");
}

/** `own for 62 s`, `shared`, with the step of a move. */
function queuesOf(tenant) {
  const since = tenant.for_s === null ? "" : ` for ${about(tenant.for_s)}`;
  return `${tenant.own ? "own" : "shared"}${since}${tenant.moves ? `, moves: ${tenant.moves}` : ""}`;
}

function competesAt(tenant) {
  const ports = tenant.competes.map(({ port, tenants, queues }) => `${port} (${tenants} for ${queues})`);
  if (tenant.competes_left_out > 0) ports.push(`${tenant.competes_left_out} more`);
  return ports.join(", ") || "–";
}

function matchesTenant(tenant) {
  const text = `${tenant.name} ${queuesOf(tenant)} ${competesAt(tenant)}`.toLowerCase();
  return chosen.filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
