//! From the first frame to the answer to `open` ("Authentication"), both ends of it.

use super::*;

impl Connection {
    /// A frame before the connection is open.
    pub(super) fn opening<'i>(&mut self, now: Now, frame: Frame<'i>, body: &[u8]) -> Outcome<'i> {
        match (self.state, frame) {
            (_, Frame::Heartbeat) => Ok(Step::Again),
            (_, Frame::Request { correlation_id, request }) if self.role == Role::Server => {
                self.state = self.asked(&request).ok_or_else(|| unexpected(body))?;
                Ok(Step::Event(Event::Request { correlation_id, request }))
            }
            (State::AwaitTune, Frame::Tune(answer)) => {
                let frame_max = self.lesser(answer.frame_max, self.limits.frame_max);
                let tune = Tune { frame_max, heartbeat_s: answer.heartbeat_s };
                self.settle(now, tune);
                self.state = State::AwaitOpen;
                Ok(Step::Event(Event::Tune(tune)))
            }
            (State::Asking, Frame::Tune(proposed)) => {
                self.state = State::Tuning;
                Ok(Step::Event(Event::Tune(proposed)))
            }
            (State::Asking | State::AwaitOpened, Frame::Response { correlation_id, response }) => {
                if response.key() == Key::Open && response.code().is_ok() {
                    self.run();
                }
                Ok(self.answered(correlation_id, response))
            }
            // A server may send a client away at any time.
            (
                State::Asking | State::AwaitOpened,
                Frame::Request { correlation_id, request: request @ Request::Close { .. } },
            ) => {
                self.state = State::ClosedByPeer;
                Ok(Step::Event(Event::Request { correlation_id, request }))
            }
            _ => Err(unexpected(body)),
        }
    }

    /// Server: where a client's request leads to; `None`: it is out of place.
    fn asked(&self, request: &Request<'_>) -> Option<State> {
        Some(match (self.state, request) {
            (State::Introducing | State::Introduced, Request::PeerProperties { .. }) => State::Introduced,
            (State::Introduced | State::AwaitAuthenticate, Request::SaslHandshake) => {
                State::AwaitAuthenticate
            }
            (State::AwaitAuthenticate, Request::SaslAuthenticate { .. }) => State::Authenticating,
            (State::AwaitOpen, Request::Open { .. }) => State::Opening,
            _ => return None,
        })
    }

    /// The lesser of two bounds, of which 0 is none; never more than one of our own.
    pub(super) fn lesser(&self, theirs: u32, ours: u32) -> u32 {
        if theirs == 0 { ours } else { theirs.min(ours) }
    }

    /// Both ends keep to `tune`; a server takes larger frames only when the connection is open.
    pub(super) fn settle(&mut self, now: Now, tune: Tune) {
        self.frame_max = tune.frame_max;
        self.heartbeat.start(now, tune.heartbeat_s);
    }

    pub(super) fn run(&mut self) {
        self.state = State::Running;
        self.deadline_ns = u64::MAX;
        if self.role == Role::Server {
            self.size_max = self.frame_max;
        }
    }
}
