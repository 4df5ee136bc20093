//! etcd, as far as fabric brokers use it: keys, transactions, leases, and a watch.
//!
//! Problem: whatever asks etcd may be answered late, by a member that is cut off, or not at all. Approach: every question
//! has a deadline, streams ask for a member that knows a leader, and any failure ends the [`Session`]; whoever uses it
//! begins another one, with the next member. Nothing is decided here.
//!
//! Why no client crate: `etcd-client` has protoc and the sources of Google's types among what it needs for building,
//! which Weir does not. Five calls of etcd's published interface are all there is to it (`proto/etcd`).
//!
//! Source: etcd 3.4, API reference (<https://etcd.io/docs/v3.4/learning/api/>).

use crate::etcd::proto::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::etcd::proto::kv_client::KvClient;
use crate::etcd::proto::lease_client::LeaseClient;
use crate::etcd::proto::request_op::Request;
use crate::etcd::proto::watch_client::WatchClient;
use crate::etcd::proto::watch_request::RequestUnion;
use crate::etcd::proto::{
    Compare, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest,
    PutRequest, RangeRequest, RequestOp, TxnRequest, WatchCreateRequest, WatchRequest, WatchResponse,
};
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Status, Streaming};
use weir_state::secret;

/// How long any answer may take. Half of the shortest lease that etcd grants.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// The largest message: what etcd takes at most, and some.
const LARGEST: usize = 4 * 1024 * 1024;

/// What etcd keeps of a key.
pub(crate) use mvccpb::KeyValue;

/// The messages.
#[allow(missing_docs, unreachable_pub, dead_code, clippy::all, clippy::unwrap_used)]
pub(crate) mod proto {
    tonic::include_proto!("etcdserverpb");
}

/// Keys and events.
#[allow(missing_docs, unreachable_pub, dead_code, clippy::all, clippy::unwrap_used)]
pub(crate) mod mvccpb {
    tonic::include_proto!("mvccpb");
}

/// How etcd is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdConfig {
    /// Its members: `http://HOST:PORT` or `https://HOST:PORT`, one at least.
    pub members: Vec<String>,
    /// Whom to believe to be etcd; the system's authorities are not asked.
    pub ca: Option<PathBuf>,
    /// The certificate and private key to show, if etcd asks for one.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// A connection to one member.
pub(crate) struct EtcdSession {
    kv: KvClient<Channel>,
    lease: LeaseClient<Channel>,
    watch: WatchClient<Channel>,
}

/// A lease's requests and answers.
pub(crate) struct KeepAlive {
    request: mpsc::Sender<LeaseKeepAliveRequest>,
    responses: Streaming<LeaseKeepAliveResponse>,
    id: i64,
}

/// Why a question came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failed {
    /// Nobody said anything, or not whether it was done.
    #[error("{0}")]
    NoReply(String),
    /// etcd said no.
    #[error("{0}")]
    Refused(String),
    /// It was not asked: this broker cannot go on with the session.
    #[error("{0}")]
    GivenUp(String),
}

impl Failed {
    pub(crate) fn no_reply(why: impl Into<String>) -> Self {
        Self::NoReply(why.into())
    }
}

impl From<Status> for Failed {
    /// gRPC makes up codes of its own where nothing was answered; these are the others
    /// (<https://grpc.io/docs/guides/status-codes/>, and etcd's in api/v3rpc/rpctypes/error.go).
    fn from(status: Status) -> Self {
        let said = crate::failure::of_status(&status);
        match status.code() {
            Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented => Self::Refused(said),
            _ => Self::NoReply(said),
        }
    }
}

