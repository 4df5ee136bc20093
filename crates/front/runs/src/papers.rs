//! The published experiments, embedded in the program.
//!
//! Problem: `weir reproduce` runs anywhere, without the source tree, and experiments name scenarios, and these
//! policies, by paths. Approach: the files are embedded and written to a temporary directory in the tree's shape.
//!
//! Worked example: `parley-fig14` is `papers/parley-fig14.yaml`, which names `../scenarios/parley-fig14.scenario.yaml`
//! in the same temporary directory; in a written command that is `scenarios/parley-fig14.scenario.yaml`.

use std::io;
use std::path::{Path, PathBuf};
use weir_document::Diagnostics;
use weir_document::nearest::nearest;
use weir_experiment::Experiment;

/// The experiments by id, in the order of the paper, then the project's own.
pub const IDS: &[&str] = &[
    "parley-fig1",
    "parley-mm1",
    "parley-fig4",
    "parley-fig5",
    "parley-fig6",
    "parley-fig9",
    "parley-fig12",
    "parley-overheads",
    "parley-table2",
    "parley-fig13",
    "parley-fig14",
    "parley-table3",
    "parley-fig15",
    "qjump-levels",
    "qjump-star",
    "qjump-leafspine",
    "qjump-tradeoff",
    "qjump-parts",
    "qjump-fig9-search",
    "qjump-fig9-mining",
    "qjump-testbed",
    "qjump-plan",
    "qshare-fig1-2",
    "qshare-fig4a",
    "qshare-fig4b",
    "qshare-churn",
    "qshare-fig5",
    "qshare-table1",
    "qshare-dscp",
    "qshare-fig6",
    "qshare-table2",
    "pace-fig6",
    "pace-table1",
    "pace-fig7",
    "pace-fig8",
    "pace-lossless",
    "pace-cost",
    "pace-lab",
    "receive-flows",
    "redis-tail",
];

macro_rules! files {
    ($($name:literal,)*) => { &[$(($name, include_str!(concat!("../../../../", $name)))),*] };
}

