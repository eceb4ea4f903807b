//! Macros of the filter language: parameters of a virtual host, of the component [`FILTER_MACRO`].
//!
//! Expressions of bindings and queues are read when a change is applied, with the macros that there are then, and again
//! at a start. So that they mean the same for as long as they are there, a macro that is used is neither changed nor
//! cleared. Users are counted as changes are applied, by the texts alone ([`filter::calls`]): a request costs no
//! search. A consumer has its program, which needs no macro any more, and is no user.
//!
//! Applying refuses nothing. A value that is no macro, kept by a version that knew of none, is a parameter like others.

use super::source_arguments::FILTER;
use super::wire::LIMITS;
use super::{Catalog, Destination, Object, QueueDefinition, Reason, Refusal, Vhost, VhostId};
use crate::ranking::{BARRIER, RANKING};
use base::id::QueueId;
use filter::{Macro, Macros, folded};
use routing::{Argument, ExchangeId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// The component whose parameters are macros.
pub const FILTER_MACRO: &str = "filter-macro";

/// The arguments of a queue that are expressions.
const EXPRESSIONS: [&str; 3] = [RANKING, BARRIER, FILTER];

/// A user of a macro.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum User {
    /// A binding between these two.
    Binding(ExchangeId, Destination),
    /// A queue, by one of its arguments.
    Queue(QueueId),
    /// Another macro, by its folded name.
    Macro(Box<str>),
    /// A user in the catalog that a rehearsal stands for, as error texts name it.
    Elsewhere(Box<str>),
}

/// The users of each macro, by its folded name, with how often each uses it; names that are no macro's too.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses(BTreeMap<Box<str>, BTreeMap<User, u32>>);

impl Uses {
    pub(super) fn add<'a>(&mut self, names: impl IntoIterator<Item = &'a Box<str>>, user: &User) {
        for name in names {
            *self.0.entry(name.clone()).or_default().entry(user.clone()).or_default() += 1;
        }
    }

    pub(super) fn remove<'a>(&mut self, names: impl IntoIterator<Item = &'a Box<str>>, user: &User) {
        for name in names {
            let Some(users) = self.0.get_mut(name) else { continue };
            if let Some(count) = users.get_mut(user) {
                *count -= 1;
                if *count == 0 {
                    users.remove(user);
                }
            }
            if users.is_empty() {
                self.0.remove(name);
            }
        }
    }

    /// A user is gone, whatever it used.
    fn remove_user(&mut self, user: &User) {
        self.0.retain(|_, users| {
            users.remove(user);
            !users.is_empty()
        });
    }

    /// All bindings from an exchange are gone.
    fn remove_from(&mut self, source: ExchangeId) {
        let first = User::Binding(source, Destination::Queue(QueueId(0)));
        let is_from = |user: &&User| matches!(user, User::Binding(own, _) if *own == source);
        self.0.retain(|_, users| {
            let gone: Vec<User> =
                users.range(&first..).map(|(user, _)| user).take_while(is_from).cloned().collect();
            gone.iter().for_each(|user| _ = users.remove(user));
            !users.is_empty()
        });
    }

    /// One of the users of a macro.
    fn of(&self, name: &str) -> Option<&User> {
        self.0.get(name)?.keys().next()
    }

    /// Bytes of memory, near enough.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.iter().map(|(name, users)| name.len() + users.len() * size_of::<(User, u32)>()).sum()
    }
}

impl Vhost {
    /// A parameter that is a macro has another value than `before`, or is gone.
    pub(super) fn macro_changed(&mut self, name: &str, before: Option<&str>, value: Option<&str>) {
        let user = User::Macro(folded(name));
        if let Some(own) = before.and_then(|before| Macro::read(name, before).ok()) {
            self.macro_uses.remove(&own.uses(), &user);
            self.macros.clear(name);
        }
        if let Some(own) = value.and_then(|value| Macro::read(name, value).ok()) {
            self.macro_uses.add(&own.uses(), &user);
            self.macros.set(own);
        }
    }

    /// A binding that uses these macros is there.
    pub(super) fn binding_came(&mut self, source: ExchangeId, destination: Destination, names: &[Box<str>]) {
        self.macro_uses.add(names, &User::Binding(source, destination));
    }

    /// The reverse.
    pub(super) fn binding_went(&mut self, source: ExchangeId, destination: Destination, names: &[Box<str>]) {
        self.macro_uses.remove(names, &User::Binding(source, destination));
    }

    /// An exchange is gone, with all bindings from it.
    pub(super) fn bindings_went(&mut self, source: ExchangeId) {
        self.macro_uses.remove_from(source);
    }

    /// A queue is there.
    pub(super) fn queue_came(&mut self, queue: &QueueDefinition) {
        self.macro_uses.add(&names_of(queue), &User::Queue(queue.id));
    }

