//! etcd, as far as fabric brokers use it: keys, transactions, leases, and a watch.
//!
//! Problem: the reply of etcd to a request may come late, from a member that is cut off, or not at all.
//! Approach: every request has a deadline, streams require a member that is connected to a leader,
//! and any failure ends the [`EtcdSession`]; the caller begins another session, with the next
//! member. This module decides nothing.
//!
//! Reason for no client crate: `etcd-client` needs protoc and the sources of Google's types to
//! build, and Weir does without both. Five calls of etcd's published interface suffice
//! (`proto/etcd`).
//!
//! Source: etcd 3.4, API reference (<https://etcd.io/docs/v3.4/learning/api/>).

use crate::etcd::proto::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::etcd::proto::kv_client::KvClient;
use crate::etcd::proto::lease_client::LeaseClient;
use crate::etcd::proto::request_op::Request;
use crate::etcd::proto::watch_client::WatchClient;
use crate::etcd::proto::watch_request::RequestUnion;
use crate::etcd::proto::{
    Compare, DeleteRangeRequest, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseRevokeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, WatchCreateRequest, WatchRequest,
    WatchResponse,
};
use crate::state::secret;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Status, Streaming};

/// The deadline of a request: half of the shortest lease that etcd grants.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// The largest message: the largest request that etcd takes, and a reserve.
const LARGEST: usize = 4 * 1024 * 1024;
/// The most tenants of a transaction, which writes a key for its order, too: etcd's `--max-txn-ops` is 128 unless it is
/// configured otherwise.
pub(crate) const MOST_KEYS: usize = 120;
/// Keys of a reply where all under a prefix are read.
const PIECE: i64 = 2_000;

/// A key as etcd stores it.
pub(crate) use mvccpb::KeyValue;

/// The messages.
#[allow(missing_docs, unreachable_pub, dead_code, clippy::all, clippy::too_many_lines, clippy::unwrap_used)]
pub(crate) mod proto {
    tonic::include_proto!("etcdserverpb");
}

/// Keys and events.
#[allow(missing_docs, unreachable_pub, dead_code, clippy::all, clippy::too_many_lines, clippy::unwrap_used)]
pub(crate) mod mvccpb {
    tonic::include_proto!("mvccpb");
}

/// Addresses and credentials of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdConfig {
    /// Its members: `http://HOST:PORT` or `https://HOST:PORT`, one at least.
    pub members: Vec<String>,
    /// The CA of etcd's certificates; the system's CAs are not used.
    pub ca: Option<PathBuf>,
    /// The client certificate and private key, if etcd requires them.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// A connection to one member.
pub(crate) struct EtcdSession {
    kv: KvClient<Channel>,
    lease: LeaseClient<Channel>,
    watch: WatchClient<Channel>,
}

/// The stream that renews a lease.
pub(crate) struct KeepAlive {
    request: mpsc::Sender<LeaseKeepAliveRequest>,
    responses: Streaming<LeaseKeepAliveResponse>,
    id: i64,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failed {
    /// No reply, or none about whether the request was carried out.
    #[error("{0}")]
    NoReply(String),
    /// etcd refused the request.
    #[error("{0}")]
    Refused(String),
    /// No request was sent: this broker cannot go on with the session.
    #[error("{0}")]
    GivenUp(String),
}

impl Failed {
    pub(crate) fn no_reply(why: impl Into<String>) -> Self {
        Self::NoReply(why.into())
    }
}

impl From<Status> for Failed {
    /// gRPC makes up codes of its own where no reply arrived; the listed ones come from etcd
    /// (<https://grpc.io/docs/guides/status-codes/>, and api/v3rpc/rpctypes/error.go of etcd).
    fn from(status: Status) -> Self {
        let reason = crate::failure::of_status(&status);
        match status.code() {
            Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented => Self::Refused(reason),
            _ => Self::NoReply(reason),
        }
    }
}

/// A condition on which keys are written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum If<'a> {
    /// A key was created at this revision; 0: it is not there.
    Created(&'a [u8], i64),
    /// A key was last written at this revision; 0: it is not there.
    Written(&'a [u8], i64),
}

fn compare(guard: &If<'_>) -> Compare {
    let (target, key, union) = match *guard {
        If::Created(key, revision) => (CompareTarget::Create, key, TargetUnion::CreateRevision(revision)),
        If::Written(key, revision) => (CompareTarget::Mod, key, TargetUnion::ModRevision(revision)),
    };
    Compare { result: CompareResult::Equal.into(), target: target.into(), key: key.to_vec(), target_union: Some(union) }
}

async fn soon<T>(work: impl Future<Output = Result<tonic::Response<T>, Status>>) -> Result<T, Failed> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(reply) => Ok(reply?.into_inner()),
        Err(_) => Err(Failed::NoReply(format!("no reply within {} s", PATIENCE.as_secs()))),
    }
}

