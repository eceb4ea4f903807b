//! Objects that must be there before a load runs: queues, an exchange, bindings. Over one blocking AMQP 0-9-1
//! connection, which every broker we aim at speaks.

use crate::load::connect;
use crate::options::{Argument, Protocol, QueueType};
use crate::stream::Stream;
use crate::uri::Uri;
use crate::wire::amqp091::{limits, log_in};
use crate::wire::unexpected;
use amqp091::frame::FRAME_MIN_SIZE;
use amqp091::method::{ExchangeDeclare, ExchangeDelete, QueueBind, QueueDeclare, QueueDelete, QueuePurge};
use amqp091::{Connection, Event, Input, Method, MethodId, ReplyCode, Tune};
use base::Now;
use message::amqp091::{Table, TableWriter, Value};
use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

const CHANNEL: u16 = 1;

/// Requests on their way at a time.
const PIPELINE: usize = 100;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes read at a time.
const READ: usize = 256 << 10;

/// A connection with one channel for requests.
#[derive(Debug)]
pub struct Control {
    connection: Connection,
    stream: Stream<TcpStream>,
    start: Instant,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that are not parsed yet.
    filled: usize,
}

/// The event that [`Control::wait`] waits for.
enum Awaited<'a> {
    Channel(&'a Uri),
    /// So many answers.
    Answers(usize),
    Close,
}

impl Control {
    /// Connects and logs in.
    ///
    /// # Errors
    /// In words for people.
    pub fn open(uri: &Uri) -> Result<Control, String> {
        let socket = connect(uri)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        let stream = Stream::new(socket, uri, Protocol::Amqp091)?;
        let mut control = Control {
            connection: Connection::client(limits(0), Now::default()),
            stream,
            start: Instant::now(),
            buffer: vec![0; READ],
            filled: 0,
        };
        control.wait(&Awaited::Channel(uri))?;
        Ok(control)
    }

    /// Makes durable queues with further arguments.
    ///
    /// # Errors
    /// In words for people.
    pub fn declare_queues(
        &mut self,
        names: &[String],
        queue_type: QueueType,
        further: &[(String, Argument)],
    ) -> Result<(), String> {
        let arguments = TableWriter::fields(|table| {
            table.put(b"x-queue-type", Value::Text(queue_type.name().as_bytes()));
            for (key, value) in further {
                let value = match value {
                    Argument::Number(number) => Value::I64(*number),
                    Argument::Bool(bool) => Value::Bool(*bool),
                    Argument::Text(text) => Value::Text(text.as_bytes()),
                };
                table.put(key.as_bytes(), value);
            }
        });
        let arguments = Table::new(&arguments).unwrap_or_default();
        self.each(names, |connection, name| {
            let queue = name.as_bytes();
            let declare = QueueDeclare { queue, durable: true, arguments, ..QueueDeclare::default() };
            connection.send(CHANNEL, &declare);
        })?;
        Ok(())
    }

    /// Removes queues; those that are not there are no error.
    ///
    /// # Errors
    /// In words for people.
    pub fn delete_queues(&mut self, names: &[String]) -> Result<(), String> {
        self.each(names, |connection, name| {
            connection.send(CHANNEL, &QueueDelete { queue: name.as_bytes(), ..QueueDelete::default() });
        })?;
        Ok(())
    }

    /// Empties queues.
    ///
    /// # Errors
    /// In words for people.
    pub fn purge_queues(&mut self, names: &[String]) -> Result<(), String> {
        self.each(names, |connection, name| {
            connection.send(CHANNEL, &QueuePurge { queue: name.as_bytes(), ..QueuePurge::default() });
        })?;
        Ok(())
    }

    /// Makes a durable exchange of a type.
    ///
    /// # Errors
    /// In words for people.
    pub fn declare_exchange(&mut self, name: &str, kind: &str) -> Result<(), String> {
        self.each(&[name.to_owned()], |connection, name| {
            let (exchange, kind) = (name.as_bytes(), kind.as_bytes());
            let declare = ExchangeDeclare { exchange, kind, durable: true, ..ExchangeDeclare::default() };
            connection.send(CHANNEL, &declare);
        })?;
        Ok(())
    }

    /// Removes an exchange.
    ///
    /// # Errors
    /// In words for people.
    pub fn delete_exchange(&mut self, name: &str) -> Result<(), String> {
        self.each(&[name.to_owned()], |connection, name| {
            connection
                .send(CHANNEL, &ExchangeDelete { exchange: name.as_bytes(), ..ExchangeDelete::default() });
        })?;
        Ok(())
    }

    /// Binds queues to `exchange`.
    ///
    /// # Errors
    /// In words for people.
    pub fn bind_queues(&mut self, names: &[String], exchange: &str) -> Result<(), String> {
        self.each(names, |connection, name| {
            let (queue, exchange) = (name.as_bytes(), exchange.as_bytes());
            connection.send(CHANNEL, &QueueBind { queue, exchange, ..QueueBind::default() });
        })?;
        Ok(())
    }