/// Every file that experiments need, by its path from the root of the tree.
const FILES: &[(&str, &str)] = files![
    "papers/pace-cost.yaml",
    "papers/pace-fig6.yaml",
    "papers/pace-fig7.yaml",
    "papers/pace-fig8.yaml",
    "papers/pace-lab.yaml",
    "papers/pace-lossless.yaml",
    "papers/pace-table1.yaml",
    "papers/parley-fig1.yaml",
    "papers/parley-fig12.yaml",
    "papers/parley-fig13.yaml",
    "papers/parley-fig14.yaml",
    "papers/parley-fig15.yaml",
    "papers/parley-fig4.yaml",
    "papers/parley-fig5.yaml",
    "papers/parley-fig6.yaml",
    "papers/parley-fig9.yaml",
    "papers/parley-mm1.yaml",
    "papers/parley-overheads.yaml",
    "papers/parley-table2.yaml",
    "papers/parley-table3.yaml",
    "papers/qjump-fig9-mining.yaml",
    "papers/qjump-fig9-search.yaml",
    "papers/qjump-leafspine.yaml",
    "papers/qjump-levels.yaml",
    "papers/qjump-parts.yaml",
    "papers/qjump-plan.yaml",
    "papers/qjump-star.yaml",
    "papers/qjump-testbed.yaml",
    "papers/qjump-tradeoff.yaml",
    "papers/qshare-churn.yaml",
    "papers/qshare-dscp.yaml",
    "papers/qshare-fig1-2.yaml",
    "papers/qshare-fig4a.yaml",
    "papers/qshare-fig4b.yaml",
    "papers/qshare-fig5.yaml",
    "papers/qshare-fig6.yaml",
    "papers/qshare-table1.yaml",
    "papers/qshare-table2.yaml",
    "papers/receive-flows.yaml",
    "papers/redis-tail.yaml",
    "scenarios/pace-fig5a.scenario.yaml",
    "scenarios/pace-fig7.scenario.yaml",
    "scenarios/pace-fig8-lab.policy.yaml",
    "scenarios/pace-fig8-lab.scenario.yaml",
    "scenarios/pace-fig8.scenario.yaml",
    "scenarios/pace-incast-lab.policy.yaml",
    "scenarios/pace-incast-lab.scenario.yaml",
    "scenarios/pace-incast.scenario.yaml",
    "scenarios/pace-link-failure.scenario.yaml",
    "scenarios/pace-table1.scenario.yaml",
    "scenarios/pace-websearch.scenario.yaml",
    "scenarios/parley-fig1-m2-idle.demands.csv",
    "scenarios/parley-fig1-vms-idle.demands.csv",
    "scenarios/parley-fig1.demands.csv",
    "scenarios/parley-fig1.policy.yaml",
    "scenarios/parley-fig12-small.policy.yaml",
    "scenarios/parley-fig12-small.scenario.yaml",
    "scenarios/parley-fig12.policy.yaml",
    "scenarios/parley-fig12.scenario.yaml",
    "scenarios/parley-fig13.policy.yaml",
    "scenarios/parley-fig13.scenario.yaml",
    "scenarios/parley-fig14-full.scenario.yaml",
    "scenarios/parley-fig14-receive.policy.yaml",
    "scenarios/parley-fig14-receive.scenario.yaml",
    "scenarios/parley-fig14.policy.yaml",
    "scenarios/parley-fig14.scenario.yaml",
    "scenarios/parley-fig15-burst.policy.yaml",
    "scenarios/parley-fig15-small.policy.yaml",
    "scenarios/parley-fig15-small.scenario.yaml",
    "scenarios/parley-fig15.policy.yaml",
    "scenarios/parley-fig15.scenario.yaml",
    "scenarios/parley-fig4.policy.yaml",
    "scenarios/parley-fig4.scenario.yaml",
    "scenarios/parley-fig5.demands.csv",
    "scenarios/parley-fig5.policy.yaml",
    "scenarios/parley-fig6.demands.csv",
    "scenarios/parley-fig6.policy.yaml",
    "scenarios/parley-fig9.policy.yaml",
    "scenarios/parley-fig9.scenario.yaml",
    "scenarios/parley-table3.scenario.yaml",
    "scenarios/parley-testbed.policy.yaml",
    "scenarios/receive-flood.scenario.yaml",
    "scenarios/qjump-fig9-levels.policy.yaml",
    "scenarios/qjump-fig9-levels.scenario.yaml",
    "scenarios/qjump-fig9.scenario.yaml",
    "scenarios/qjump-leafspine.policy.yaml",
    "scenarios/qjump-leafspine.scenario.yaml",
    "scenarios/qjump-parts.policy.yaml",
    "scenarios/qjump-parts.scenario.yaml",
    "scenarios/qjump-plan.scenario.yaml",
    "scenarios/qjump-star-12.policy.yaml",
    "scenarios/qjump-star-12.scenario.yaml",
    "scenarios/qjump-star-144.policy.yaml",
    "scenarios/qjump-star-144.scenario.yaml",
    "scenarios/qjump-star-8.policy.yaml",
    "scenarios/qjump-star-8.scenario.yaml",
    "scenarios/qjump-star-few.policy.yaml",
    "scenarios/qjump-star-few.scenario.yaml",
    "scenarios/qjump-testbed.policy.yaml",
    "scenarios/qjump-testbed.scenario.yaml",
    "scenarios/qjump-tradeoff.policy.yaml",
    "scenarios/qjump-tradeoff.scenario.yaml",
    "scenarios/qshare-1-to-1.policy.yaml",
    "scenarios/qshare-16-to-1-all.policy.yaml",
    "scenarios/qshare-16-to-1.policy.yaml",
    "scenarios/qshare-4-to-1.policy.yaml",
    "scenarios/qshare-churn.scenario.yaml",
    "scenarios/qshare-fig4a-small.policy.yaml",
    "scenarios/qshare-fig4a-small.scenario.yaml",
    "scenarios/qshare-fig4a.policy.yaml",
    "scenarios/qshare-fig4a.scenario.yaml",
    "scenarios/qshare-fig4b.policy.yaml",
    "scenarios/qshare-fig4b.scenario.yaml",
    "scenarios/qshare-fig5.policy.yaml",
    "scenarios/qshare-fig5.scenario.yaml",
    "scenarios/qshare-lying.policy.yaml",
    "scenarios/qshare-lying.scenario.yaml",
    "scenarios/qshare-moves.policy.yaml",
    "scenarios/qshare-moves.scenario.yaml",
    "scenarios/qshare-table2-core.policy.yaml",
    "scenarios/qshare-table2.policy.yaml",
    "scenarios/qshare-table2.scenario.yaml",
    "scenarios/receive-flows-weights.policy.yaml",
    "scenarios/receive-flows.policy.yaml",
    "scenarios/receive-flows.scenario.yaml",
    "scenarios/redis.policy.yaml",
    "scenarios/redis.scenario.yaml",
];

