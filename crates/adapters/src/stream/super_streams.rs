//! Super streams are made and deleted: an exchange, its partitions, and the bindings between them.
//!
//! Step by step, each step all at once. When one fails, what was made is deleted before the client hears of it.

use super::Adapter;
use super::creating::{code_of, correct_name, declaration};
use super::requests::Wish;
use super::topology::PARTITION_ORDER;
use crate::connection::{Context, Gravity};
use ::stream_protocol::{Key, List, Pair, ResponseCode};
use broker::Reply;
use broker::access::Access;
use broker::catalog::{Op, QueueDefinition, Refusal};
use routing::{Arguments, Value};
use std::sync::Arc;

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Exchange,
    Partitions,
    Bindings,
    /// What was made is deleted again.
    Back,
}

/// A super stream that is being made.
#[derive(Debug)]
pub(super) struct Making {
    name: Box<str>,
    /// Partitions and their keys, in order.
    partitions: Vec<(Box<str>, Box<str>)>,
    arguments: Arguments,
    step: Step,
    /// Streams that were made for it.
    made: Vec<Arc<QueueDefinition>>,
    /// What went wrong first.
    failed: Option<ResponseCode>,
}

impl Making {
    pub(super) fn heard(&mut self, reply: Result<Reply, Refusal>) {
        match reply {
            // Somebody else made it meanwhile, and it is theirs.
            Ok(Reply::Unchanged) if self.step == Step::Exchange => {
                self.failed = Some(ResponseCode::STREAM_ALREADY_EXISTS);
            }
            Ok(Reply::Declared { is_new: false, .. }) => {
                self.failed.get_or_insert(ResponseCode::STREAM_ALREADY_EXISTS);
            }
            Ok(Reply::Declared { queue, .. }) => self.made.push(queue),
            Err(refusal) if self.step != Step::Back => {
                self.failed.get_or_insert(code_of(&refusal));
            }
            Ok(_) | Err(_) => {}
        }
    }
}

/// A super stream as a client asks for it: name, partitions, keys, arguments.
pub(super) type Wanted<'w, 'a> =
    (&'a [u8], &'w List<'a, &'a [u8]>, &'w List<'a, &'a [u8]>, &'w List<'a, Pair<'a>>);

impl Adapter {
    /// Whether the client may make and delete a super stream with these partitions.
    fn may_manage(&self, context: &Context<'_>, name: &[u8], partitions: &[Box<str>]) -> bool {
        let all = |access| partitions.iter().all(|name| self.may(context, access, name.as_bytes()));
        self.may_exchange(context, Access::Configure, name)
            && all(Access::Configure)
            && self.may_exchange(context, Access::Read, name)
            && all(Access::Write)
    }

    /// Begins to make a super stream. RabbitMQ's rules, in its order.
    pub(super) fn make_super_stream(
        &mut self,
        context: &mut Context<'_>,
        correlation_id: u32,
        (name, partitions, keys, arguments): Wanted<'_, '_>,
    ) -> Result<(), ResponseCode> {
        let unfit = ResponseCode::PRECONDITION_FAILED;
        let name = correct_name(name).ok_or(unfit)?;
        let most = context.settings.stream.partitions_max;
        let is_too_long = most.is_some_and(|most| partitions.len() > most as usize);
        // What has too many is looked at no further.
        let named = |name: &[u8]| String::from_utf8(name.to_vec()).map(String::into_boxed_str);
        let given: Result<Vec<Box<str>>, _> = match is_too_long {
            true => Ok(Vec::new()),
            false => partitions.iter().map(named).collect(),
        };
        let given = given.map_err(|_| unfit)?;
        if !self.may_manage(context, name.as_bytes(), &given) {
            return Err(ResponseCode::ACCESS_REFUSED);
        }
        if is_too_long || partitions.len() != keys.len() {
            return Err(unfit);
        }
        let mut sorted: Vec<&str> = given.iter().map(|name| &**name).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let is_single = sorted.len() == given.len();
        let fit: Option<Vec<Box<str>>> = given.iter().map(|name| correct_name(name.as_bytes())).collect();
        let fit = fit.filter(|_| is_single).ok_or(unfit)?;
        let catalog = context.shard.catalog();
        let vhost = self.actor.as_ref().ok_or(unfit)?.vhost;
        if catalog.exchange(vhost, name.as_bytes()).is_some()
            || fit.iter().any(|name| catalog.queue_by_name(vhost, name.as_bytes()).is_some())
        {
            return Err(ResponseCode::STREAM_ALREADY_EXISTS);
        }
        let mut arguments = declaration(arguments).ok_or(unfit)?;
        if arguments.get(b"x-queue-leader-locator").is_none() {
            arguments.insert(b"x-queue-leader-locator", Value::text("balanced"));
        }
        let keys: Result<Vec<Box<str>>, _> = keys.iter().map(named).collect();
        let partitions = fit.into_iter().zip(keys.map_err(|_| unfit)?).collect();
        let op = Op::DeclareExchange {
            name: name.clone(),
            kind: "direct".into(),
            passive: false,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: [(&b"x-super-stream"[..], Value::Bool(true))].into_iter().collect(),
        };
        let (made, failed) = (Vec::new(), None);
        let making = Making { name, partitions, arguments, step: Step::Exchange, made, failed };
        let token = self.wait(correlation_id, 1, Wish::MakeSuperStream(Box::new(making)));
        self.plan(context, token, op);
        Ok(())
    }