    /// The reverse.
    pub(super) fn queue_went(&mut self, queue: QueueId) {
        self.macro_uses.remove_user(&User::Queue(queue));
    }
}

/// The macros that the arguments of a queue use.
fn names_of(queue: &QueueDefinition) -> BTreeSet<Box<str>> {
    let texts = EXPRESSIONS.iter().filter_map(|name| match queue.arguments.get(name.as_bytes())? {
        Argument::Text(text) => str::from_utf8(text).ok(),
        _ => None,
    });
    texts.flat_map(filter::calls).collect()
}

impl Catalog {
    /// The macros of a virtual host.
    pub fn macros(&self, vhost: VhostId) -> &Macros {
        self.host(vhost).map_or(Macros::none(), |host| &host.macros)
    }

    /// Whether a parameter that is a macro may have this value instead of that, or be cleared.
    ///
    /// # Errors
    /// It is used; it is none, or cannot be read; there is one of its name in another case; there are too many.
    pub(super) fn check_macro(
        &self,
        vhost: VhostId,
        name: &str,
        before: Option<&str>,
        value: Option<&str>,
    ) -> Result<(), Refusal> {
        let Some(host) = self.host(vhost) else { return Ok(()) };
        let invalid = |why: String| {
            let text = format!("Validation failed\n\nmacro '{name}': {why}\n");
            Refusal::precondition(Reason::Invalid(Object::Macro), text)
        };
        let own = value.map(|value| Macro::read(name, value)).transpose();
        let own = own.map_err(|fault| invalid(fault.to_string()))?;
        if own.is_some() && own == before.and_then(|before| Macro::read(name, before).ok()) {
            return Ok(());
        }
        if let Some(other) = host.macros.get(name)
            && other.name() != name
        {
            let text = format!("{} is there already", self.macro_named(vhost, other.name()));
            return Err(Refusal::precondition(Reason::Exists(Object::Macro), text));
        }
        if let Some(user) = host.macro_uses.of(&folded(name)) {
            let text = format!("{} is used by {}", self.macro_named(vhost, name), self.described(host, user));
            return Err(Refusal::precondition(Reason::InUse(Object::Macro), text));
        }
        let Some(own) = own else { return Ok(()) };
        let is_new = host.macros.get(name).is_none();
        if is_new && host.macros.len() >= LIMITS.macros_max {
            let most = LIMITS.macros_max;
            let text = format!("vhost '{}' has as many macros as it may: {most}", host.definition.name);
            return Err(Refusal::precondition(Reason::LimitReached(Object::Macro), text));
        }
        // One cannot use itself, in whatever it was before.
        let mut others = host.macros.clone();
        others.clear(name);
        own.check(&others).map_err(|fault| invalid(fault.to_string()))
    }

    fn macro_named(&self, vhost: VhostId, name: &str) -> String {
        format!("macro '{name}' in vhost '{}'", self.vhost_name(vhost))
    }

    /// A user as error texts have it.
    fn described(&self, host: &Vhost, user: &User) -> String {
        let exchange = |id: &ExchangeId| {
            let name = self.exchange_by_id(*id).map(|entry| &*entry.definition.name);
            format!("exchange '{}'", name.unwrap_or_default())
        };
        let queue = |id: &QueueId| format!("queue '{}'", self.queue(*id).map_or("", |queue| &queue.name));
        match user {
            User::Binding(source, Destination::Queue(id)) => {
                format!("a binding from {} to {}", exchange(source), queue(id))
            }
            User::Binding(source, Destination::Exchange(id)) => {
                format!("a binding from {} to {}", exchange(source), exchange(id))
            }
            User::Queue(id) => queue(id),
            User::Macro(name) => {
                let own = host.macros.get(name);
                format!("macro '{}'", own.map_or(&**name, |own| own.name()))
            }
            User::Elsewhere(text) => text.to_string(),
        }
    }

    /// The macros that bindings and queues use, each with one user: the part of the uses that an
    /// [outline](Catalog::outline) does not have.
    pub fn macros_used(&self) -> Vec<(VhostId, Box<str>, Box<str>)> {
        let mut all = Vec::new();
        // Macros come behind them.
        let end = Bound::Excluded(User::Macro("".into()));
        for host in self.vhosts.values() {
            for (name, users) in &host.macro_uses.0 {
                if let Some((user, _)) = users.range((Bound::Unbounded, end.clone())).next() {
                    all.push((host.definition.id, name.clone(), self.described(host, user).into()));
                }
            }
        }
        all
    }

    /// Has these count as used, as they are in the catalog that this one is an outline of.
    pub fn count_as_used(&mut self, used: Vec<(VhostId, Box<str>, Box<str>)>) {
        for (vhost, name, user) in used {
            if let Some(host) = self.vhosts.get_mut(&vhost) {
                host.macro_uses.add([&name], &User::Elsewhere(user));
            }
        }
    }
}