/// The reason why an experiment cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PapersError {
    /// The system's directory for temporary files.
    #[error("cannot make a temporary directory: {0}")]
    Directory(io::Error),
    /// A file in it.
    #[error("cannot write `{}`: {cause}", .path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// The reason.
        cause: io::Error,
    },
    /// No experiment has this id.
    #[error("there is no experiment `{id}`")]
    Unknown {
        /// The id.
        id: String,
        /// A similar id.
        near: Option<&'static str>,
    },
    /// Mistakes in an experiment or in a file that it names.
    #[error("{}", .0.render(false).trim_end())]
    Invalid(Diagnostics),
}

/// The program's files, written to a temporary directory: scenarios name each other by paths, and
/// agents of the lab read policies themselves.
#[derive(Debug)]
pub struct Papers(tempfile::TempDir);

impl Papers {
    /// Writes the files.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn unpack() -> Result<Self, PapersError> {
        let directory = tempfile::tempdir().map_err(PapersError::Directory)?;
        for (name, text) in FILES {
            let path = directory.path().join(name);
            let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            written.and_then(|()| std::fs::write(&path, text)).map_err(|cause| PapersError::Write { path, cause })?;
        }
        Ok(Self(directory))
    }

    /// Reads one experiment.
    ///
    /// # Errors
    /// An id that does not exist, or a mistake in the experiment.
    pub fn read(&self, id: &str) -> Result<Experiment, PapersError> {
        if !IDS.contains(&id) {
            return Err(PapersError::Unknown { id: id.to_owned(), near: nearest(id, IDS.iter().copied()) });
        }
        let path = self.0.path().join("papers").join(format!("{id}.yaml"));
        Experiment::read(path).map(|(experiment, _)| experiment).map_err(PapersError::Invalid)
    }

    /// A file by its path from the root of the tree.
    pub fn in_tree(&self, path: &Path) -> PathBuf {
        // Removes the paper's own directory and the way up from it.
        let below = path.strip_prefix(self.0.path().join("papers")).unwrap_or(path);
        below.strip_prefix("..").unwrap_or(below).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
    }

    #[test]
    fn every_paper_of_the_tree_is_in_the_program() {
        for entry in std::fs::read_dir(tree().join("papers")).expect("papers/") {
            let path = entry.expect("an entry").path();
            let id = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
            assert!(IDS.contains(&id), "{id} is not listed in IDS");
        }
    }

    #[test]
    fn every_experiment_reads_from_the_program_alone() {
        let papers = Papers::unpack().expect("a directory");
        for id in IDS {
            let experiment = papers.read(id).unwrap_or_else(|error| panic!("{id}: {error:?}"));
            assert_eq!(experiment.id, *id);
            for run in &experiment.runs {
                assert!(tree().join(papers.in_tree(&run.path)).exists(), "{}", run.path.display());
            }
        }
        assert!(papers.read("parley-fig99").is_err());
    }
}
