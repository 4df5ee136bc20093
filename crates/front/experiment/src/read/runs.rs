//! `runs:` and `windows:`.

use super::{Reader, both, integer, text};
use crate::language;
use crate::model::{PerSetting, Run, Setting, Window};
use std::sync::Arc;
use weir_document::Node;
use weir_scenario::{ReadOptions, Scenario};

impl Reader<'_> {
    /// Whether all windows are good.
    pub(super) fn read_windows(&mut self, root: &Node) -> bool {
        let entries = root.get("windows").map_or(&[][..], Node::entries);
        for (name, node) in entries {
            let one = |node: &Node| {
                let ends = node.read(language::window).value()?;
                Some(Window { from: ends.0, to: ends.1 })
            };
            let window = both(|setting| one(node.get(setting.name()).unwrap_or(node)));
            self.windows.extend(window.map(|window| (name.text.clone(), window)));
        }
        self.windows.len() == entries.len()
    }

    /// Whether all runs are good.
    pub(super) fn read_runs(&mut self, root: &Node) -> bool {
        let entries = root.get("runs").map_or(&[][..], Node::entries);
        for (name, node) in entries {
            let run = self.run(root, &name.text, node);
            self.runs.extend(run);
        }
        self.runs.len() == entries.len()
    }

    /// `None` only if something was reported.
    fn run(&mut self, root: &Node, name: &str, node: &Node) -> Option<Run> {
        let Some(path) = text(node, "scenario").or_else(|| text(root, "scenario")) else {
            if node.get("scenario").is_none() && root.get("scenario").is_none() {
                let hint = "write `scenario: FILE` here, or at the top for all runs";
                self.error(node.span, "this run has no scenario", hint);
            }
            return None;
        };
        let path = self.directory.join(path);
        let changes = |node: Option<&Node>| -> Vec<(String, String)> {
            let items = node.and_then(|node| node.get("set")).map_or(&[][..], Node::items);
            let change = |item: &Node| {
                let (path, value) = language::change(item.scalar()?).ok()?;
                Some((path.to_owned(), value.to_owned()))
            };
            items.iter().filter_map(change).collect()
        };
        let set = |setting: Setting| {
            // The change of a setting overrides the change for both.
            let own = changes(node.get(setting.name()));
            let common = changes(Some(node)).into_iter().filter(|(path, _)| own.iter().all(|(other, _)| other != path));
            common.chain(own.iter().cloned()).collect::<Vec<_>>()
        };
        let set = PerSetting { quick: set(Setting::Quick), full: set(Setting::Full) };
        let seeds = |setting: Setting| {
            let seeds = node.get(setting.name()).and_then(|node| node.get("seeds"));
            seeds.and_then(integer).and_then(|seeds| u32::try_from(seeds).ok()).unwrap_or(1)
        };
        // Errors of both would be reported twice.
        let quick = self.scenario(&path, &set.quick);
        let full = quick.as_ref().and_then(|_| self.scenario(&path, &set.full));
        let scenario = quick.zip(full).map(|(quick, full)| PerSetting { quick, full });
        Some(Run {
            name: name.to_owned(),
            seeds: PerSetting { quick: seeds(Setting::Quick), full: seeds(Setting::Full) },
            scale: node.get("scale").and_then(integer).and_then(|scale| u32::try_from(scale).ok()).unwrap_or(1),
            scenario: scenario?,
            path,
            set,
        })
    }

    fn scenario(&mut self, path: &std::path::Path, set: &[(String, String)]) -> Option<Arc<Scenario>> {
        let options = ReadOptions { set: set.to_vec(), ..ReadOptions::default() };
        match Scenario::read_with(path, &options) {
            Ok((scenario, notes)) => {
                self.notes.extend(notes);
                Some(Arc::new(scenario))
            }
            Err(errors) => {
                // Errors of a scenario itself are reported once for all of its runs.
                if !self.others.contains(&errors) {
                    self.others.push(errors);
                }
                None
            }
        }
    }
}
