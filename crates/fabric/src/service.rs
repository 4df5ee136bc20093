//! The call of a leader, at the fabric broker.
//!
//! A call begins with who speaks. The name must be in the certificate that TLS has verified, so a machine can speak for
//! itself only, and everything that it says on this call is taken as this machine's; reports name none. What it says
//! goes to the daemon as it comes, through a queue of bounded length: a leader that floods waits for its own messages.

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

/// How long a caller may take to say who it is, from its connection on and from its call on.
pub(crate) const HELLO_TIME: Duration = Duration::from_secs(10);
/// Answers that wait for a leader to take them: ten periods of a thousand services.
const ANSWERS: usize = 64;

/// Which call, counted from the daemon's start.
pub(crate) type StreamId = u64;

/// What a call tells the daemon.
pub(crate) enum Event {
    /// A machine calls.
    Stream {
        /// Its name, which its certificate has.
        machine: String,
        /// Where answers go; the call ends when it is dropped.
        responses: Responses,
        /// Whether it may stay.
        verdict: oneshot::Sender<Verdict>,
    },
    /// It reports.
    Report(StreamId, proto::Report),
    /// It is gone.
    End(StreamId),
}

/// The way back to a leader.
pub(crate) type Responses = mpsc::Sender<Result<proto::FromBroker, Status>>;

/// What becomes of a call.
pub(crate) enum Verdict {
    /// It stays until the other half is dropped.
    Stays(StreamId, oneshot::Receiver<()>),
    /// It was told where to go.
    Elsewhere,
    /// The policy does not have the machine.
    Unknown,
}

pub(crate) struct Service {
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) counters: Arc<Counters>,
}

impl Service {
    /// The machine that calls, if it may.
    async fn hello(&self, client: &Client, said: &mut Streaming<proto::FromLeader>) -> Result<String, Status> {
        let first = tokio::time::timeout(HELLO_TIME, said.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("who calls did not say so"))??;
        let Some(proto::FromLeader { message: Some(Message::Hello(hello)) }) = first else {
            self.counters.malformed.add();
            return Err(Status::invalid_argument("the first word of a call says who calls"));
        };
        let names = client.names();
        if !names.contains(&hello.machine) {
            self.counters.other_machine.add();
            debug!("a call for `{}` refused: the certificate is for {}", hello.machine, names.join(", "));
            return Err(Status::permission_denied(format!("the certificate does not name `{}`", hello.machine)));
        }
        client.has_said();
        Ok(hello.machine)
    }
}

#[tonic::async_trait]
impl Fabric for Service {
    type LeadStream = ReceiverStream<Result<proto::FromBroker, Status>>;

    async fn lead(&self, request: Request<Streaming<proto::FromLeader>>) -> Result<Response<Self::LeadStream>, Status> {
        let client = request.extensions().get::<Client>().expect("every connection has one").clone();
        let mut said = request.into_inner();
        let machine = self.hello(&client, &mut said).await?;
        let gone = |_| Status::unavailable("the fabric broker ends");
        let (responses, to_leader) = mpsc::channel(ANSWERS);
        let (verdict, decided) = oneshot::channel();
        let stream = Event::Stream { machine: machine.clone(), responses, verdict };
        self.events.send(stream).await.map_err(|_| gone(()))?;
        match decided.await.map_err(|_| gone(()))? {
            Verdict::Unknown => {
                self.counters.unknown_machine.add();
                return Err(Status::not_found(format!("the policy has no machine `{machine}`")));
            }
            Verdict::Elsewhere => self.counters.sent_elsewhere.add(),
            Verdict::Stays(id, over) => {
                tokio::spawn(listen(said, id, machine, over, self.events.clone(), self.counters.clone()));
            }
        }
        Ok(Response::new(ReceiverStream::new(to_leader)))
    }
}

/// Hands on what a leader says until it or the daemon ends the call.
async fn listen(
    mut said: Streaming<proto::FromLeader>,
    id: StreamId,
    machine: String,
    mut over: oneshot::Receiver<()>,
    events: mpsc::Sender<Event>,
    counters: Arc<Counters>,
) {
    loop {
        let message = tokio::select! {
            message = said.message() => message,
            _ = &mut over => return,
        };
        match message {
            Ok(Some(proto::FromLeader { message: Some(Message::Report(report)) })) => {
                if events.send(Event::Report(id, report)).await.is_err() {
                    return;
                }
            }
            Ok(Some(_)) => {
                counters.malformed.add();
                debug!("from `{machine}`: {}", Malformed::Empty);
            }
            Ok(None) => break,
            Err(status) => {
                debug!("the call of `{machine}` broke: {status}");
                break;
            }
        }
    }
    let _ = events.send(Event::End(id)).await;
}
