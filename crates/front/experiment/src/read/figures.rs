//! `figures:`.

use super::{Reader, text};
use crate::figure::{Figure, FigureKind};
use crate::language::FIGURE;
use crate::model::Counted;
use crate::unit::Unit;
use weir_document::{Node, quote, scalar};

impl Reader<'_> {
    pub(super) fn figures(&mut self, root: &Node, metrics: &[(String, Unit)]) -> Vec<Figure> {
        let items = root.get("figures").map_or(&[][..], Node::items);
        let mut figures: Vec<Figure> = Vec::new();
        for item in items {
            let Some(figure) = self.figure(item, metrics) else { continue };
            if figures.iter().any(|earlier| earlier.id == figure.id) {
                let at = item.get("id").map_or(item.span, |node| node.span);
                self.error(at, format!("two figures are called {}", quote(&figure.id)), "give each a name of its own");
            }
            figures.push(figure);
        }
        figures
    }

    /// `None` only if something was reported.
    fn figure(&mut self, node: &Node, metrics: &[(String, Unit)]) -> Option<Figure> {
        let kind = match FIGURE.chosen(node)?.id {
            "bandwidth" => {
                let run = self.run_of(node)?;
                let mut of = Vec::new();
                for item in list(node, "services") {
                    of.push(Counted::Service(self.service(item, run)?));
                }
                for item in list(node, "groups") {
                    of.push(Counted::FlowGroup(self.flow_group(item, run)?));
                }
                for item in list(node, "links") {
                    of.push(Counted::Link(self.link(item, run)?));
                }
                for item in list(node, "sent") {
                    of.push(Counted::Sent(self.shaped(item, run)?, None));
                }
                if of.is_empty() {
                    let hint = "write `services`, `groups`, `links` or `sent`";
                    self.error(node.span, "this figure shows nothing", hint);
                    return None;
                }
                FigureKind::OverTime { run, of }
            }
            "completion-times" => {
                let runs = self.runs_of(node)?;
                let mut group = None;
                for run in &runs {
                    group = Some(self.flow_group(node.get("group")?, *run)?);
                }
                // A size that is no size was reported with the shape of the file.
                let above = node.field("above", scalar::size).value().unwrap_or_default();
                FigureKind::CompletionTimes { window: self.window_of(node, &runs)?, runs, group: group?, above }
            }
            "queues" => {
                let runs = self.runs_of(node)?;
                let mut link = None;
                for run in &runs {
                    link = Some(self.link(node.get("link")?, *run)?);
                }
                let packet = node.field("packet", scalar::size).value()?;
                FigureKind::Queues { window: self.window_of(node, &runs)?, runs, link: link?, packet }
            }
            "grouped-bars" => self.grouped_bars(node, metrics)?,
            "use-of-links" => self.use_of_links(node)?,
            _ => {
                let values = self.values_of(list(node, "values"), metrics)?;
                self.have_one_unit(node, values.iter(), metrics)?;
                FigureKind::Values { values }
            }
        };
        Some(Figure { id: text(node, "id")?, title: text(node, "title")?, kind })
    }

    fn grouped_bars(&mut self, node: &Node, metrics: &[(String, Unit)]) -> Option<FigureKind> {
        let category = |item: &Node| item.scalar().map(str::to_owned);
        let categories: Vec<String> = list(node, "categories").iter().filter_map(category).collect();
        let mut series: Vec<(String, Vec<usize>)> = Vec::new();
        for (name, node) in node.get("series")?.entries() {
            let values = self.values_of(node.items(), metrics)?;
            if values.len() != categories.len() {
                let cause = format!("{} has {} values", quote(&name.text), values.len());
                self.error(node.span, cause, format!("name one for each of {} categories", categories.len()));
                return None;
            }
            series.push((name.text.clone(), values));
        }
        self.have_one_unit(node, series.iter().flat_map(|(_, values)| values), metrics)?;
        Some(FigureKind::Groups { axis: text(node, "axis")?, categories, series })
    }

    /// The indices of values by their metrics; `None` only if something was reported.
    fn values_of(&mut self, items: &[Node], metrics: &[(String, Unit)]) -> Option<Vec<usize>> {
        let mut values = Vec::new();
        for item in items {
            let Some(place) = metrics.iter().position(|(name, _)| Some(name.as_str()) == item.scalar()) else {
                let names: Vec<&str> = metrics.iter().map(|(name, _)| name.as_str()).collect();
                self.unknown(item, "value called", &names);
                return None;
            };
            values.push(place);
        }
        Some(values)
    }

    /// Refuses values of several units in one figure.
    fn have_one_unit<'v>(
        &mut self,
        node: &Node,
        mut values: impl Iterator<Item = &'v usize>,
        metrics: &[(String, Unit)],
    ) -> Option<()> {
        let first = values.next()?;
        if values.any(|value| metrics[*value].1 != metrics[*first].1) {
            let hint = "draw values of one unit, and others in a figure of their own";
            self.error(node.span, "these values have different units", hint);
            return None;
        }
        Some(())
    }

    fn runs_of(&mut self, node: &Node) -> Option<Vec<usize>> {
        list(node, "runs").iter().map(|item| self.run_at(item)).collect()
    }
}

fn list<'n>(node: &'n Node, key: &str) -> &'n [Node] {
    node.get(key).map_or(&[][..], Node::items)
}
