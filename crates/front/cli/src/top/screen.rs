//! A screen of a view.
//!
//! Six parts: machines (at most a third of the screen, lost ones first), services, latency levels, flows with credits
//! and tenants (at most a fifth each, if there are any), keys. Colours repeat texts and glyphs, so the screen reads the
//! same without them.

use super::bar::{Piece, bar};
use super::credit_rows::{CreditPort, credit_flows, credit_ports};
use super::rows::{Filter, Machine, Row, Tenant, machines, services, tenants};
use super::state::{KEYS, State};
use crate::text;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use weir_observe::watcher::View;
use weir_status::LevelCounters;
use weir_units::{Bandwidth, Direction};

/// The most columns of a service's bar.
const BAR: usize = 30;

/// Draws a view, and returns the number of services that fit.
pub(crate) fn draw(frame: &mut Frame<'_>, view: Option<&View>, state: &mut State, coloured: bool) -> usize {
    let Some(view) = view else {
        frame.render_widget(Paragraph::new("weir top: waiting for a status …"), frame.area());
        return 0;
    };
    let paint = Paint { coloured };
    let machines = machines(view);
    let rows = services(view, &state.filter, state.order);
    let area = frame.area();
    let third = (area.height / 3).max(1);
    let shown = (machines.len() as u16).min(third);
    let levels = level_lines(&machines, &view.obstacles_to_bounds(), usize::from(area.height / 5), paint);
    let of_tenants = tenant_lines(&tenants(&machines, &state.filter), usize::from(area.height / 5), paint);
    let credits = credit_lines(&credit_ports(&machines), &state.filter, usize::from(area.height / 5), paint);
    let parts = [
        Constraint::Length(1),
        Constraint::Length(shown + 1),
        Constraint::Min(1),
        Constraint::Length(levels.len() as u16),
        Constraint::Length(credits.len() as u16),
        Constraint::Length(of_tenants.len() as u16),
        Constraint::Length(1),
    ];
    let [title, above, below, of_levels, of_credits, tenants_area, foot] = Layout::vertical(parts).areas(area);

    frame.render_widget(Paragraph::new(heading(view, &machines, state, paint)), title);
    frame.render_widget(Paragraph::new(machine_lines(&machines, above, paint)), above);
    let page = usize::from(below.height.saturating_sub(1));
    state.top = state.top.min(rows.len().saturating_sub(page));
    frame.render_widget(Paragraph::new(service_lines(&rows, state.top, below, paint)), below);
    frame.render_widget(Paragraph::new(levels), of_levels);
    frame.render_widget(Paragraph::new(credits), of_credits);
    frame.render_widget(Paragraph::new(of_tenants), tenants_area);
    frame.render_widget(Paragraph::new(keys(state, &rows, page, paint)), foot);
    if state.help {
        help(frame, area);
    }
    page
}

#[derive(Clone, Copy)]
struct Paint {
    coloured: bool,
}

impl Paint {
    fn in_colour(self, colour: Color) -> Style {
        if self.coloured { Style::new().fg(colour) } else { Style::new() }
    }
    fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }
    fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }
    fn piece(self, piece: Piece, limited: bool) -> Style {
        match piece {
            Piece::Used if limited => self.in_colour(Color::Yellow),
            Piece::Used => self.in_colour(Color::Green),
            Piece::Limit => self.in_colour(Color::Red),
            Piece::Guarantee | Piece::Unused => self.in_colour(Color::Blue),
            Piece::Free => self.faint(),
        }
    }
}