    /// A step is done.
    pub(super) fn go_on_making(&mut self, context: &mut Context<'_>) {
        let Some(making) = self.making() else { return };
        let next = match (making.step, making.failed) {
            (Step::Exchange, None) => Step::Partitions,
            (Step::Partitions, None) => Step::Bindings,
            (Step::Bindings, None) => return self.finish(Key::CreateSuperStream, ResponseCode::OK),
            // Where the exchange was not made here nothing was.
            (Step::Exchange | Step::Back, Some(code)) => return self.finish(Key::CreateSuperStream, code),
            (_, _) => Step::Back,
        };
        making.step = next;
        let (name, made) = (making.name.clone(), std::mem::take(&mut making.made));
        let ops: Vec<Op> = match next {
            Step::Partitions => {
                let (arguments, names) = (making.arguments.clone(), making.partitions.clone());
                let declare = |(partition, _)| self.declare(context, partition, arguments.clone());
                names.into_iter().map(declare).collect()
            }
            Step::Bindings => {
                let bind = |(order, (partition, key)): (usize, &(Box<str>, Box<str>))| Op::BindQueue {
                    queue: partition.clone(),
                    exchange: name.clone(),
                    key: key.clone(),
                    arguments: [(PARTITION_ORDER, Value::long(order as i64))].into_iter().collect(),
                };
                let ops = making.partitions.iter().enumerate().map(bind).collect();
                making.made = made.clone();
                ops
            }
            Step::Exchange | Step::Back => vec![Op::DeleteExchange { name: name.clone(), if_unused: false }],
        };
        let back: &[Arc<QueueDefinition>] = if next == Step::Back { &made } else { &[] };
        let wanted = ops.len() + back.len();
        if wanted == 0 {
            // A super stream may have no partitions.
            return self.go_on_making(context);
        }
        let mut token = self.wait_on(wanted as u32);
        for op in ops {
            self.plan(context, token, op);
            token = token.wrapping_add(1);
        }
        for stream in back {
            self.delete(context, token, stream);
            token = token.wrapping_add(1);
        }
        if next == Step::Back {
            let text = format!("super stream '{name}' could not be made and is taken back");
            self.note(context, Gravity::Warning, text);
        }
    }

    /// Deletes a super stream with its partitions.
    pub(super) fn delete_super_stream(
        &mut self,
        context: &mut Context<'_>,
        correlation_id: u32,
        name: &[u8],
    ) -> Result<(), ResponseCode> {
        if !self.may_exchange(context, Access::Configure, name) {
            return Err(ResponseCode::ACCESS_REFUSED);
        }
        let streams = self.partitions_of(context, name).ok_or(ResponseCode::STREAM_DOES_NOT_EXIST)?;
        let names: Vec<Box<str>> = streams.iter().map(|stream| stream.name.clone()).collect();
        if !self.may_manage(context, name, &names) {
            return Err(ResponseCode::ACCESS_REFUSED);
        }
        let Ok(name) = str::from_utf8(name) else { return Err(ResponseCode::STREAM_DOES_NOT_EXIST) };
        let mut token = self.wait(correlation_id, 1 + streams.len() as u32, Wish::DeleteSuperStream);
        self.plan(context, token, Op::DeleteExchange { name: name.into(), if_unused: false });
        for stream in &streams {
            token = token.wrapping_add(1);
            self.delete(context, token, stream);
        }
        Ok(())
    }
}
