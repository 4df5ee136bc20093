//! A real etcd for fabric brokers that elect one of them.
#![allow(dead_code, reason = "each test file uses a part of this")]

use std::io::Write as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use weir_fabric::IdentityFiles;

/// The shortest that etcd grants.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// How often etcd looks for leases that ran out.
pub(crate) const ETCD_LOOKS: Duration = Duration::from_millis(500);
/// For processes that share two processors with other tests: connections, handshakes, the wait of the session.
pub(crate) const SLACK: Duration = Duration::from_secs(2);

/// Ends with its test.
pub(crate) struct Etcd<'a> {
    /// `etcd` where it is to run.
    command: Box<dyn Fn() -> Command + 'a>,
    child: Child,
    url: String,
    arguments: Vec<String>,
}

impl<'a> Etcd<'a> {
    /// One on loopback; with an identity it requires certificates. `None`, with a line of output, where there is none.
    pub(crate) fn start(
        data: PathBuf,
        identity: Option<IdentityFiles>,
        test: &str,
        command: impl Fn() -> Command + 'a,
    ) -> Option<Self> {
        let there = Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if there.is_err() {
            assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "WEIR_NO_SKIP is set, and there is no etcd for {test}");
            let line = format!("skipped: {test} needs etcd (Debian's package etcd-server)\n");
            std::io::stderr().write_all(line.as_bytes()).expect("standard error takes a line");
            return None;
        }
        let scheme = if identity.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://127.0.0.1:{}", free_port());
        let peer = format!("http://127.0.0.1:{}", free_port());
        let mut arguments = vec![
            "--name=e".to_owned(),
            format!("--data-dir={}", data.display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=e={peer}"),
            "--log-level=error".to_owned(),
        ];
        if let Some(IdentityFiles { certificate, private_key, ca }) = identity {
            let files = [("cert", certificate), ("key", private_key), ("trusted-ca", ca)];
            arguments.extend(files.map(|(option, path)| format!("--{option}-file={}", path.display())));
            arguments.push("--client-cert-auth=true".to_owned());
        }
        let child = run(command(), &arguments);
        Some(Self { command: Box::new(command), child, url, arguments })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn restart(&mut self) {
        self.child = run((self.command)(), &self.arguments);
    }
}

impl Drop for Etcd<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(mut command: Command, arguments: &[String]) -> Child {
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts")
}

/// A free port.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}