fn heading(view: &View, machines: &[Machine<'_>], state: &State, paint: Paint) -> Line<'static> {
    let lost = machines.iter().filter(|machine| machine.lost.is_some()).count();
    let mut spans = vec![
        Span::styled("weir top", paint.strong()),
        Span::raw(format!("  {}", text::count(view.livenesses.len(), "source"))),
    ];
    if lost > 0 {
        spans.push(Span::styled(format!(", {lost} lost"), paint.in_colour(Color::Red)));
    }
    let direction = state.filter.direction.map_or("tx and rx", Direction::name);
    spans.push(Span::raw(format!("  sorted by {}  {direction}", state.order.name())));
    if state.typing || !state.filter.words.is_empty() {
        let cursor = if state.typing { "_" } else { "" };
        spans.push(Span::styled(format!("  filter: {}{cursor}", state.filter.words), paint.strong()));
    }
    if state.paused {
        spans.push(Span::styled("  paused", paint.in_colour(Color::Yellow)));
    }
    Line::from(spans)
}

/// `text` in exactly `width` columns, cut with an ellipsis.
fn fit(text: &str, width: usize) -> String {
    let long = text.chars().count();
    if long <= width {
        return format!("{text}{}", " ".repeat(width - long));
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

fn right(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(text.chars().count())))
}

fn widest<'a>(texts: impl Iterator<Item = &'a str>, least: usize, most: usize) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0).clamp(least, most)
}