    /// Binds a queue to `exchange` by each of these keys, with the fields of arguments that stand beside it.
    ///
    /// # Errors
    /// In words for people.
    pub fn bind_by(&mut self, queue: &str, exchange: &str, by: &[(String, Vec<u8>)]) -> Result<(), String> {
        let (queue, exchange) = (queue.as_bytes(), exchange.as_bytes());
        for by in by.chunks(PIPELINE) {
            for (key, arguments) in by {
                let (routing_key, arguments) = (key.as_bytes(), Table::new(arguments).unwrap_or_default());
                let bind = QueueBind { queue, exchange, routing_key, arguments, ..QueueBind::default() };
                self.connection.send(CHANNEL, &bind);
            }
            self.wait(&Awaited::Answers(by.len()))?;
        }
        Ok(())
    }

    /// Messages that are ready in all of the queues together.
    ///
    /// # Errors
    /// In words for people.
    pub fn message_count(&mut self, names: &[String]) -> Result<u64, String> {
        self.each(names, |connection, name| {
            let queue = name.as_bytes();
            connection.send(CHANNEL, &QueueDeclare { queue, passive: true, ..QueueDeclare::default() });
        })
    }

    /// Says good-bye.
    pub fn close(mut self) {
        let now = self.now();
        let text = "REPLY_SUCCESS - done";
        self.connection.close_connection(now, ReplyCode::Success, text, MethodId::NONE);
        // The work is done: an error now changes nothing.
        let _ = self.wait(&Awaited::Close);
    }

    fn now(&self) -> Now {
        Now { mono_ns: self.start.elapsed().as_nanos() as u64, wall_ms: 0 }
    }

    /// Sends a request for each name and waits for all answers; returns the sum of the message counts in them.
    fn each(&mut self, names: &[String], mut send: impl FnMut(&mut Connection, &str)) -> Result<u64, String> {
        let mut sum = 0;
        for names in names.chunks(PIPELINE) {
            names.iter().for_each(|name| send(&mut self.connection, name));
            sum += self.wait(&Awaited::Answers(names.len()))?;
        }
        Ok(sum)
    }

    /// Writes the output, then reads until the awaited event; returns the sum of the message counts in answers.
    fn wait(&mut self, awaited: &Awaited<'_>) -> Result<u64, String> {
        let (mut answers, mut sum) = (0, 0);
        loop {
            let now = self.now();
            let mut input = Input::new(&self.buffer[..self.filled]);
            let mut is_over = false;
            while let Some(polled) = self.connection.poll_event(now, &mut input) {
                let gathered;
                let event = match polled {
                    Event::Gathered(whole) => {
                        gathered = whole;
                        gathered.event()
                    }
                    other => other,
                };
                match (event, awaited) {
                    (Event::Start(_), Awaited::Channel(uri)) => log_in(&mut self.connection, uri),
                    (Event::Tune(proposed), Awaited::Channel(uri)) => {
                        // No heartbeats: nobody would send them while the load runs.
                        let tune = Tune { heartbeat_s: 0, frame_max: FRAME_MIN_SIZE, ..proposed };
                        self.connection.tune_ok(now, tune);
                        self.connection.open(uri.vhost.as_bytes());
                    }
                    (Event::OpenOk, _) => self.connection.channel_open(CHANNEL),
                    (Event::ChannelOpenOk { .. }, _) => is_over = true,
                    (Event::Method { method, .. }, Awaited::Answers(count)) => {
                        answers += 1;
                        is_over = answers == *count;
                        if let Method::QueueDeclareOk(declared) = method {
                            sum += u64::from(declared.message_count);
                        }
                    }
                    (Event::ChannelClose { close, .. }, _) => {
                        return Err(said(close.reply_code, close.reply_text));
                    }
                    (Event::Close(close), _) => return Err(said(close.reply_code, close.reply_text)),
                    (Event::Closed, _) => return Ok(sum),
                    (Event::Failed(error) | Event::ChannelFailed { error, .. }, _) => {
                        return Err(error.to_string());
                    }
                    (other, _) => return Err(unexpected(&other)),
                }
            }
            let consumed = input.consumed();
            self.buffer.copy_within(consumed..self.filled, 0);
            self.filled -= consumed;
            crate::end::flush(self.connection.output_mut(), &mut self.stream)
                .map_err(|error| format!("the connection broke: {error}"))?;
            if is_over {
                return Ok(sum);
            }
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Ok(0) => return Err("the broker closed the connection".to_owned()),
                Ok(count) => self.filled += count,
                Err(error) => return Err(format!("the broker did not answer: {error}")),
            }
        }
    }
}

fn said(code: u16, text: &[u8]) -> String {
    format!("the broker said: {code} {}", String::from_utf8_lossy(text))
}
