//! `weir pods`: the labels of a node's pods, from the API server of Kubernetes to records for the agent.

use super::agent::log_to_stderr;
use crate::error::{CommandError, Exit};
use crate::output::Ui;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use tokio::signal::unix::{SignalKind, signal};
use weir_pods::Directory;
use weir_resolver::client::Api;
use weir_resolver::follow;
use weir_resolver::objects::PodList;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir pods --node m1 --api https://10.0.0.1:6443 --token pods-token --ca pods-ca.pem
  kubectl get pods --all-namespaces --output json | weir pods --node m1 --file -

Filters by labels (`pod: { labels: app=web }`) need the labels of pods, which container plugins do
not get. This lists and watches the pods of one node, and writes a record of each to --pods, where
the agent reads it; the record of a pod that is gone is removed. The account needs `list` and
`watch` on pods. While the server cannot be reached the records stay as they are. With --file it
writes the records of a list of all pods once, and ends.")]
pub(crate) struct Args {
    /// The name of this node
    #[arg(long, value_name = "NAME", required_unless_present = "file")]
    node: Option<String>,
    /// The API server
    #[arg(long, value_name = "URL", required_unless_present = "file")]
    api: Option<String>,
    /// The file of the account's token, read for each request
    #[arg(long, value_name = "FILE", requires = "api")]
    token: Option<PathBuf>,
    /// The certificate of the CA that signed the server's
    #[arg(long, value_name = "FILE", requires = "api")]
    ca: Option<PathBuf>,
    /// A list of all pods as JSON, in place of the API server; records of pods that are not in it are removed:
    /// `kubectl get pods --all-namespaces --output json`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["api"])]
    file: Option<PathBuf>,
    /// The directory of the records of pods
    #[arg(long, value_name = "DIR", default_value = weir_pods::DIRECTORY)]
    pods: PathBuf,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let directory = Directory::new(&args.pods);
    log_to_stderr();
    if let Some(file) = &args.file {
        return once(args, file, &directory, ui);
    }
    let (Some(node), Some(api)) = (&args.node, &args.api) else {
        return Err(CommandError::refused("--node and --api, or --file, are needed"));
    };
    let api = Api::new(api, args.token.as_deref(), args.ca.as_deref())
        .map_err(|error| CommandError::refused(error.to_string()))?;
    let failed = |error: io::Error| CommandError::failed(error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        tokio::select! {
            ended = follow::follow(&api, node, &directory) => {
                ended.map(|()| Exit::Done).map_err(|error| CommandError::failed(error.to_string()))
            }
            _ = terminate.recv() => Ok(Exit::Done),
            _ = interrupt.recv() => Ok(Exit::Done),
        }
    })
}

/// Writes the records of a file's list.
fn once(args: &Args, file: &Path, directory: &Directory, ui: &mut Ui) -> Result<Exit, CommandError> {
    let mut text = Vec::new();
    let read = match file == Path::new("-") {
        true => io::stdin().read_to_end(&mut text).map(drop),
        false => fs::read(file).map(|read| text = read),
    };
    read.map_err(|error| CommandError::refused(format!("{}: {error}", file.display())))?;
    let list = PodList::read(&text).map_err(|error| {
        CommandError::refused(format!("{} is no list of pods: {error}", file.display()))
            .hint("`kubectl get pods --all-namespaces --output json` prints one")
    })?;
    let failed = |error: weir_pods::RecordsError| CommandError::failed(error.to_string());
    let (_, count) = follow::replace(directory, args.node.as_deref(), &list.items).map_err(failed)?;
    ui.notice(&format!("{count} records changed in {}\n", directory.path().display()))?;
    Ok(Exit::Done)
}
