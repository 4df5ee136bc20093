//! The stream of a rack leader, at the fabric broker.
//!
//! A stream begins with the name of a machine. The name must be in the certificate that TLS has
//! verified, so a machine can report for itself only: every message of the stream counts as this
//! machine's, and reports name none. Messages reach the daemon through a queue of bounded length: a
//! rack leader that floods waits for its own messages.

use crate::binding::SubscriberEvent;
use crate::connections::Client;
use crate::convert::Malformed;
use crate::counters::Counters;
use crate::proto::fabric_server::Fabric;
use crate::proto::{self, from_leader::Message};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tracing::debug;

/// How long a client may take to send its hello, from the start of its connection and of its
/// stream.
pub(crate) const HELLO_TIME: Duration = Duration::from_secs(10);
/// Messages that wait for a rack leader to take them: ten periods of a thousand services.
const RESPONSES: usize = 64;

/// The number of a stream, counted from the daemon's start.
pub(crate) type StreamId = u64;

/// An event of a stream, for the daemon.
pub(crate) enum Event {
    /// A machine opens a stream.
    Stream {
        /// Its name, which its certificate contains.
        machine: String,
        /// The channel to the rack leader; dropping it ends the stream.
        responses: Responses,
        /// The daemon's reply: whether the stream may stay.
        verdict: oneshot::Sender<Verdict<Refusal>>,
    },
    /// A report arrives.
    Report(StreamId, proto::Report),
    /// A reply to a proposal arrives.
    Reply(StreamId, proto::Report),
    /// A notice of this broker's epoch arrives.
    Notice(StreamId, proto::Known),
    /// The stream has ended.
    End(StreamId),
    /// An event of a subscriber of tenants' queues.
    Subscriber(SubscriberEvent),
}

/// The channel to a rack leader.
pub(crate) type Responses = mpsc::Sender<Result<proto::FromBroker, Status>>;

/// The daemon's decision about a stream: its number, and a receiver that completes when it must end; or the refusal.
pub(crate) type Verdict<R> = Result<(StreamId, oneshot::Receiver<()>), R>;

/// Why a rack leader has no stream.
pub(crate) enum Refusal {
    /// The rack leader was redirected.
    Elsewhere,
    /// The policy does not have the machine.
    Unknown,
}

/// Waits for the daemon's decision, and has `listen` forward the messages of a stream that stays.
///
/// A task of its own takes the decision: the future of a request is dropped when its client resets it or loses the
/// connection, and a stream that the daemon has registered would never end.
pub(crate) async fn decision<R, F>(
    verdict: oneshot::Receiver<Verdict<R>>,
    listen: impl FnOnce(StreamId, oneshot::Receiver<()>) -> F + Send + 'static,
) -> Result<Result<(), R>, Status>
where
    R: Send + 'static,
    F: Future<Output = ()> + Send,
{
    let (decided, decision) = oneshot::channel();
    tokio::spawn(async move {
        // Without a verdict the daemon ends, and the request too.
        let Ok(verdict) = verdict.await else { return };
        let (stream, reply) = match verdict {
            Ok(stream) => (Some(stream), Ok(())),
            Err(refusal) => (None, Err(refusal)),
        };
        // The messages of a request that is gone end, which `listen` notices.
        let _ = decided.send(reply);
        if let Some((id, over)) = stream {
            listen(id, over).await;
        }
    });
    decision.await.map_err(|_| ends())
}

/// The status of requests at the daemon's end.
pub(crate) fn ends() -> Status {
    Status::unavailable("the fabric broker ends")
}

pub(crate) struct Service {
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) counters: Arc<Counters>,
}

impl Service {
    /// The machine that opens the stream, if its certificate allows it.
    async fn hello(&self, client: &Client, messages: &mut Streaming<proto::FromLeader>) -> Result<String, Status> {
        let first = tokio::time::timeout(HELLO_TIME, messages.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("the client sent no hello in time"))??;
        let Some(proto::FromLeader { message: Some(Message::Hello(hello)) }) = first else {
            self.counters.malformed.add();
            return Err(Status::invalid_argument("the first message of a stream must be a hello"));
        };
        let names = client.names();
        if !names.contains(&hello.machine) {
            self.counters.other_machine.add();
            debug!("a stream for `{}` refused: the certificate is for {}", hello.machine, names.join(", "));
            return Err(Status::permission_denied(format!("the certificate does not name `{}`", hello.machine)));
        }
        client.set_identified();
        Ok(hello.machine)
    }
}

#[tonic::async_trait]
impl Fabric for Service {
    type LeadStream = ReceiverStream<Result<proto::FromBroker, Status>>;

    async fn lead(&self, request: Request<Streaming<proto::FromLeader>>) -> Result<Response<Self::LeadStream>, Status> {
        let client = request.extensions().get::<Client>().expect("every connection has one").clone();
        let mut messages = request.into_inner();
        let machine = self.hello(&client, &mut messages).await?;
        let (responses, to_leader) = mpsc::channel(RESPONSES);
        let (verdict, decided) = oneshot::channel();
        let stream = Event::Stream { machine: machine.clone(), responses, verdict };
        self.events.send(stream).await.map_err(|_| ends())?;
        let (name, events, counters) = (machine.clone(), self.events.clone(), self.counters.clone());
        match decision(decided, |id, over| listen(messages, id, name, over, events, counters)).await? {
            Ok(()) => {}
            Err(Refusal::Elsewhere) => self.counters.redirected.add(),
            Err(Refusal::Unknown) => {
                self.counters.unknown_machine.add();
                return Err(Status::not_found(format!("the policy has no machine `{machine}`")));
            }
        }
        Ok(Response::new(ReceiverStream::new(to_leader)))
    }
}

/// Forwards a rack leader's messages until it or the daemon ends the stream.
async fn listen(
    mut messages: Streaming<proto::FromLeader>,
    id: StreamId,
    machine: String,
    mut over: oneshot::Receiver<()>,
    events: mpsc::Sender<Event>,
    counters: Arc<Counters>,
) {
    loop {
        let message = tokio::select! {
            message = messages.message() => message,
            _ = &mut over => return,
        };
        match message {
            Ok(Some(proto::FromLeader { message: Some(Message::Report(report)) })) => {
                if events.send(Event::Report(id, report)).await.is_err() {
                    return;
                }
            }
            Ok(Some(proto::FromLeader { message: Some(Message::Reply(reply)) })) => {
                if events.send(Event::Reply(id, reply)).await.is_err() {
                    return;
                }
            }
            Ok(Some(proto::FromLeader { message: Some(Message::Notice(notice)) })) => {
                if events.send(Event::Notice(id, notice)).await.is_err() {
                    return;
                }
            }
            Ok(Some(_)) => {
                counters.malformed.add();
                debug!("from `{machine}`: {}", Malformed::Empty);
            }
            Ok(None) => break,
            Err(status) => {
                debug!("the stream of `{machine}` broke: {status}");
                break;
            }
        }
    }
    let _ = events.send(Event::End(id)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stream_of_a_request_dropped_before_its_verdict_ends() {
        let (verdict, decided) = oneshot::channel::<Verdict<Refusal>>();
        let (ended, end) = oneshot::channel();
        let request = decision(decided, |id, _over| async move { ended.send(id).expect("the test waits") });
        // It waits for the verdict when its client resets it.
        assert!(tokio::time::timeout(Duration::from_millis(10), request).await.is_err());
        let (_keep, over) = oneshot::channel();
        assert!(verdict.send(Ok((7, over))).is_ok(), "the verdict has a receiver");
        assert_eq!(end.await, Ok(7));
    }
}
