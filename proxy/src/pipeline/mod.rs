//! A request's way, from its head to the last byte of its answer.
//!
//! ```text
//!  head ──authenticate──▶ Caller
//!  body ──receive───────▶ Envelope          one pass over the bytes, edited by splices only
//!         attribute ────▶ Attribution       user, task, tags, harness
//!         admit ────────▶ Place             rates and concurrency
//!         plan ─────────▶ Plan              targets in order
//!         attempt ──────▶ Answer            send, read, judge; wait or go on, until done
//!         relay ────────▶ Response          whole, or a stream passed on event by event
//!                │                          (a client's own retry joins or replays: twin)
//!                └─ settle, record          before the last byte, or when the body is dropped
//! ```

pub(crate) mod attempt;
pub mod attribute;
pub mod authenticate;
pub mod early;
mod encode;
pub(crate) mod judge;
pub mod plan;
mod recording;
pub mod relay;
pub mod run;
pub mod runaway;
pub mod settle;
pub mod share;
pub mod stream;
pub mod twin;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Request, Response};
use whippletree_policies::ids::RequestId;
use whippletree_providers::envelope::Envelope;
use whippletree_providers::provider;

use crate::api::body::Body;
use crate::api::rejection::Rejection;
use crate::api::{self, NoOperation, Operation, headers, models};
use crate::clock;
use crate::config::ClientRetry;
use crate::exchange::{Api, Dialect, End};
use crate::gateway::{Gateway, Snapshot};
use crate::server::{HeadFault, Peer, ReceiveError, ReceiveLimits, Received, Upload, receive_body};
use attempt::Answer;
use attribute::attribute;
use authenticate::{Caller, authenticate};
use plan::Plan;
use relay::{Passage, Relay};
use run::Attended;
use settle::Settlement;

/// A request under way: what all stages may look at.
#[derive(Debug)]
pub(crate) struct Call {
    /// State shared by all requests.
    pub(crate) gateway: Arc<Gateway>,
    /// The configuration that this request sees.
    pub(crate) snapshot: Arc<Snapshot>,
    /// The request's head.
    pub(crate) head: Parts,
    /// Where it came from.
    pub(crate) peer: Peer,
}

/// What the stages come to; a stream takes the settlement along.
enum Reply {
    /// To be asked of a vendor.
    Ask(Box<run::Prepared>),
    Whole(Response<Body>),
    Relay(Response<()>, Box<relay::Open>),
    Passage(Response<()>, Box<crate::upstream::UpstreamBody>),
}

/// Answers one request. There is always an answer, and whatever it is, it is on record.
pub async fn serve(gateway: Arc<Gateway>, request: Request<Upload>, peer: Peer) -> Response<Body> {
    let started = clock::now();
    let id = clock::new_request_id(clock::unix_now());
    let (head, body) = request.into_parts();
    let snapshot = gateway.snapshot();
    let api = api::operation(&head.method, head.uri.path()).map_or(Api::Other, Operation::api);
    let mut settlement = Settlement::open(Arc::clone(&gateway), id, started, api);
    // Whoever owns the attempts decides on them.
    let owned = head.headers.contains_key(headers::WT_ATTEMPT_OWNER);
    let call = Call {
        gateway,
        snapshot,
        head,
        peer,
    };
    let mut response = match call.run(body, &mut settlement).await {
        Ok(Reply::Ask(prepared)) => run::ask(call, prepared, settlement).await,
        reply => deliver(reply, settlement),
    };
    if owned {
        response.headers_mut().remove(headers::SHOULD_RETRY);
    }
    name(&mut response, id, api.dialect());
    response
}

/// Answers a head that is no request. It is on record like any other refusal.
pub fn refuse(gateway: &Arc<Gateway>, fault: HeadFault) -> Response<Body> {
    let id = clock::new_request_id(clock::unix_now());
    let mut settlement = Settlement::open(Arc::clone(gateway), id, clock::now(), Api::Other);
    let server = &gateway.snapshot().config.server;
    let rejection = Rejection::Head {
        fault,
        max_bytes: server.max_head,
        max_fields: server.max_headers,
    };
    let mut response = turn_away(&rejection, &mut settlement);
    name(&mut response, id, settlement.dialect());
    response
}

fn name(response: &mut Response<Body>, id: RequestId, dialect: Dialect) {
    let id = HeaderValue::try_from(id.to_string()).unwrap_or(HeaderValue::from_static("-"));
    let map = response.headers_mut();
    if dialect == Dialect::Anthropic {
        map.insert(headers::ANTHROPIC_REQUEST_ID, id.clone());
    }
    map.insert(headers::REQUEST_ID, id.clone());
    map.insert(headers::WT_REQUEST_ID, id);
}