/// On what a key is written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum If<'a> {
    /// A key was created at this revision; 0: it is not there.
    Created(&'a [u8], i64),
    /// A key was last written at this revision; 0: it is not there.
    Written(&'a [u8], i64),
}

async fn soon<T>(work: impl Future<Output = Result<tonic::Response<T>, Status>>) -> Result<T, Failed> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(reply) => Ok(reply?.into_inner()),
        Err(_) => Err(Failed::NoReply(format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}

/// A lease, if it has any time.
fn lease_of(granted: LeaseGrantResponse) -> Result<(i64, Duration), Failed> {
    if !granted.error.is_empty() {
        return Err(Failed::Refused(granted.error));
    }
    match u64::try_from(granted.ttl) {
        Ok(seconds @ 1..) => Ok((granted.id, Duration::from_secs(seconds))),
        _ => Err(Failed::Refused(format!("it granted a lease of {} s", granted.ttl))),
    }
}

/// A stream that ends when its member loses sight of etcd's leader.
fn with_leader<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    request
}

impl EtcdSession {
    /// Connects to a member.
    pub(crate) async fn connect(config: &EtcdConfig, member: &str) -> Result<Self, Failed> {
        let reported = |error: &dyn std::fmt::Display| Failed::NoReply(error.to_string());
        let mut endpoint = Endpoint::from_shared(member.to_owned())
            .map_err(|error| reported(&error))?
            .connect_timeout(PATIENCE)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PATIENCE)
            .keep_alive_timeout(PATIENCE)
            .keep_alive_while_idle(true);
        if member.starts_with("https://") {
            let read = |path: &PathBuf| {
                std::fs::read_to_string(path).map_err(|error| reported(&format!("{}: {error}", path.display())))
            };
            let mut tls = ClientTlsConfig::new();
            if let Some(ca) = &config.ca {
                tls = tls.ca_certificate(Certificate::from_pem(read(ca)?));
            }
            if let Some((certificate, key)) = &config.certificate {
                let key = secret::read(key, 64 * 1024).map_err(|error| reported(&error))?;
                tls = tls.identity(tonic::transport::Identity::from_pem(read(certificate)?, key));
            }
            endpoint = endpoint.tls_config(tls).map_err(|error| reported(&error))?;
        }
        let channel = endpoint.connect().await.map_err(|error| Failed::NoReply(crate::failure::of(&error)))?;
        Ok(Self {
            kv: KvClient::new(channel.clone()).max_decoding_message_size(LARGEST),
            lease: LeaseClient::new(channel.clone()),
            watch: WatchClient::new(channel).max_decoding_message_size(LARGEST),
        })
    }

    /// What is under a prefix, and the revision that it is of.
    pub(crate) async fn under(&mut self, prefix: &[u8]) -> Result<(Vec<KeyValue>, i64), Failed> {
        let request = RangeRequest { key: prefix.to_vec(), range_end: after(prefix) };
        let reply = soon(self.kv.range(request)).await?;
        let revision = reply.header.map_or(0, |header| header.revision);
        Ok((reply.kvs, revision))
    }

    /// Writes a key on a condition: the revision that it was written at, or `None` if the condition did not hold.
    pub(crate) async fn put_if(
        &mut self,
        guard: If<'_>,
        (key, value, lease): (&[u8], Vec<u8>, i64),
    ) -> Result<Option<i64>, Failed> {
        let (target, guarded, union) = match guard {
            If::Created(key, revision) => (CompareTarget::Create, key, TargetUnion::CreateRevision(revision)),
            If::Written(key, revision) => (CompareTarget::Mod, key, TargetUnion::ModRevision(revision)),
        };
        let compare = Compare {
            result: CompareResult::Equal.into(),
            target: target.into(),
            key: guarded.to_vec(),
            target_union: Some(union),
        };
        let put = Request::RequestPut(PutRequest { key: key.to_vec(), value, lease });
        let request =
            TxnRequest { compare: vec![compare], success: vec![RequestOp { request: Some(put) }], failure: vec![] };
        let reply = soon(self.kv.txn(request)).await?;
        let revision = reply.header.map_or(0, |header| header.revision);
        Ok(reply.succeeded.then_some(revision))
    }

    /// A lease: its id and for how long etcd grants it, which may be longer than asked.
    pub(crate) async fn grant(&mut self, seconds: i64) -> Result<(i64, Duration), Failed> {
        lease_of(soon(self.lease.lease_grant(LeaseGrantRequest { ttl: seconds, id: 0 })).await?)
    }

    /// Ends a lease and with it the keys that hang on it.
    pub(crate) async fn revoke(&mut self, lease: i64) -> Result<(), Failed> {
        let revoked = async {
            match self.lease.lease_revoke(LeaseRevokeRequest { id: lease }).await {
                // It has ended by itself.
                Err(status) if status.code() == Code::NotFound => Ok(tonic::Response::new(())),
                reply => reply.map(|_| tonic::Response::new(())),
            }
        };
        soon(revoked).await
    }

    /// The way to prolong a lease.
    pub(crate) async fn keep_alive(&mut self, id: i64) -> Result<KeepAlive, Failed> {
        let (request, requested) = mpsc::channel(4);
        // etcd answers the call with its first answer, so the first question comes before.
        let first = request.send(LeaseKeepAliveRequest { id }).await;
        first.map_err(|_| Failed::no_reply("the stream ended"))?;
        let responses = soon(self.lease.lease_keep_alive(with_leader(ReceiverStream::new(requested)))).await?;
        Ok(KeepAlive { request, responses, id })
    }

    /// What changes under a prefix from a revision on.
    pub(crate) async fn watch(&mut self, prefix: &[u8], from: i64) -> Result<Watch, Failed> {
        let create = WatchCreateRequest { key: prefix.to_vec(), range_end: after(prefix), start_revision: from };
        let (request, requested) = mpsc::channel(1);
        let create = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        request.send(create).await.map_err(|_| Failed::no_reply("the stream ended"))?;
        let changes = soon(self.watch.watch(with_leader(ReceiverStream::new(requested)))).await?;
        Ok(Watch { changes, _ask: request })
    }
}