fn machine_lines(machines: &[Machine<'_>], area: Rect, paint: Paint) -> Vec<Line<'static>> {
    let name = widest(machines.iter().map(|machine| machine.name.as_str()), 7, 24);
    let heading =
        format!("{} {} {} {}", fit("MACHINE", name), fit("RACK", 8), fit("STATE", 22), "SENDS / RECEIVES OF CAPACITY");
    let mut lines = vec![Line::styled(heading, paint.faint())];
    let room = usize::from(area.height).saturating_sub(1);
    let more = machines.len().saturating_sub(room);
    let shown = if more > 0 { room.saturating_sub(1) } else { room };
    for machine in machines.iter().take(shown) {
        let rack = machine.agent.map_or("", |agent| agent.rack.as_str());
        let mut spans =
            vec![Span::styled(fit(&machine.name, name), paint.strong()), Span::raw(format!(" {} ", fit(rack, 8)))];
        if let Some((time, why)) = machine.lost {
            let since = text::about(time.nanos() as f64 / 1e9);
            spans.push(Span::styled(format!("lost for {since}: {why}"), paint.in_colour(Color::Red)));
        } else {
            spans.push(Span::raw(fit(&machine.state(), if machine.agent.is_some() { 22 } else { 48 })));
            if let Some(agent) = machine.agent {
                for direction in Direction::ALL {
                    let (usage, capacity) = (machine.usage(direction), agent.capacity(direction));
                    spans.push(Span::raw(" "));
                    let none = (Bandwidth::ZERO, Bandwidth::UNLIMITED);
                    spans.extend(pieces(&bar(8, capacity, usage, none.0, none.1), false, paint));
                    spans.push(Span::raw(format!(" {}", right(&text::rate(usage), 12))));
                }
            }
        }
        lines.push(Line::from(spans));
    }
    if more > 0 {
        lines.push(Line::styled(format!("and {} more", machines.len() - shown), paint.faint()));
    }
    lines
}

/// At most so many lines about latency levels, those with frames over size or drops first; none without levels, or
/// without room for one.
fn level_lines(machines: &[Machine<'_>], obstacles: &[String], most: usize, paint: Paint) -> Vec<Line<'static>> {
    let agents = machines.iter().filter_map(|machine| machine.agent);
    let mut levels: Vec<_> = agents.flat_map(|agent| agent.levels.iter().map(move |level| (agent, level))).collect();
    if (levels.is_empty() && obstacles.is_empty()) || most < 2 {
        return Vec::new();
    }
    levels.sort_by_key(|(_, level)| level.counters.is_none_or(|of| of.oversize == 0 && of.dropped == 0));
    let name = widest(levels.iter().map(|(agent, _)| agent.machine.as_str()), 7, 16);
    let heading = format!(
        "{} {} {} {} {} {} {} {}",
        fit("MACHINE", name),
        fit("LEVEL", 5),
        right("WORST DELAY", 11),
        right("LONGEST WAIT", 12),
        right("WAITING", 10),
        right("OVERSIZE", 8),
        right("DROPPED", 8),
        right("RE-MARKED", 9)
    );
    let mut lines = vec![Line::styled(heading, paint.faint())];
    if let Some(first) = obstacles.first() {
        let more = if obstacles.len() > 1 { format!(" (and {} more)", obstacles.len() - 1) } else { String::new() };
        let first = first.replace(char::is_control, "\u{fffd}");
        let line = format!("bounds not in force: {first}{more}");
        lines.insert(0, Line::styled(line, paint.in_colour(Color::Red)));
    }
    let room = most.saturating_sub(lines.len());
    let shown = if levels.len() > room { room.saturating_sub(1) } else { room };
    for (agent, level) in levels.iter().take(shown) {
        let seconds = |ns: u64| text::time(ns as f64 / 1e9);
        let of = |cell: fn(&LevelCounters) -> String| level.counters.as_ref().map_or("-".to_owned(), cell);
        let oversize = level.counters.is_some_and(|counters| counters.oversize > 0);
        let style = if oversize { paint.in_colour(Color::Yellow) } else { Style::new() };
        lines.push(Line::from(vec![
            Span::styled(fit(&agent.machine, name), paint.strong()),
            Span::raw(format!(
                " {} {} {} {} ",
                fit(&level.level.to_string(), 5),
                right(&level.bound_ns.map_or("unbounded".to_owned(), seconds), 11),
                right(&of(|counters| text::time(counters.longest_wait_ns as f64 / 1e9)), 12),
                right(&of(|counters| text::size(counters.backlog_bytes)), 10),
            )),
            Span::styled(right(&of(|counters| counters.oversize.to_string()), 8), style),
            Span::raw(format!(
                " {} {}",
                right(&of(|counters| counters.dropped.to_string()), 8),
                right(&of(|counters| counters.remarked.to_string()), 9)
            )),
        ]));
    }
    if levels.len() > shown && room > 0 {
        lines.push(Line::styled(format!("and {} more", levels.len() - shown), paint.faint()));
    }
    lines
}

fn pieces(bar: &[Piece], limited: bool, paint: Paint) -> Vec<Span<'static>> {
    bar.iter().map(|piece| Span::styled(piece.glyph().to_string(), paint.piece(*piece, limited))).collect()
}

fn service_lines(rows: &[Row<'_>], top: usize, area: Rect, paint: Paint) -> Vec<Line<'static>> {
    let machine = widest(rows.iter().map(|row| row.agent.machine.as_str()), 7, 16);
    let service = widest(rows.iter().map(|row| row.service), 7, 24);
    let ends: Vec<String> = rows.iter().map(|row| row.decided_by().to_owned() + &drops(row)).collect();
    let decided = widest(ends.iter().map(String::as_str), 10, 40);
    // The width that other columns leave.
    let bar_width = usize::from(area.width).saturating_sub(machine + service + decided + 3 + 3 * 13 + 5).clamp(5, BAR);
    let heading = format!(
        "{} {} {} {} {} {} {} {}",
        fit("MACHINE", machine),
        fit("SERVICE", service),
        fit("DIR", 3),
        right("USAGE", 12),
        fit(" OF CAPACITY", bar_width),
        right("GUARANTEE", 12),
        right("LIMIT", 12),
        "DECIDED BY"
    );
    let mut lines = vec![Line::styled(heading, paint.faint())];
    for row in rows.iter().skip(top).take(usize::from(area.height).saturating_sub(1)) {
        lines.push(service_line(row, [machine, service, bar_width], paint));
    }
    if rows.is_empty() {
        lines.push(Line::styled("no service matches", paint.faint()));
    }
    lines
}

/// The rate of drops, behind the deciding constraint: few services drop, so it has no column. A remark
/// is about senders without Weir.
fn drops(row: &Row<'_>) -> String {
    let of = if row.status.remark.is_some() { " of senders without Weir" } else { "" };
    row.dropped().map_or(String::new(), |rate| format!(", drops {}{of}", text::rate(rate)))
}

fn service_line(row: &Row<'_>, [machine, service, bar_width]: [usize; 3], paint: Paint) -> Line<'static> {
    let status = row.status;
    let (limited, limit) = (status.is_limited(), status.effective_limit());
    let usage = status.usage.map_or("-".to_owned(), text::rate);
    let or_dash = |rate: Bandwidth, is: bool| if is { text::rate(rate) } else { "-".to_owned() };
    let mut spans = vec![
        Span::raw(format!("{} ", fit(&row.agent.machine, machine))),
        Span::styled(fit(row.service, service), paint.strong()),
        Span::raw(format!(" {} {} ", fit(row.direction.name(), 3), right(&usage, 12))),
    ];
    let capacity = row.agent.capacity(row.direction);
    spans.extend(pieces(&bar(bar_width, capacity, row.usage(), status.guarantee, limit), limited, paint));
    let guarantee = or_dash(status.guarantee, status.guarantee > Bandwidth::ZERO);
    let limit = or_dash(limit, !limit.is_unlimited());
    spans.push(Span::raw(format!(" {} {} ", right(&guarantee, 12), right(&limit, 12))));
    let style = if limited { paint.in_colour(Color::Yellow) } else { paint.faint() };
    spans.push(Span::styled(row.decided_by().to_owned(), style));
    spans.push(Span::styled(drops(row), paint.in_colour(Color::Red)));
    let line = Line::from(spans);
    if row.lost { line.style(paint.faint()) } else { line }
}

/// Flows with credits by falling share, in at most `most` lines.
fn credit_lines(ports: &[CreditPort<'_>], filter: &Filter, most: usize, paint: Paint) -> Vec<Line<'static>> {
    let rows = credit_flows(ports, filter);
    if rows.is_empty() || most < 2 {
        return Vec::new();
    }
    let port = widest(rows.iter().map(|(port, _)| *port), 7, 16);
    let service = widest(rows.iter().map(|(_, flow)| flow.service.as_str()), 7, 24);
    let heading = format!(
        "{} {} {} {} {} {}",
        fit("FLOW AT", port),
        fit("SERVICE", service),
        fit("FROM AND TO", 33),
        right("SHARE", 12),
        right("WEIGHT", 8),
        "HELD BY"
    );
    let mut lines = vec![Line::styled(heading, paint.faint())];
    let room = most - 1;
    let shown = if rows.len() > room { room.saturating_sub(1) } else { room };
    for (at, flow) in rows.iter().take(shown) {
        let held = if flow.held_by == "demand" { paint.faint() } else { paint.in_colour(Color::Yellow) };
        lines.push(Line::from(vec![
            Span::raw(format!("{} ", fit(at, port))),
            Span::styled(fit(&flow.service, service), paint.strong()),
            Span::raw(format!(
                " {} {} {} ",
                fit(&format!("{} {}", flow.source, flow.destination), 33),
                right(&text::rate(Bandwidth::from_bps(flow.share_bps)), 12),
                right(&(flow.weight_thousandths as f64 / 1e3).to_string(), 8)
            )),
            Span::styled(flow.held_by.clone(), held),
        ]));
    }
    if rows.len() > shown {
        lines.push(Line::styled(format!("… {} more flows", rows.len() - shown), paint.faint()));
    }
    lines
}

/// Tenants by falling score, in at most `most` lines.
fn tenant_lines(tenants: &[Tenant<'_>], most: usize, paint: Paint) -> Vec<Line<'static>> {
    if tenants.is_empty() || most < 2 {
        return Vec::new();
    }
    let name = widest(tenants.iter().map(|tenant| tenant.status.tenant.as_str()), 6, 20);
    let heading = format!(
        "{} {} {} {} {} {} {}",
        fit("TENANT", name),
        fit("QUEUES", 24),
        right("GUARANTEE", 12),
        right("SENDS", 12),
        right("RECEIVES", 12),
        right("SCORE", 12),
        "COMPETES AT"
    );
    let mut lines = vec![Line::styled(heading, paint.faint())];
    let room = most - 1;
    let shown = if tenants.len() > room { room.saturating_sub(1) } else { room };
    for tenant in tenants.iter().take(shown) {
        let status = tenant.status;
        let style = if status.moves.is_some() { paint.in_colour(Color::Yellow) } else { Style::new() };
        let rate = |rate: Bandwidth| right(&text::rate(rate), 12);
        lines.push(Line::from(vec![
            Span::styled(fit(&status.tenant, name), paint.strong()),
            Span::styled(format!(" {} ", fit(&tenant.queues(), 24)), style),
            Span::raw(format!(
                "{} {} {} {} ",
                rate(status.guarantee),
                rate(status.used_tx),
                rate(status.used_rx),
                rate(Bandwidth::from_bps(status.score_bps))
            )),
            Span::styled(tenant.competes(), paint.faint()),
        ]));
    }
    if tenants.len() > shown {
        lines.push(Line::styled(format!("… {} more tenants", tenants.len() - shown), paint.faint()));
    }
    lines
}

fn keys(state: &State, rows: &[Row<'_>], page: usize, paint: Paint) -> Line<'static> {
    if state.typing {
        return Line::from("words of machine, rack, service, constraint; Enter keeps them, Esc drops them");
    }
    let mut spans = Vec::new();
    for (key, does) in KEYS {
        spans.push(Span::styled((*key).to_owned(), paint.strong()));
        spans.push(Span::raw(format!(" {does}  ")));
    }
    if rows.len() > page {
        let last = (state.top + page).min(rows.len());
        spans.push(Span::styled(format!("{}-{last} of {}", state.top + 1, rows.len()), paint.faint()));
    }
    Line::from(spans)
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let lines = [
        "█ used   ░│ guaranteed and not used   ▐ limit   · up to the capacity",
        "",
        "s      sort by usage, limited, machine, service",
        "d      transmit, receive, both",
        "/      filter by words; Esc drops the filter",
        "↑ ↓    scroll; PageUp, PageDown, Home, End",
        "space  hold the screen still",
        "q      quit",
    ];
    let (width, height) = (72.min(area.width), (lines.len() as u16 + 2).min(area.height));
    let inside = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    frame.render_widget(Clear, inside);
    let text: Vec<Line<'_>> = lines.iter().map(|line| Line::from(*line)).collect();
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title(" help ")), inside);
}

#[cfg(test)]
mod tests {
    use super::super::fixture::view;
    use super::super::rows::Order;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(size: (u16, u16), state: &mut State, view: Option<&View>) -> (String, usize) {
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).expect("a terminal");
        let mut page = 0;
        terminal.draw(|frame| page = draw(frame, view, state, true)).expect("drawn");
        (terminal.backend().to_string(), page)
    }

    #[test]
    fn screen_shows_machines_and_services() {
        let (screen, page) = drawn((120, 18), &mut State::default(), Some(&view()));
        assert_eq!(page, 10);
        insta::assert_snapshot!(screen);
    }

    #[test]
    fn narrow_screen_is_filtered() {
        let filter = super::super::rows::Filter { words: "web".into(), direction: Some(Direction::Rx) };
        let mut state = State { filter, typing: true, order: Order::Machine, ..State::default() };
        insta::assert_snapshot!(drawn((80, 10), &mut state, Some(&view())).0);
    }

    #[test]
    fn help_lies_over_it() {
        let mut state = State { help: true, paused: true, ..State::default() };
        insta::assert_snapshot!(drawn((100, 16), &mut state, Some(&view())).0);
    }

    #[test]
    fn screen_shows_tenants() {
        let (screen, _) = drawn((130, 30), &mut State::default(), Some(&super::super::fixture::with_tenants()));
        insta::assert_snapshot!(screen);
    }

    #[test]
    fn screen_shows_flows_with_credits() {
        let (screen, _) = drawn((120, 25), &mut State::default(), Some(&super::super::fixture::with_credits()));
        insta::assert_snapshot!(screen);
    }

    #[test]
    fn any_size_and_any_place_can_be_drawn() {
        for (width, height) in [(1, 1), (2, 40), (200, 2), (30, 5)] {
            let mut state = State { top: usize::MAX, help: true, ..State::default() };
            drawn((width, height), &mut state, Some(&view()));
            assert!(state.top <= 8);
            drawn((width, height), &mut state, None);
        }
    }
}
