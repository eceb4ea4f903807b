//! Super streams are made and deleted: an exchange, its partitions, and the bindings between them.
//!
//! One is made whole or not at all, which is the catalog's work; its parts are deleted one by one, all at once.

use super::Adapter;
use super::creating::{correct_name, declaration};
use super::partitions::partitions_of;
use super::pending::BrokerRequest;
use crate::context::Context;
use ::stream_protocol::{List, Pair, ResponseCode};
use broker::access::Access;
use broker::catalog::{Op, QueueDefinition};
use routing::Value;
use std::sync::Arc;

/// A super stream as a client asks for it: name, partitions, keys, arguments.
pub(super) type Wanted<'w, 'a> =
    (&'a [u8], &'w List<'a, &'a [u8]>, &'w List<'a, &'a [u8]>, &'w List<'a, Pair<'a>>);

impl Adapter {
    /// Whether the client may make and delete a super stream with these partitions.
    fn may_manage(&self, context: &Context<'_>, name: &[u8], partitions: &[Box<str>]) -> bool {
        let all = |access| partitions.iter().all(|name| self.rights.may(context, access, name.as_bytes()));
        self.rights.may_exchange(context, Access::Configure, name)
            && all(Access::Configure)
            && self.rights.may_exchange(context, Access::Read, name)
            && all(Access::Write)
    }

    /// Makes a super stream. RabbitMQ's rules, in its order.
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
        // A super stream with too many partitions is looked at no further.
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
        let vhost = self.rights.actor().ok_or(unfit)?.vhost;
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
        let token = self.requests.wait(correlation_id, 1, BrokerRequest::MakeSuperStream);
        self.plan(context, token, Op::MakeSuperStream { name, partitions, arguments });
        Ok(())
    }

    /// Deletes a super stream with its partitions.
    pub(super) fn delete_super_stream(
        &mut self,
        context: &mut Context<'_>,
        correlation_id: u32,
        name: &[u8],
    ) -> Result<(), ResponseCode> {
        if !self.rights.may_exchange(context, Access::Configure, name) {
            return Err(ResponseCode::ACCESS_REFUSED);
        }
        let streams = partitions_of(context, &self.rights, name).map(|streams| streams.cloned().collect());
        let streams: Vec<Arc<QueueDefinition>> = streams.ok_or(ResponseCode::STREAM_DOES_NOT_EXIST)?;
        let names: Vec<Box<str>> = streams.iter().map(|stream| stream.name.clone()).collect();
        if !self.may_manage(context, name, &names) {
            return Err(ResponseCode::ACCESS_REFUSED);
        }
        let Ok(name) = str::from_utf8(name) else { return Err(ResponseCode::STREAM_DOES_NOT_EXIST) };
        let mut token =
            self.requests.wait(correlation_id, 1 + streams.len() as u32, BrokerRequest::DeleteSuperStream);
        self.plan(context, token, Op::DeleteExchange { name: name.into(), if_unused: false });
        for stream in &streams {
            token = token.wrapping_add(1);
            self.delete(context, token, stream);
        }
        Ok(())
    }
}
