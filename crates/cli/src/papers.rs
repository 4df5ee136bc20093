//! The published experiments, inside the program: they run wherever it does.

use crate::error::CommandError;
use std::path::Path;
use weir_scenario::Experiment;

/// The experiments by id.
pub(crate) const IDS: &[&str] = &["parley-fig14"];

/// Every file that an experiment needs, by its path from the root of the tree.
const FILES: &[(&str, &str)] = &[
    ("papers/parley-fig14.yaml", include_str!("../../../papers/parley-fig14.yaml")),
    ("scenarios/parley-fig14.scenario.yaml", include_str!("../../../scenarios/parley-fig14.scenario.yaml")),
    ("scenarios/parley-fig14.policy.yaml", include_str!("../../../scenarios/parley-fig14.policy.yaml")),
];

/// Writes the files below `directory` and reads one experiment. Agents of the lab read the policy there.
pub(crate) fn read(id: &str, directory: &Path) -> Result<Experiment, CommandError> {
    if !IDS.contains(&id) {
        return Err(CommandError::refused(format!("there is no experiment `{id}`"))
            .hint(format!("known experiments: {}; see `weir reproduce --list`", IDS.join(", "))));
    }
    for (name, text) in FILES {
        let path = directory.join(name);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, text));
        written.map_err(|error| CommandError::cannot_write(&path, error))?;
    }
    Ok(Experiment::read(directory.join("papers").join(format!("{id}.yaml")))?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_paper_of_the_tree_is_in_the_program() {
        let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
        for entry in std::fs::read_dir(papers).expect("papers/") {
            let path = entry.expect("an entry").path();
            let id = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
            assert!(IDS.contains(&id), "{id} is not listed in IDS");
        }
        let directory = tempfile::tempdir().expect("a directory");
        for id in IDS {
            assert_eq!(read(id, directory.path()).map(|experiment| experiment.id).ok().as_deref(), Some(*id));
        }
    }
}