/// A lease, if its time is above 0.
fn lease_of(granted: LeaseGrantResponse) -> Result<(i64, Duration), Failed> {
    if !granted.error.is_empty() {
        return Err(Failed::Refused(granted.error));
    }
    match u64::try_from(granted.ttl) {
        Ok(seconds @ 1..) => Ok((granted.id, Duration::from_secs(seconds))),
        _ => Err(Failed::Refused(format!("it granted a lease of {} s", granted.ttl))),
    }
}

/// A request for a stream that ends when its member loses etcd's leader.
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

    /// The keys from one up to another, which is not among them, `most` at most (0: all), and the revision of the
    /// reply.
    pub(crate) async fn between(
        &mut self,
        (from, end): (&[u8], &[u8]),
        most: i64,
    ) -> Result<(Vec<KeyValue>, i64), Failed> {
        let request = RangeRequest { key: from.to_vec(), range_end: end.to_vec(), limit: most };
        let reply = soon(self.kv.range(request)).await?;
        let revision = reply.header.map_or(0, |header| header.revision);
        Ok((reply.kvs, revision))
    }

    /// All keys under a prefix, in pieces that fit a message where values have at most a kilobyte.
    pub(crate) async fn all_under(&mut self, prefix: &[u8]) -> Result<Vec<KeyValue>, Failed> {
        let (mut all, mut from, end) = (Vec::<KeyValue>::new(), prefix.to_vec(), after(prefix));
        loop {
            let (piece, _) = self.between((&from, &end), PIECE).await?;
            let is_last = (piece.len() as i64) < PIECE;
            all.extend(piece);
            match all.last() {
                // The next key in etcd's order.
                Some(last) if !is_last => from = [&last.key[..], &[0]].concat(),
                _ => return Ok(all),
            }
        }
    }

    /// The revisions at which a key was created and last written; zeros if it is not there.
    pub(crate) async fn revisions(&mut self, key: &[u8]) -> Result<(i64, i64), Failed> {
        let next = [key, &[0]].concat();
        let (entries, _) = self.between((key, &next), 1).await?;
        Ok(entries.first().map_or((0, 0), |entry| (entry.create_revision, entry.mod_revision)))
    }

    /// Writes a key on a condition: returns the revision of the write, or `None` if the condition
    /// did not hold.
    pub(crate) async fn put_if(
        &mut self,
        guard: If<'_>,
        (key, value, lease): (&[u8], Vec<u8>, i64),
    ) -> Result<Option<i64>, Failed> {
        self.transact(&[guard], vec![Request::RequestPut(PutRequest { key: key.to_vec(), value, lease })]).await
    }

    /// Writes keys, and deletes those without a value, all or none, if all conditions hold: returns the revision of
    /// the write, or `None` if one did not hold. etcd takes 128 keys at most.
    pub(crate) async fn put_all_if(
        &mut self,
        guards: &[If<'_>],
        entries: impl IntoIterator<Item = (Vec<u8>, Option<Vec<u8>>)>,
    ) -> Result<Option<i64>, Failed> {
        let operation = |(key, value): (Vec<u8>, Option<Vec<u8>>)| match value {
            Some(value) => Request::RequestPut(PutRequest { key, value, lease: 0 }),
            None => Request::RequestDeleteRange(DeleteRangeRequest { key, range_end: Vec::new() }),
        };
        self.transact(guards, entries.into_iter().map(operation).collect()).await
    }

    async fn transact(&mut self, guards: &[If<'_>], operations: Vec<Request>) -> Result<Option<i64>, Failed> {
        let success = operations.into_iter().map(|request| RequestOp { request: Some(request) }).collect();
        let request = TxnRequest { compare: guards.iter().map(compare).collect(), success, failure: vec![] };
        let reply = soon(self.kv.txn(request)).await?;
        let revision = reply.header.map_or(0, |header| header.revision);
        Ok(reply.succeeded.then_some(revision))
    }

    /// A lease: its id and the time that etcd grants, which may be longer than requested.
    pub(crate) async fn grant(&mut self, seconds: i64) -> Result<(i64, Duration), Failed> {
        lease_of(soon(self.lease.lease_grant(LeaseGrantRequest { ttl: seconds, id: 0 })).await?)
    }

    /// Ends a lease and with it the keys that hang on it.
    pub(crate) async fn revoke(&mut self, lease: i64) -> Result<(), Failed> {
        let revoked = async {
            match self.lease.lease_revoke(LeaseRevokeRequest { id: lease }).await {
                // The lease has expired.
                Err(status) if status.code() == Code::NotFound => Ok(tonic::Response::new(())),
                reply => reply.map(|_| tonic::Response::new(())),
            }
        };
        soon(revoked).await
    }

    /// The stream that renews a lease.
    pub(crate) async fn keep_alive(&mut self, id: i64) -> Result<KeepAlive, Failed> {
        let (request, requests) = mpsc::channel(4);
        // etcd opens the stream with its first reply, so the first request comes before.
        let first = request.send(LeaseKeepAliveRequest { id }).await;
        first.map_err(|_| Failed::no_reply("the stream ended"))?;
        let responses = soon(self.lease.lease_keep_alive(with_leader(ReceiverStream::new(requests)))).await?;
        Ok(KeepAlive { request, responses, id })
    }

    /// The changes of the keys from one up to another, which is not among them, from a revision on.
    pub(crate) async fn watch(&mut self, (first, end): (&[u8], &[u8]), from: i64) -> Result<Watch, Failed> {
        let create = WatchCreateRequest { key: first.to_vec(), range_end: end.to_vec(), start_revision: from };
        let (request, requests) = mpsc::channel(1);
        let create = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        request.send(create).await.map_err(|_| Failed::no_reply("the stream ended"))?;
        let changes = soon(self.watch.watch(with_leader(ReceiverStream::new(requests)))).await?;
        Ok(Watch { changes, _request: request })
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
    // All keys, as etcd encodes it.
    vec![0]
}

impl KeepAlive {
    /// Requests more time; returns whether there was room for the request.
    pub(crate) fn request(&self) -> bool {
        self.request.try_send(LeaseKeepAliveRequest { id: self.id }).is_ok()
    }

    /// The remaining time of the lease, counted from the request. Cancelling the future loses no
    /// reply.
    pub(crate) async fn reply(&mut self) -> Result<Duration, Failed> {
        let reply = self.responses.message().await?;
        let reply = reply.ok_or_else(|| Failed::no_reply("the stream of the lease ended"))?;
        Ok(Duration::from_secs(u64::try_from(reply.ttl).unwrap_or(0)))
    }
}

/// Changes of keys.
pub(crate) struct Watch {
    changes: Streaming<WatchResponse>,
    /// Dropping the sender ends the stream.
    _request: mpsc::Sender<WatchRequest>,
}

impl Watch {
    /// The next changes: keys, with `None` for a deleted one. Cancelling the future loses no
    /// change.
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
    fn lease_without_time_is_refused() {
        let granted = |ttl, error: &str| {
            lease_of(LeaseGrantResponse { id: 7, ttl, error: error.to_owned(), ..LeaseGrantResponse::default() })
        };
        assert_eq!(granted(1, ""), Ok((7, Duration::from_secs(1))));
        assert_eq!(granted(0, ""), Err(Failed::Refused("it granted a lease of 0 s".to_owned())));
        assert_eq!(granted(-1, ""), Err(Failed::Refused("it granted a lease of -1 s".to_owned())));
        assert_eq!(granted(5, "too many"), Err(Failed::Refused("too many".to_owned())));
    }

    #[test]
    fn refusal_is_distinguished_from_no_reply() {
        let failed = |status: Status| Failed::from(status);
        let large = "etcdserver: request is too large";
        assert_eq!(failed(Status::invalid_argument(large)), Failed::Refused(large.to_owned()));
        let away = "etcdserver: no leader";
        assert_eq!(failed(Status::unavailable(away)), Failed::NoReply(away.to_owned()));
        assert_eq!(failed(Status::unknown("transport error")), Failed::NoReply("transport error".to_owned()));
    }

    #[test]
    fn prefix_ends_after_all_its_keys() {
        assert_eq!(after(b"weir/"), b"weir0");
        assert_eq!(after(b"a\xff"), b"b");
        assert_eq!(after(b"\xff"), b"\0");
    }
}