/// What the stages came to, as it goes to the client and to whoever else has a share in it.
fn deliver(reply: Result<Reply, Rejection>, mut settlement: Settlement) -> Response<Body> {
    match reply {
        Ok(Reply::Whole(response)) => response,
        Ok(Reply::Relay(head, open)) => {
            let relay = Relay::new(*open, head.headers(), settlement);
            head.map(|()| Body::Relay(Attended::new(relay)))
        }
        Ok(Reply::Passage(head, body)) => {
            let status = head.status().as_u16();
            head.map(|()| Body::Passage(Box::new(Passage::new(*body, status, settlement))))
        }
        // Asked already; this arm is not reached.
        Ok(Reply::Ask(_)) => turn_away(&Rejection::Internal, &mut settlement),
        Err(rejection) => turn_away(&rejection, &mut settlement),
    }
}

/// Clients that repeat a failed request whatever the headers say get a status that they leave
/// alone (wire-facts, A0), unless the gateway itself asks for another try.
fn turn_away(rejection: &Rejection, settlement: &mut Settlement) -> Response<Body> {
    let status = rejection.status(settlement.dialect());
    let quiet = settlement.quiet_status(status);
    let sent = (quiet != status && !rejection.asks_for_retry()).then_some(quiet);
    let end = if rejection.is_failure() {
        End::Failed
    } else {
        End::Refused
    };
    if let Some(share) = settlement.share() {
        share.refused(rejection);
    }
    settlement.finish(
        sent.unwrap_or(status).as_u16(),
        end,
        Some(rejection.class()),
    );
    let mut response = rejection.response(
        settlement.dialect(),
        settlement.id(),
        settlement.attempts(),
        sent,
    );
    stamp(&mut response, settlement);
    response
}

/// The facts that stand in the headers of every answer that a vendor was asked for.
fn stamp<B>(response: &mut Response<B>, settlement: &Settlement) {
    let Some(facts) = settlement.facts() else {
        return;
    };
    let map = response.headers_mut();
    map.insert(headers::WT_ATTEMPTS, HeaderValue::from(facts.sends));
    if let Some(target) = facts.target
        && let Ok(value) = HeaderValue::try_from(target.as_str())
    {
        if facts.fallback {
            map.insert(headers::WT_FALLBACK, value.clone());
        }
        map.insert(headers::WT_TARGET, value);
    }
}

impl Call {
    async fn run(&self, body: Upload, settlement: &mut Settlement) -> Result<Reply, Rejection> {
        if self.gateway.is_draining() {
            return Err(Rejection::Draining);
        }
        let operation = api::operation(&self.head.method, self.head.uri.path());
        let caller = authenticate(
            &self.snapshot.config,
            &self.head.headers,
            self.peer.address.ip(),
        )?;
        settlement.caller(&caller);
        match operation {
            Ok(Operation::Call(api)) => self.model_call(api, caller, body, settlement).await,
            Ok(Operation::Relay) => Box::pin(self.relay(&caller, body, settlement)).await,
            Ok(Operation::ListModels) => Ok(self.list_models(&caller, settlement)),
            Ok(Operation::DescribeModel(name)) => self.describe_model(&caller, name, settlement),
            Err(NoOperation::Method(allow)) => Err(Rejection::MethodNotAllowed { allow }),
            Err(NoOperation::Path) => Err(Rejection::UnknownPath),
            Err(NoOperation::Unsafe) => Err(Rejection::PathUnsafe),
        }
    }

    async fn model_call(
        &self,
        api: Api,
        caller: Caller,
        body: Upload,
        settlement: &mut Settlement,
    ) -> Result<Reply, Rejection> {
        let received = self.receive(body).await?;
        let envelope = Envelope::parse(received.bytes.clone()).map_err(invalid_body)?;
        let attribution = attribute(&self.head.headers, api, Some(&envelope));
        let harness = attribution.harness;
        let task = attribution.task.clone().filter(|_| attribution.names_task);
        settlement.request(attribution, envelope.stream(), received.bytes.len() as u64);
        settlement.hold(self.gateway.limiters.admit(caller.tenant())?);
        let model = envelope.model().ok_or(Rejection::InvalidBody {
            reason: "the body names no model; set \"model\" to one that GET /v1/models lists"
                .into(),
            param: Some("model"),
        })?;
        let plan = Plan::of(&self.snapshot, &caller, model, api)?;
        settlement.route(&plan.route.id);
        if let Some(harness) = harness
            && plan.route.settings.client_retry == ClientRetry::Suppress
        {
            settlement.quiet(harness);
        }
        let Some(api) = provider_api(api) else {
            return Err(Rejection::UnknownPath);
        };
        Ok(Reply::Ask(Box::new(run::Prepared {
            api,
            caller,
            envelope,
            plan,
            since: settlement.started(),
            left: None,
            task,
            _received: received,
        })))
    }

    async fn receive(&self, body: Upload) -> Result<Received, Rejection> {
        let server = &self.snapshot.config.server;
        let limits = ReceiveLimits {
            max_body: server.max_body,
            pause: server.body_timeout,
        };
        receive_body(body, limits, &self.gateway.inflight_bytes)
            .await
            .map_err(|error| match error {
                ReceiveError::Busy => Rejection::Busy,
                ReceiveError::TimedOut { .. } => Rejection::BodyTimedOut,
                ReceiveError::TooLarge { limit, received } => {
                    Rejection::BodyTooLarge { limit, received }
                }
                ReceiveError::Gone(_) | ReceiveError::Malformed(_) => Rejection::InvalidBody {
                    reason: "the request body ended before it was whole".into(),
                    param: None,
                },
            })
    }