/// The key after all that begin with a prefix.
fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // All keys, in etcd's spelling.
    vec![0]
}

impl KeepAlive {
    /// Asks for more time; whether there was room for the question.
    pub(crate) fn request(&self) -> bool {
        self.request.try_send(LeaseKeepAliveRequest { id: self.id }).is_ok()
    }

    /// For how long the lease goes on, from when it was asked for. Nothing is lost when the future is dropped.
    pub(crate) async fn reply(&mut self) -> Result<Duration, Failed> {
        let reply = self.responses.message().await?;
        let reply = reply.ok_or_else(|| Failed::no_reply("the stream of the lease ended"))?;
        Ok(Duration::from_secs(u64::try_from(reply.ttl).unwrap_or(0)))
    }
}

/// Changes as they come.
pub(crate) struct Watch {
    changes: Streaming<WatchResponse>,
    /// The stream ends with it.
    _ask: mpsc::Sender<WatchRequest>,
}

impl Watch {
    /// The next changes: keys, with `None` for what is gone. Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Vec<(Vec<u8>, Option<KeyValue>)>, Failed> {
        let reply = self.changes.message().await?;
        let reply = reply.ok_or_else(|| Failed::no_reply("the watch ended"))?;
        if reply.canceled {
            return Err(Failed::no_reply("the watch was ended by etcd"));
        }
        let change = |event: mvccpb::Event| {
            let gone = event.r#type() == mvccpb::event::EventType::Delete;
            event.kv.map(|kv| (kv.key.clone(), (!gone).then_some(kv)))
        };
        Ok(reply.events.into_iter().filter_map(change).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_without_time_is_none() {
        let granted = |ttl, error: &str| {
            lease_of(LeaseGrantResponse { id: 7, ttl, error: error.to_owned(), ..LeaseGrantResponse::default() })
        };
        assert_eq!(granted(1, ""), Ok((7, Duration::from_secs(1))));
        assert_eq!(granted(0, ""), Err(Failed::Refused("it granted a lease of 0 s".to_owned())));
        assert_eq!(granted(-1, ""), Err(Failed::Refused("it granted a lease of -1 s".to_owned())));
        assert_eq!(granted(5, "too many"), Err(Failed::Refused("too many".to_owned())));
    }

    #[test]
    fn a_refusal_is_an_answer() {
        let said = |status: Status| Failed::from(status);
        let large = "etcdserver: request is too large";
        assert_eq!(said(Status::invalid_argument(large)), Failed::Refused(large.to_owned()));
        let away = "etcdserver: no leader";
        assert_eq!(said(Status::unavailable(away)), Failed::NoReply(away.to_owned()));
        assert_eq!(said(Status::unknown("transport error")), Failed::NoReply("transport error".to_owned()));
    }

    #[test]
    fn a_prefix_ends_after_all_its_keys() {
        assert_eq!(after(b"weir/"), b"weir0");
        assert_eq!(after(b"a\xff"), b"b");
        assert_eq!(after(b"\xff"), b"\0");
    }
}
