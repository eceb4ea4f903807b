//! From the protocol header to `open-ok` (AMQP 0-9-1 §2.2.4), both ends of it.

use super::refusal::{Refusal, decode};
use super::*;
use crate::method::ConnectionTuneOk;

impl Connection {
    /// Server: the first eight bytes.
    pub(super) fn protocol_header<'i>(&mut self, input: &mut Input<'i>) -> Outcome<'i> {
        let Some(header) = input.rest().first_chunk::<8>() else {
            self.wanted = 8;
            return Ok(Step::Empty);
        };
        input.consume(8);
        let answer = match frame::detect(header) {
            Detected::Amqp091 => {
                self.state = State::Starting;
                return Ok(Step::Event(Event::ProtocolHeader));
            }
            Detected::Amqp10 | Detected::Amqp10Sasl => frame::PROTOCOL_HEADER,
            Detected::Unknown(answer) => answer,
        };
        self.output.extend(&answer);
        self.end();
        Ok(Step::Event(Event::Failed(Error::WrongHeader(*header))))
    }

    /// A method on channel 0.
    pub(super) fn method_0<'i>(&mut self, now: Now, id: MethodId, arguments: &'i [u8]) -> Outcome<'i> {
        if self.state == State::Running {
            return self.method_0_running(id, arguments);
        }
        match (self.state, decode(id, arguments)?) {
            (State::AwaitStartOk, Method::ConnectionStartOk(start_ok)) => {
                self.state = State::Authenticating;
                Ok(Step::Event(Event::StartOk(start_ok)))
            }
            (State::AwaitSecureOk, Method::ConnectionSecureOk(secure_ok)) => {
                self.state = State::Authenticating;
                Ok(Step::Event(Event::SecureOk(secure_ok)))
            }
            (State::AwaitTuneOk, Method::ConnectionTuneOk(tune_ok)) => self.tuned(now, tune_ok),
            (State::AwaitOpen, Method::ConnectionOpen(open)) => {
                self.state = State::Opening;
                Ok(Step::Event(Event::Open(open)))
            }
            (State::AwaitStart, Method::ConnectionStart(start)) => {
                self.state = State::Answering;
                Ok(Step::Event(Event::Start(start)))
            }
            (State::AwaitTune, Method::ConnectionSecure(secure)) => {
                self.state = State::Answering;
                Ok(Step::Event(Event::Secure(secure)))
            }
            (State::AwaitTune, Method::ConnectionTune(tune)) => {
                self.state = State::Answering;
                Ok(Step::Event(Event::Tune(Tune {
                    channel_max: tune.channel_max,
                    frame_max: tune.frame_max,
                    heartbeat_s: tune.heartbeat,
                })))
            }
            (State::AwaitOpenOk, Method::ConnectionOpenOk(_)) => {
                self.run();
                Ok(Step::Event(Event::OpenOk))
            }
            // A client may leave once it has logged in; a server may send a client away at any time.
            (State::AwaitOpen | State::AwaitTune | State::AwaitOpenOk, Method::ConnectionClose(close)) => {
                Ok(self.closed_by_peer(close))
            }
            _ => Err(self.unexpected_method(id)),
        }
    }

    /// Server: the client may settle for less than was proposed, not for more, and not for frames that some peers
    /// could not take.
    fn tuned<'i>(&mut self, now: Now, tune_ok: ConnectionTuneOk) -> Outcome<'i> {
        let id = <ConnectionTuneOk as Arguments<'_>>::ID;
        let check_max = |name, value: u32, most: u32| {
            // 0 is no bound: more than any.
            if most != 0 && (value == 0 || value > most) {
                let text =
                    format!("negotiated {name} = {value} is higher than the maximum allowed value ({most})");
                return Err(Refusal::new(ReplyCode::NotAllowed, text, id));
            }
            Ok(())
        };
        check_max("channel_max", tune_ok.channel_max.into(), self.limits.channel_max.into())?;
        check_max("frame_max", tune_ok.frame_max, self.limits.frame_max)?;
        if tune_ok.frame_max < frame::FRAME_MIN_SIZE {
            let text = format!(
                "negotiated frame_max = {} is lower than the minimum allowed value ({})",
                tune_ok.frame_max,
                frame::FRAME_MIN_SIZE
            );
            return Err(Refusal::new(ReplyCode::NotAllowed, text, id));
        }
        let tune = Tune {
            channel_max: tune_ok.channel_max,
            frame_max: tune_ok.frame_max,
            heartbeat_s: tune_ok.heartbeat,
        };
        self.settle(now, tune);
        self.state = State::AwaitOpen;
        Ok(Step::Event(Event::TuneOk(tune)))
    }

    /// Both ends keep to `tune` from here on.
    pub(super) fn settle(&mut self, now: Now, tune: Tune) {
        self.channel_max = tune.channel_max;
        self.frame_max = tune.frame_max;
        // RabbitMQ takes payloads of as many bytes as a whole frame may have.
        self.size_max = tune.frame_max;
        self.heartbeat.start(now, tune.heartbeat_s.into());
    }

    pub(super) fn run(&mut self) {
        self.state = State::Running;
        self.deadline_ns = u64::MAX;
    }
}