    fn reply(answer: Answer, settlement: &mut Settlement) -> Reply {
        match answer {
            Answer::Whole {
                status,
                headers,
                bytes,
            } => {
                settlement.relayed(bytes.len());
                settlement.finish(status.as_u16(), End::Ok, None);
                let mut response = Response::new(());
                *response.status_mut() = status;
                *response.headers_mut() = headers::to_client(&headers);
                stamp(&mut response, settlement);
                if let Some(cost) = settlement.priced_cost()
                    && let Ok(value) = HeaderValue::try_from(cost.to_string())
                {
                    response.headers_mut().insert(headers::WT_COST, value);
                }
                if let Some(share) = settlement.share() {
                    share.opened(recording::Head {
                        status,
                        headers: response.headers().clone(),
                        target: settlement.answered_by(),
                        keepalive: None,
                    });
                    share.finished([&*bytes]);
                }
                Reply::Whole(response.map(|()| Body::from(bytes)))
            }
            Answer::Stream {
                status,
                headers,
                open,
            } => {
                let mut response = Response::new(());
                *response.status_mut() = status;
                *response.headers_mut() = headers::to_client(&headers);
                let map = response.headers_mut();
                map.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
                // Without this, nginx and its like would hold the events back.
                map.insert("x-accel-buffering", HeaderValue::from_static("no"));
                stamp(&mut response, settlement);
                Reply::Relay(response, open)
            }
            Answer::Passage {
                status,
                headers,
                body,
            } => {
                let mut response = Response::new(());
                *response.status_mut() = status;
                *response.headers_mut() = headers::to_client(&headers);
                stamp(&mut response, settlement);
                Reply::Passage(response, body)
            }
        }
    }

    /// A path that the gateway does not know goes to one provider as it is: that of the model in a
    /// JSON body, else the one that the configuration names for it.
    async fn relay(
        &self,
        caller: &Caller,
        body: Upload,
        settlement: &mut Settlement,
    ) -> Result<Reply, Rejection> {
        let received = self.receive(body).await?;
        let bytes = received.bytes.clone();
        let attribution = attribute(&self.head.headers, Api::Other, None);
        settlement.request(attribution, false, bytes.len() as u64);
        settlement.hold(self.gateway.limiters.admit(caller.tenant())?);
        let envelope = Envelope::parse(bytes.clone()).ok();
        let plan = match envelope.as_ref().and_then(Envelope::model) {
            Some(model) => Plan::of(&self.snapshot, caller, model, Api::Other)?,
            None => Plan::relay(&self.snapshot, caller)?,
        };
        settlement.route(&plan.route.id);
        let answer = attempt::relay(self, envelope.as_ref(), bytes, &plan, settlement).await?;
        Ok(Self::reply(answer, settlement))
    }

    /// The dialect of a client on a path that several share: only Anthropic's name a version.
    fn speaks(&self) -> Dialect {
        if self.head.headers.contains_key(headers::ANTHROPIC_VERSION) {
            Dialect::Anthropic
        } else {
            Dialect::Openai
        }
    }

    fn list_models(&self, caller: &Caller, settlement: &mut Settlement) -> Reply {
        let allowed: Vec<_> = self
            .snapshot
            .models()
            .iter()
            .filter(|m| caller.may_use(m.id()))
            .cloned()
            .collect();
        Self::json(models::list(&allowed, self.speaks()), settlement)
    }

    fn describe_model(
        &self,
        caller: &Caller,
        name: &str,
        settlement: &mut Settlement,
    ) -> Result<Reply, Rejection> {
        let known = self
            .snapshot
            .models()
            .iter()
            .find(|m| m.id() == name && caller.may_use(name));
        match known {
            Some(model) => Ok(Self::json(model.json(self.speaks()), settlement)),
            None => Err(Rejection::UnknownModel {
                model: name.to_owned(),
                nearest: Vec::new(),
            }),
        }
    }

    fn json(bytes: Vec<u8>, settlement: &mut Settlement) -> Reply {
        settlement.relayed(bytes.len());
        settlement.finish(200, End::Ok, None);
        let mut response = Response::new(Body::from(Bytes::from(bytes)));
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        Reply::Whole(response)
    }
}

/// The form of API as the codecs know it; `None` for paths that are relayed unread.
const fn provider_api(api: Api) -> Option<provider::Api> {
    match api {
        Api::Chat => Some(provider::Api::Chat),
        Api::Completions => Some(provider::Api::Completions),
        Api::CountTokens => Some(provider::Api::CountTokens),
        Api::Embeddings => Some(provider::Api::Embeddings),
        Api::Messages => Some(provider::Api::Messages),
        Api::Responses => Some(provider::Api::Responses),
        Api::Other => None,
    }
}

fn invalid_body(error: whippletree_providers::envelope::InvalidEnvelope) -> Rejection {
    Rejection::InvalidBody {
        reason: format!("the request body is refused: {error}"),
        param: None,
    }
}
