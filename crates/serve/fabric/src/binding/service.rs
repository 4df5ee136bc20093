//! The stream of a subscriber, at the controller.
//!
//! As with rack leaders, the certificate that TLS has verified must name the subscriber, so each can report for itself
//! only.

use super::controller::{Messages, elsewhere};
use crate::binding_proto::binding_server::Binding;
use crate::binding_proto::{self as proto, from_subscriber};
use crate::connections::Client;
use crate::counters::Counters;
use crate::service::{Event, HELLO_TIME, StreamId, Verdict, decision, ends};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tracing::debug;

/// Messages that wait for a subscriber to take them: settings of some changes, and a reading of each queue.
const MESSAGES: usize = 1_024;

/// An event of a subscriber's stream, for the daemon.
pub(crate) enum SubscriberEvent {
    /// A subscriber opens a stream.
    Stream {
        /// Its first message; its certificate contains the name.
        hello: proto::Hello,
        /// The channel to it; dropping it ends the stream.
        messages: Messages,
        /// The daemon's reply: whether the stream may stay.
        verdict: oneshot::Sender<Verdict<Refusal>>,
    },
    /// A message arrives.
    Message(StreamId, from_subscriber::Message),
    /// The stream has ended.
    End(StreamId),
}

/// Why a subscriber has no stream.
pub(crate) enum Refusal {
    /// Another broker leads.
    Elsewhere(Option<String>),
    /// The policy does not have the machine or switch.
    Unknown,
    /// The broker has no tenants to bind.
    NoTenants,
}

pub(crate) struct BindingService {
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) counters: Arc<Counters>,
}

impl BindingService {
    /// The first message of a stream, if the subscriber's certificate allows it.
    async fn hello(
        &self,
        client: &Client,
        messages: &mut Streaming<proto::FromSubscriber>,
    ) -> Result<proto::Hello, Status> {
        let first = tokio::time::timeout(HELLO_TIME, messages.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("the client sent no hello in time"))??;
        let Some(proto::FromSubscriber { message: Some(from_subscriber::Message::Hello(hello)) }) = first else {
            self.counters.malformed.add();
            return Err(Status::invalid_argument("the first message of a stream must be a hello"));
        };
        let names = client.names();
        if !names.contains(&hello.name) {
            self.counters.other_machine.add();
            debug!("a stream for `{}` refused: the certificate is for {}", hello.name, names.join(", "));
            return Err(Status::permission_denied(format!("the certificate does not name `{}`", hello.name)));
        }
        client.set_identified();
        Ok(hello)
    }
}

#[tonic::async_trait]
impl Binding for BindingService {
    type SubscribeStream = ReceiverStream<Result<proto::FromController, Status>>;

    async fn subscribe(
        &self,
        request: Request<Streaming<proto::FromSubscriber>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let client = request.extensions().get::<Client>().expect("every connection has one").clone();
        let mut incoming = request.into_inner();
        let hello = self.hello(&client, &mut incoming).await?;
        let name = hello.name.clone();
        let (messages, to_subscriber) = mpsc::channel(MESSAGES);
        let (verdict, decided) = oneshot::channel();
        let stream = SubscriberEvent::Stream { hello, messages: messages.clone(), verdict };
        self.events.send(Event::Subscriber(stream)).await.map_err(|_| ends())?;
        let (of, events) = (name.clone(), self.events.clone());
        match decision(decided, |id, over| receive(incoming, id, of, over, events)).await? {
            Ok(()) => {}
            Err(Refusal::Unknown) => {
                self.counters.unknown_machine.add();
                return Err(Status::not_found(format!("the policy has no machine or switch `{name}`")));
            }
            Err(Refusal::NoTenants) => {
                return Err(Status::failed_precondition("this fabric broker binds no tenants"));
            }
            Err(Refusal::Elsewhere(leader)) => {
                self.counters.redirected.add();
                let _ = messages.try_send(Ok(elsewhere(leader.as_deref())));
            }
        }
        Ok(Response::new(ReceiverStream::new(to_subscriber)))
    }
}

/// Forwards a subscriber's messages until it or the daemon ends the stream.
async fn receive(
    mut incoming: Streaming<proto::FromSubscriber>,
    id: StreamId,
    name: String,
    mut over: oneshot::Receiver<()>,
    events: mpsc::Sender<Event>,
) {
    loop {
        let message = tokio::select! {
            message = incoming.message() => message,
            _ = &mut over => return,
        };
        match message {
            Ok(Some(proto::FromSubscriber { message: Some(message) })) => {
                let message = Event::Subscriber(SubscriberEvent::Message(id, message));
                if events.send(message).await.is_err() {
                    return;
                }
            }
            Ok(Some(_)) => debug!("an empty message of `{name}`"),
            Ok(None) => break,
            Err(status) => {
                debug!("the stream of `{name}` broke: {status}");
                break;
            }
        }
    }
    let _ = events.send(Event::Subscriber(SubscriberEvent::End(id))).await;
}
