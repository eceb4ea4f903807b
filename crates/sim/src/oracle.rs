//! The judge of a run: knows every published message and the reports of both sides about it, and judges each report.
//!
//! A *copy* is a message in one of the queues it was routed to. It *must* be there from its confirm on, until somebody
//! settles, purges or deletes it, or a restart takes what is transient; it *may* be there before that and after; it is
//! *gone* once the node has come to rest after its end. Invariant: the caller tells of everything a client sends before
//! it sends it, and of everything it hears when it hears it.

mod barriers;
mod browsers;
mod choices;
mod declared;
mod delays;
mod groups;
mod late;
mod whole;

use crate::client::{Asked, Delivery, Held, Target, Transaction, Verdict, Wants, read_body};
use crate::rules::{MessageOptions, Rules, group_of};
use barriers::Barriers;
use base::Random;
use base::id::LogId;
use broker::QueueRow;
use browsers::Browser;
use delays::{Due, Postponed};
use std::collections::{BTreeMap, BTreeSet};
use whole::LATE_MS_MAX;

/// The queues that somebody declares, by connection, once for each time: until the answer they are not to be deleted, or they
/// would be made anew.
pub type Pinned = Vec<(u64, usize)>;

/// Something is not as it must be, in words.
pub type Check = Result<(), String>;

/// Whether a copy is in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    May,
    Must,
    Gone,
}

#[derive(Clone, Debug)]
struct Copy {
    presence: Presence,
    /// It arrived at some client.
    was_delivered: bool,
    /// It arrived first as redelivered: the consumer that had it before was too slow, and may see that delivery later
    /// still.
    is_first_awaited: bool,
    /// The connections that hold it: more than one where some are closed and have not heard of it.
    holders: Vec<u64>,
    /// Somebody else may have settled it for its holders, since it came to the queue.
    may_be_settled: bool,
    /// Its end was said by somebody; it does not become a must again.
    is_ended: bool,
    /// A leader resigned while it was there: connections may think that they hold it, and that they settle it.
    lost_leader: bool,
    was_drained: bool,
    /// Milliseconds it lives.
    ttl_ms: Option<u64>,
    /// It may be gone from then on: its time is over. Milliseconds since 1970.
    due_at_ms: Option<u64>,
    /// It is gone from then on where nobody holds it.
    overdue_at_ms: Option<u64>,
    /// It may come as a dead letter, which may come twice and in any order.
    is_letter: bool,
    /// Nobody was given it, this time, before that. Milliseconds since 1970.
    available_ms: u64,
    /// Somebody got it last. Milliseconds since 1970.
    heard_ms: u64,
    /// Somebody gave it back to come later, at the latest then.
    postponed_ms: Option<u64>,
    /// It certainly does not come before, unless as a letter.
    certain_ms: Option<u64>,
}

/// A publisher, where order counts: a connection, and with AMQP 1.0 the target of its link.
type Publisher = (u64, Option<TargetKey>);
type TargetKey = (bool, usize);
/// A publisher's messages of one priority, and of one group where there are groups: they stay in order.
type Stream = (Publisher, Option<u8>, Option<u64>);

#[derive(Clone, Debug)]
struct Message {
    publisher: Publisher,
    priority: Option<u8>,
    len: usize,
    is_durable: bool,
    queues: Vec<usize>,
    is_confirmed: bool,
    /// It was sent twice: of what comes back nobody knows which it is.
    is_twice: bool,
    /// When it may come, where it is delayed.
    due: Option<Due>,
    /// The group it says it is in.
    group: Option<u64>,
}

/// How far a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Asked for.
    Asked,
    /// It is there.
    There,
    /// Somebody wants it deleted.
    Leaving,
    /// It is gone: somebody heard so.
    Gone,
    /// It was not there when the node came up.
    Missing,
}

impl Stage {
    fn is_over(self) -> bool {
        matches!(self, Stage::Gone | Stage::Missing)
    }
}

/// A queue.
#[derive(Clone, Debug)]
pub struct Queue {
    /// How far it is.
    pub stage: Stage,
    /// It counts deliveries, and everything in it is durable.
    pub is_quorum: bool,
    /// It outlives the node.
    pub is_durable: bool,
    /// The rules it is declared with.
    rules: Rules,
    copies: BTreeMap<u64, Copy>,
    /// Connections that consume without settling: messages under way to them may be lost with them.
    auto_settled_by: BTreeSet<u64>,
    /// Connections that consumed from it, or got, and may hold or have lost something of it.
    takers: BTreeSet<u64>,
    /// There once was one such: anything may have gone to it and been lost on the way.
    was_auto_settled: bool,
    /// Somebody asked for it to be emptied, and has no answer yet: nobody knows what that will take.
    purged_by: Vec<u64>,
    /// Messages were asked for by position: those that come back go first, though others in front were never out.
    is_picked: bool,
    /// It was once emptied, or consumed from without settling: missing messages may have gone so.
    lost_silently: bool,
    log: Option<LogId>,
}

impl Queue {
    /// A message of it that somebody holds may have been settled by somebody else.
    fn may_be_settled(&self, copy: &Copy) -> bool {
        copy.may_be_settled || !self.purged_by.is_empty()
    }
}

/// A fanout exchange.
#[derive(Clone, Debug)]
pub struct Exchange {
    queues: Vec<usize>,
    missing: usize,
    delays: bool,
}

/// The oracle.
#[derive(Debug, Default)]
pub struct Oracle {
    /// Logs are agreed on: what is transient may outlive the node, as nobody tells a restart from another leader.
    keeps_all: bool,
    /// The next leader waits for all claims: consumers go on, and hold what they held.
    pub waits_for_claims: bool,
    /// The last leader took up what others hold then, milliseconds since 1970: from then on it knows for how long.
    led_ms: u64,
    /// By number.
    pub queues: Vec<Queue>,
    /// By number.
    pub exchanges: Vec<Exchange>,
    messages: Vec<Message>,
    /// Messages of each transaction whose commit was sent.
    committed: Vec<Vec<u64>>,
    /// The connection that waits for the reply to each message.
    requests: BTreeMap<u64, u64>,
    /// Replies under way to connections that are there: the connection, and whether it came.
    replies: BTreeMap<u64, (u64, bool)>,
    /// Copies whose end a connection has told, until the node rests.
    ended: BTreeMap<u64, Vec<(usize, u64)>>,
    /// Copies that a connection gave back to come later, until the node rests.
    postponed: BTreeMap<u64, Vec<Postponed>>,
    /// Browsers, which are shown messages without taking them: by connection and consumer.
    browsers: BTreeMap<(u64, u32), Browser>,
    /// Consumers that choose.
    choices: BTreeMap<(u64, u32), Wants>,
    /// Messages that came to them.
    pub chosen: u64,
    /// Barriers that came, in this life of the node.
    barriers: Barriers,
    /// Barriers that came.
    pub barriers_came: u64,
    /// Connections to both of which a message came: a mistake, unless one of them is about to hear that it is closed.
    suspects: BTreeMap<(u64, u64), String>,
    /// Connections that are over, of which the node may not know yet.
    departed: BTreeSet<u64>,
    /// The last message of a publisher that a consumer got for the first time.
    heard: BTreeMap<(u64, Option<u32>, usize, Stream), u64>,
    /// Queues that somebody declares again.
    pinned: Pinned,
    /// Messages that went to a node which may not have heard of all that was bound.
    stray: BTreeSet<u64>,
    /// Logs of which the node has said that something is lost.
    damaged: BTreeSet<LogId>,
    all_damaged: bool,
    draining: Option<BTreeMap<(usize, Stream), u64>>,
    /// The time, milliseconds since 1970.
    pub now_ms: u64,
    /// Dead letters that arrived.
    pub buried: u64,
    /// Messages came with what somebody had written on them.
    pub noted: u64,
    /// Messages that were gone at the end, and due.
    pub expired: u64,
    /// Delayed messages that arrived.
    pub delayed: u64,
    /// Messages that came though another held them, for too long.
    pub taken_back: u64,
}

impl Oracle {
    /// One that knows nothing but the time, milliseconds since 1970.
    pub fn new(now_ms: u64, keeps_all: bool) -> Oracle {
        Oracle { now_ms, keeps_all, ..Oracle::default() }
    }

    // ---- what clients ask for

    /// A queue is asked for.
    pub fn new_queue(&mut self, is_quorum: bool, is_durable: bool, rules: Rules) -> usize {
        self.queues.push(Queue {
            stage: Stage::Asked,
            is_quorum,
            is_durable,
            rules,
            copies: BTreeMap::new(),
            auto_settled_by: BTreeSet::new(),
            takers: BTreeSet::new(),
            was_auto_settled: false,
            purged_by: Vec::new(),
            is_picked: false,
            lost_silently: false,
            log: None,
        });
        self.queues.len() - 1
    }

    /// An exchange bound to these queues is asked for; `delays`: messages through it may be delayed.
    pub fn new_exchange(&mut self, queues: Vec<usize>, delays: bool) -> usize {
        self.exchanges.push(Exchange { missing: queues.len(), queues, delays });
        self.exchanges.len() - 1
    }

    /// The queues that are there.
    pub fn queues_there(&self) -> Vec<usize> {
        let there = self.queues.iter().enumerate().filter(|(_, queue)| queue.stage == Stage::There);
        there.map(|(number, _)| number).collect()
    }

    /// The number of a queue of this name, if it is one of the clients'.
    pub fn number_of(&self, name: &str) -> Option<usize> {
        number_of(name).filter(|number| *number < self.queues.len())
    }

    /// The queues that are there and drop what is too much.
    pub fn dropping(&self) -> Vec<usize> {
        let makes_room = |number: &usize| self.queues[*number].rules.makes_room();
        self.queues_there().into_iter().filter(makes_room).collect()
    }

    /// The queues that others may send their dead to.
    pub fn graves(&self) -> Vec<usize> {
        let is_fit =
            |number: &usize| self.queues[*number].is_durable && self.queues[*number].rules.is_plain();
        self.queues_there().into_iter().filter(is_fit).collect()
    }

    /// Whether a queue a message goes to may refuse it.
    pub fn may_refuse(&self, target: Target) -> bool {
        self.targets(target).iter().any(|queue| self.queues[*queue].rules.refuses)
    }

    /// Whether all queues a message goes to pass over one they have seen.
    pub fn deduplicates(&self, target: Target) -> bool {
        self.targets(target).iter().all(|queue| self.queues[*queue].rules.deduplicates)
    }

    /// The queues that are bound to an exchange and not gone.
    pub fn bound_to(&self, exchange: usize) -> Vec<usize> {
        let is_there = |queue: &usize| !self.queues[*queue].stage.is_over();
        self.exchanges[exchange].queues.iter().copied().filter(is_there).collect()
    }

    fn targets(&self, target: Target) -> Vec<usize> {
        match target {
            Target::Queue(queue) => vec![queue],
            Target::Exchange(exchange) => self.exchanges[exchange].queues.clone(),
            Target::Stream(_) => Vec::new(),
        }
    }

    /// The exchanges that are bound as they were to be, and at least one of whose queues is there.
    pub fn exchanges_there(&self) -> Vec<usize> {
        let is_there = |queue: &usize| self.queues[*queue].stage == Stage::There;
        let is_usable = |exchange: &Exchange| exchange.missing == 0 && exchange.queues.iter().any(is_there);
        let there = self.exchanges.iter().enumerate().filter(|(_, exchange)| is_usable(exchange));
        there.map(|(number, _)| number).collect()
    }

    /// The broker did what was asked.
    pub fn done(&mut self, client: u64, asked: Asked, count: Option<u64>) -> Check {
        match asked {
            Asked::Look(queue, false) => {
                return Err(format!("queue {queue} was deleted, and somebody hears that it is there"));
            }
            Asked::Declare(queue) => {
                self.declared(client, queue);
                let queue = &mut self.queues[queue];
                if queue.stage == Stage::Asked {
                    queue.stage = Stage::There;
                    if count != Some(0) {
                        return Err(format!("a new queue begins with {count:?} messages"));
                    }
                }
            }
            Asked::Bind(exchange, _) => self.exchanges[exchange].missing -= 1,
            Asked::Purge(queue) | Asked::Discard(queue, _) | Asked::SettleAt(queue, ..) => {
                if matches!(asked, Asked::SettleAt(..)) {
                    self.may_be_settled(queue);
                }
                // A message that was published before it was done, and is confirmed only later, may have been removed
                // too.
                self.may_all(queue);
                // One of its purges; another may be under way.
                let purged_by = &mut self.queues[queue].purged_by;
                if let Some(at) = purged_by.iter().position(|by| *by == client) {
                    purged_by.swap_remove(at);
                }
            }
            Asked::Delete(queue) => self.queues[queue].stage = Stage::Gone,
            _ => {}
        }
        Ok(())
    }

    /// A queue is to be deleted.
    pub fn leaving(&mut self, queue: usize) {
        self.queues[queue].stage = Stage::Leaving;
        self.may_all(queue);
    }

    /// A message of this queue is asked for by its position.
    pub fn picking(&mut self, client: u64, queue: usize) {
        self.queues[queue].is_picked = true;
        self.go_otherwise(queue);
        self.taking(client, queue);
    }

    /// A position that a queue may have given to a message, or be about to.
    pub fn any_position(&self, queue: usize, dice: &mut Random) -> u64 {
        dice.below(self.queues[queue].copies.len() as u64 + 1)
    }

    /// A queue is to be emptied, or some message of it is to go.
    pub fn purging(&mut self, client: u64, queue: usize) {
        self.queues[queue].purged_by.push(client);
        self.go_otherwise(queue);
        self.may_all(queue);
    }

    /// Some messages of a queue are to be settled, whoever holds them.
    pub fn settling_at(&mut self, client: u64, queue: usize) {
        self.purging(client, queue);
        self.may_be_settled(queue);
    }

    fn may_be_settled(&mut self, queue: usize) {
        self.queues[queue].copies.values_mut().for_each(|copy| copy.may_be_settled = true);
    }

    fn may_all(&mut self, queue: usize) {
        self.queues[queue].lost_silently = true;
        for copy in self.queues[queue].copies.values_mut() {
            copy.is_ended = true;
            if copy.presence == Presence::Must {
                copy.presence = Presence::May;
            }
        }
    }

    // ---- publishing

    /// A message is about to be published: its number.
    pub fn publishing(
        &mut self,
        client: u64,
        by_link: bool,
        target: Target,
        len: usize,
        is_durable: bool,
        options: &MessageOptions,
    ) -> u64 {
        let queues = self.targets(target);
        let key = match target {
            Target::Queue(queue) => (false, queue),
            Target::Exchange(exchange) => (true, exchange),
            Target::Stream(stream) => panic!("stream {stream} has a judge of its own"),
        };
        let id = self.messages.len() as u64;
        let due = options.delay.map(|delay| Due::new(delay, self.now_ms));
        let from_ms = due.map_or(self.now_ms, |due| due.not_before_ms.max(self.now_ms));
        let new_copy = || Copy {
            presence: Presence::May,
            was_delivered: false,
            is_first_awaited: false,
            holders: Vec::new(),
            may_be_settled: false,
            is_ended: false,
            lost_leader: false,
            was_drained: false,
            ttl_ms: None,
            due_at_ms: None,
            overdue_at_ms: None,
            is_letter: false,
            available_ms: from_ms,
            heard_ms: 0,
            postponed_ms: None,
            certain_ms: None,
        };
        for queue in &queues {
            let rules = self.queues[*queue].rules;
            let ttl_ms = rules.ttl_ms.into_iter().chain(options.ttl_ms).min();
            let due_at_ms = ttl_ms.map(|ms| from_ms + ms);
            let copy = Copy { ttl_ms, due_at_ms, is_ended: rules.drops(), ..new_copy() };
            if !self.queues[*queue].stage.is_over() {
                self.queues[*queue].copies.insert(id, copy);
            }
        }
        let graves = queues.iter().filter_map(|queue| self.queues[*queue].rules.grave);
        for grave in graves.collect::<Vec<_>>() {
            if !self.queues[grave].stage.is_over() {
                self.queues[grave].copies.entry(id).or_insert_with(new_copy).is_letter = true;
            }
        }
        let publisher = (client, by_link.then_some(key));
        let priority = options.priority;
        let (is_confirmed, is_twice) = (false, options.twice);
        self.messages.push(Message {
            publisher,
            priority,
            len,
            is_durable,
            queues,
            is_confirmed,
            is_twice,
            due,
            group: group_of(id).filter(|_| options.has_group),
        });
        id
    }

    /// A full queue did not take a message.
    pub fn refused(&mut self, id: u64) -> Check {
        let queues = self.messages[id as usize].queues.clone();
        let refusing: Vec<usize> =
            queues.iter().copied().filter(|queue| self.queues[*queue].rules.refuses).collect();
        if refusing.is_empty() && !self.has_damage() {
            return Err(format!("message {id} is refused though no queue may"));
        }
        if let [only] = refusing[..]
            && let Some(copy) = self.queues[only].copies.get_mut(&id)
        {
            copy.presence = Presence::Gone;
        }
        Ok(())
    }

    /// The message just numbered was not published after all.
    pub fn not_published(&mut self, id: u64) {
        for queue in &mut self.queues {
            queue.copies.remove(&id);
        }
    }

    /// The message just published is a request: its reply goes to its publisher.
    pub fn requested(&mut self, client: u64, id: u64) {
        self.requests.insert(id, client);
    }

    /// A reply to a request is about to be published: its number.
    pub fn replying(&mut self, client: u64, request: u64, len: usize) -> u64 {
        let id = self.messages.len() as u64;
        let publisher = (client, None);
        self.messages.push(Message {
            publisher,
            priority: None,
            len,
            is_durable: false,
            queues: Vec::new(),
            is_confirmed: false,
            is_twice: false,
            due: None,
            group: None,
        });
        if let Some(requester) = self.requests.get(&request) {
            self.replies.insert(id, (*requester, false));
        }
        id
    }

    /// A reply came: its number.
    pub fn replied(&mut self, client: u64, body: &[u8]) -> Result<u64, String> {
        let (id, len) = read_body(body).ok_or("a reply whose body nobody sent")?;
        let is_sent = self.messages.get(id as usize).is_some_and(|message| message.len == len);
        let reply = self.replies.get_mut(&id).filter(|_| is_sent);
        let (requester, came) = reply.ok_or_else(|| format!("reply {id} of {len} bytes was never sent"))?;
        if *requester != client {
            return Err(format!("reply {id} to connection {requester} came to {client}"));
        }
        if std::mem::replace(came, true) {
            return Err(format!("reply {id} came twice"));
        }
        Ok(id)
    }

    /// The message just published waits for the end of its transaction: nobody is to see it before.
    pub fn held_back(&mut self, id: u64) {
        self.set_presence(id, Presence::Gone);
    }

    /// The messages that a transaction published are about to be committed.
    pub fn committing(&mut self, published: &[u64]) {
        published.iter().for_each(|id| self.set_presence(*id, Presence::May));
        self.committed.push(published.to_vec());
    }

    /// A transaction whose commit failed is undone: nobody may see its messages, and the deliveries it settled go back.
    pub fn undone(&mut self, client: u64, transaction: &Transaction) {
        transaction.published.iter().for_each(|id| self.set_presence(*id, Presence::Gone));
        if let Some(ended) = self.ended.get_mut(&client) {
            let is_its = |copy: &(usize, u64)| {
                transaction.settled.iter().any(|(held, _)| (held.queue, held.message) == *copy)
            };
            ended.retain(|copy| !is_its(copy));
        }
    }

    fn set_presence(&mut self, id: u64, presence: Presence) {
        for queue in self.messages[id as usize].queues.clone() {
            if let Some(copy) = self.queues[queue].copies.get_mut(&id) {
                copy.presence = presence;
            }
        }
    }

    /// The broker took a message over.
    pub fn confirmed(&mut self, id: u64) -> Check {
        let message = &mut self.messages[id as usize];
        if std::mem::replace(&mut message.is_confirmed, true) {
            return Err(format!("message {id} is confirmed twice"));
        }
        // It came before its confirm did.
        let ready_by_ms = message.due.as_mut().map_or(self.now_ms, |due| due.taken(self.now_ms));
        for queue in &message.queues {
            let queue = &mut self.queues[*queue];
            if let Some(copy) = queue.copies.get_mut(&id) {
                copy.overdue_at_ms = copy.ttl_ms.map(|ms| ready_by_ms + ms + LATE_MS_MAX);
            }
            let is_certain = queue.auto_settled_by.is_empty() && queue.purged_by.is_empty();
            if queue.stage != Stage::There || !is_certain {
                continue;
            }
            if let Some(copy) = queue.copies.get_mut(&id)
                && copy.presence == Presence::May
                && !copy.is_ended
            {
                copy.presence = Presence::Must;
            }
        }
        Ok(())
    }

    /// The broker says that a message goes nowhere.
    pub fn returned(&mut self, id: u64) -> Check {
        for queue in &self.messages[id as usize].queues {
            let may_be = self.is_damaged(*queue) || self.stray.contains(&id);
            if self.queues[*queue].stage == Stage::There && !may_be {
                return Err(format!("message {id} is returned though queue {queue} is there"));
            }
        }
        if !self.messages[id as usize].is_twice {
            self.set_presence(id, Presence::Gone);
        }
        Ok(())
    }

    // ---- consuming

    /// A consumer is about to be opened.
    pub fn consuming(&mut self, client: u64, queue: usize, settled: bool) {
        self.taking(client, queue);
        if settled {
            self.auto_settling(client, queue);
        }
    }

    /// A message to a consumer that need not settle may be lost on the way.
    fn auto_settling(&mut self, client: u64, queue: usize) {
        self.queues[queue].auto_settled_by.insert(client);
        self.queues[queue].was_auto_settled = true;
        self.may_all(queue);
    }

    /// A message came: its number.
    pub fn delivered(&mut self, client: u64, delivery: &Delivery) -> Result<u64, String> {
        let Delivery { queue: number, consumer, redelivered, settled, .. } = *delivery;
        let Some((id, len)) = read_body(&delivery.body) else {
            return Err(format!("queue {number}: a body of {} bytes nobody sent", delivery.body.len()));
        };
        let is_sent = self.messages.get(id as usize).is_some_and(|message| message.len == len);
        if is_sent && consumer.is_some() && self.is_barrier(number, id) {
            return self.barrier_came(client, delivery, id);
        }
        self.is_wanted(client, delivery, len)?;
        if is_sent {
            self.comes_beside_barriers(client, delivery, id)?;
        }
        let is_damaged = self.is_damaged(number);
        let message = self.messages.get(id as usize).filter(|message| message.len == len);
        let message = message.ok_or_else(|| format!("message {id} of {len} bytes was never published"))?;
        let Queue { is_quorum, rules, is_picked, .. } = self.queues[number];
        let group = message.group.filter(|_| rules.is_grouped);
        // One that is being handed out is there to be picked as well.
        let is_picked_barrier = delivery.chosen && self.is_barrier(number, id);
        let stream = (message.publisher, message.priority, group);
        let is_dead = !message.queues.contains(&number);
        let due = message.due;
        if !is_damaged && !settled {
            self.comes_in_group(client, number, id, group);
        }
        let Some(copy) = self.queues[number].copies.get_mut(&id) else {
            return Err(format!("message {id} was never sent to queue {number}"));
        };
        let what = format!("message {id} from queue {number}");
        let is_letter = copy.is_letter;
        if let Some(note) = delivery.note {
            // Nobody writes another message's number, and a classic queue keeps nothing of it.
            if note != id || !is_quorum && !is_letter {
                return Err(format!("{what} says that it is {note}"));
            }
            self.noted += 1;
        }
        if is_dead {
            self.buried += 1;
        }
        if let Some(before_ms) = copy.is_early(due, self.now_ms)
            && !is_damaged
        {
            return Err(format!("{what} came {before_ms} ms too early"));
        }
        let is_delayed = due.is_some() || copy.postponed_ms.is_some();
        self.delayed += u64::from(is_delayed);
        let may_be_late = copy.may_be_late(&rules, self.now_ms);
        copy.heard_ms = self.now_ms;
        if !is_damaged && !is_letter {
            if copy.presence == Presence::Gone {
                return Err(format!("{what} came back after its end"));
            }
            self.taken_back += u64::from(may_be_late && !copy.holders.is_empty());
            for holder in copy.holders.iter().filter(|_| !may_be_late && !copy.lost_leader) {
                let text = format!("{what} is held by connection {holder} and came to {client} too");
                self.suspects.entry((*holder, client)).or_insert(text);
            }
            if copy.was_delivered && !redelivered && !copy.is_first_awaited && !is_picked_barrier {
                // Unless it was sent before the other, and its channel was closed behind it.
                let text = format!("{what} came twice and is not marked as redelivered");
                self.suspects.entry((client, client)).or_insert(text);
            }
        }
        let is_first_late = redelivered && !copy.was_delivered && rules.holding_ms().is_some();
        copy.is_first_awaited = is_first_late || copy.is_first_awaited && redelivered;
        copy.was_delivered = true;
        if settled {
            copy.presence = Presence::May;
            copy.is_ended = true;
            self.ended.entry(client).or_default().push((number, id));
        } else {
            copy.holders.push(client);
        }
        if !redelivered && !is_letter && !is_delayed && !delivery.chosen {
            let key = (client, consumer, number, stream);
            let before = self.heard.insert(key, id);
            if before.is_some_and(|before| before > id) && !is_damaged {
                return Err(format!("{what} came after {before:?} of the same publisher"));
            }
        }
        if let Some(last) = &mut self.draining {
            copy.was_drained = true;
            let may_have_waited = redelivered && (rules.retry.is_some() || is_picked);
            if is_letter || is_delayed || may_be_late || may_have_waited {
                return Ok(id);
            }
            let before = last.insert((number, stream), id);
            if before.is_some_and(|before| before >= id) && !is_damaged {
                return Err(format!("{what} is drained after {before:?} of the same publisher"));
            }
        }
        Ok(id)
    }

    /// A connection settles what it held, or gives it back.
    pub fn settling(&mut self, client: u64, held: &[Held], verdict: Verdict) {
        for held in held {
            if held.is_barrier {
                continue;
            }
            let Queue { copies, rules, .. } = &mut self.queues[held.queue];
            let Some(copy) = copies.get_mut(&held.message) else { continue };
            // Another consumer of the same connection may hold it too, where this one did for too long.
            if let Some(at) = copy.holders.iter().position(|holder| *holder == client) {
                copy.holders.swap_remove(at);
            }
            let dies = verdict == Verdict::Reject && rules.grave.is_some();
            if matches!(verdict, Verdict::Accept | Verdict::Reject) && !dies {
                copy.presence = if copy.presence == Presence::Gone { Presence::Gone } else { Presence::May };
                copy.is_ended = true;
                if !copy.lost_leader {
                    self.ended.entry(client).or_default().push((held.queue, held.message));
                }
            } else {
                copy.given_back(rules, self.now_ms);
            }
            if let Verdict::Postpone(until_ms) = verdict {
                self.postponing(client, held, until_ms);
            }
        }
    }

    /// A connection is over. In order: the broker has done all it was told.
    pub fn client_gone(&mut self, client: u64, held: &[Held], in_order: bool) {
        self.connection_left(client);
        for held in held.iter().filter(|held| !held.is_barrier) {
            let rules = self.queues[held.queue].rules;
            if let Some(copy) = self.queues[held.queue].copies.get_mut(&held.message) {
                copy.holders.retain(|holder| *holder != client);
                copy.given_back(&rules, self.now_ms);
            }
        }
        if !in_order {
            self.ended.remove(&client);
            self.postponed.remove(&client);
        }
        self.browsers.retain(|(of, _), _| *of != client);
        self.choices.retain(|(of, _), _| *of != client);
        self.suspects.retain(|(one, other), _| *one != client && *other != client);
        self.requests.retain(|_, requester| *requester != client);
        self.replies.retain(|_, (requester, _)| *requester != client);
        // A consumer that need not settle goes on taking until the node finds out, and what was asked for is done.
        self.departed.insert(client);
    }

    // ---- the node

    /// Some log has lost its leader: consumers of its queues hold nothing any more, and may not have heard of it; unless they go
    /// on at the next.
    pub fn leader_lost(&mut self) {
        if self.waits_for_claims {
            return self.barriers_begin_anew();
        }
        let copies = self.queues.iter_mut().flat_map(|queue| queue.copies.values_mut());
        copies.for_each(|copy| copy.lost_leader = true);
        self.barriers_begin_anew();
        self.ended.clear();
        self.postponed.clear();
    }

    /// A node hands out messages of a log from now on, and has taken up what others said that they hold.
    pub fn leader_begins(&mut self) {
        self.led_ms = self.now_ms;
    }

    /// One of several nodes went down: settles that it brought to nobody so far, and those of its own that were not agreed on, may
    /// be lost, also of connections that were closed in order. Others have all that counts.
    pub fn node_lost(&mut self) {
        self.leader_lost();
        self.ended.clear();
        self.postponed.clear();
        let copies = self.queues.iter_mut().flat_map(|queue| queue.copies.values_mut());
        copies.filter(|copy| copy.is_ended).for_each(|copy| copy.lost_leader = true);
    }

    /// The log a queue is on, and everything it says of itself.
    pub fn learn(&mut self, rows: &[QueueRow]) {
        for row in rows {
            if let Some(queue) = number_of(&row.definition.name).and_then(|at| self.queues.get_mut(at)) {
                queue.log = Some(row.definition.log);
            }
        }
    }

    /// The node has reported that something of this log, or of an unknown one, is lost.
    pub fn damage_reported(&mut self, log: Option<LogId>) {
        match log {
            Some(LogId(0)) | None => self.all_damaged = true,
            Some(log) => _ = self.damaged.insert(log),
        }
    }

    /// The node has said that something is lost.
    pub fn has_damage(&self) -> bool {
        self.all_damaged || !self.damaged.is_empty()
    }

    /// Something of the log is lost; none: of one that nobody knows.
    pub fn has_lost(&self, log: Option<LogId>) -> bool {
        self.all_damaged || log.is_some_and(|log| self.damaged.contains(&log))
    }

    /// Something of the queue's log is lost.
    pub fn is_damaged(&self, queue: usize) -> bool {
        self.has_lost(self.queues[queue].log)
    }

    /// The node is down; `in_order`: after a clean end.
    pub fn went_down(&mut self) {
        self.ended.clear();
        self.postponed.clear();
        self.browsers.clear();
        self.heard.clear();
        self.departed.clear();
        self.suspects.clear();
        self.barriers_begin_anew();
        self.requests.clear();
        self.replies.clear();
        for exchange in &mut self.exchanges {
            // Nobody will hear of the bindings that are missing.
            if exchange.missing > 0 {
                exchange.missing = usize::MAX;
            }
        }
        for queue in &mut self.queues {
            queue.auto_settled_by.clear();
            queue.takers.clear();
            queue.purged_by.clear();
            for (id, copy) in &mut queue.copies {
                copy.holders.clear();
                let is_kept = queue.is_durable && (queue.is_quorum || self.messages[*id as usize].is_durable);
                if !is_kept {
                    let may_stay = self.keeps_all && queue.is_durable && copy.presence != Presence::Gone;
                    copy.presence = if may_stay { Presence::May } else { Presence::Gone };
                }
            }
        }
    }

    /// The node is up again: learns its queues and checks them.
    pub fn came_up(&mut self, rows: &[QueueRow]) -> Check {
        self.learn(rows);
        let there: BTreeSet<usize> = rows.iter().filter_map(|row| number_of(&row.definition.name)).collect();
        for (number, queue) in self.queues.iter_mut().enumerate() {
            let is_there = there.contains(&number);
            let what = match (queue.stage, is_there) {
                (Stage::There, false) if queue.is_durable => Some("is lost"),
                (Stage::Gone, true) => Some("is back though it was deleted"),
                (Stage::Missing, true) => Some("is back though it was not there after a start before"),
                (Stage::Asked | Stage::Leaving, true) if !queue.is_durable => Some("outlived the node"),
                _ => None,
            };
            if let Some(what) = what.filter(|_| !self.all_damaged) {
                return Err(format!("queue {number} {what}"));
            }
            queue.stage = match queue.stage {
                _ if is_there => Stage::There,
                Stage::Gone => Stage::Gone,
                _ => Stage::Missing,
            };
        }
        self.check_counts(rows)
    }

    /// The same for a node that comes up from what is on disk now.
    pub fn check_on_disk(&self, rows: &[QueueRow]) -> Check {
        let there: BTreeSet<usize> = rows.iter().filter_map(|row| number_of(&row.definition.name)).collect();
        for (number, queue) in self.queues.iter().enumerate().filter(|_| !self.all_damaged) {
            match (queue.stage, there.contains(&number)) {
                (Stage::There, false) if queue.is_durable => {
                    return Err(format!("queue {number} is not on disk"));
                }
                (Stage::Gone | Stage::Missing, true) => {
                    return Err(format!("queue {number} is on disk though it was deleted"));
                }
                _ => {}
            }
        }
        for row in rows {
            let Some(number) = number_of(&row.definition.name) else { continue };
            let is_quorum = self.queues[number].is_quorum;
            let is_kept = |id: &u64| is_quorum || self.messages[*id as usize].is_durable;
            let (must, _) = self.bounds(number, is_kept);
            let (_, may) = self.bounds(number, |id| self.keeps_all || is_kept(id));
            let has = row.ready + row.delayed;
            if !self.is_damaged(number) && (has < must || has > may) {
                return Err(format!("queue {number} says {has} are there; {must} must and {may} may"));
            }
        }
        Ok(())
    }

    /// Checks the counts of each queue: no fewer than must be there, and no more than may be.
    fn check_counts(&self, rows: &[QueueRow]) -> Check {
        for row in rows {
            let Some(number) = number_of(&row.definition.name) else { continue };
            if self.is_damaged(number) {
                continue;
            }
            let (must, may) = self.bounds(number, |_| true);
            let has = row.ready + row.unsettled + row.delayed;
            if has < must || has > may {
                return Err(format!(
                    "queue {number} says {} ready, {} unsettled and {} delayed; {must} must be there and {may} may",
                    row.ready, row.unsettled, row.delayed
                ));
            }
        }
        Ok(())
    }

    /// How many of some copies must be in a queue, and how many may be.
    fn bounds(&self, number: usize, counts: impl Fn(&u64) -> bool) -> (u64, u64) {
        let Queue { copies, rules, .. } = &self.queues[number];
        let (mut must, mut may) = (0, 0);
        for (_, copy) in copies.iter().filter(|(id, _)| counts(id)) {
            let is_due = copy.due_at_ms.is_some_and(|at| at <= self.now_ms);
            must += u64::from(copy.presence == Presence::Must && !is_due && rules.grave.is_none());
            may += u64::from(copy.presence != Presence::Gone);
        }
        // Dead letters may come twice.
        let is_grave = copies.values().any(|copy| copy.is_letter);
        (must, if is_grave { u64::MAX } else { may })
    }

    /// The node rests: every command is done and on disk.
    pub fn rests(&mut self, rows: &[QueueRow], has_faults: bool) -> Check {
        self.learn(rows);
        if let Some(text) = self.suspects.values().next() {
            return Err(text.clone());
        }
        self.postpones_are_done()?;
        self.check_barriers()?;
        for (number, id) in std::mem::take(&mut self.ended).into_values().flatten() {
            let Queue { copies, rules, .. } = &mut self.queues[number];
            // Of what was settled too late nobody knows whether somebody else has it.
            if let Some(copy) = copies.get_mut(&id).filter(|copy| !copy.may_be_late(rules, self.now_ms)) {
                copy.presence = Presence::Gone;
            }
        }
        for (id, (requester, came)) in &self.replies {
            if self.messages[*id as usize].is_confirmed && !came {
                return Err(format!("reply {id} was taken over and did not come to connection {requester}"));
            }
        }
        let departed = std::mem::take(&mut self.departed);
        for queue in &mut self.queues {
            queue.auto_settled_by.retain(|client| !departed.contains(client));
            queue.purged_by.retain(|client| !departed.contains(client));
            queue.takers.retain(|client| !departed.contains(client));
        }
        self.check_counts(rows)?;
        self.check_delayed(rows)?;
        self.check_late(rows)?;
        self.check_rules(rows, has_faults)
    }

    /// From now on one consumer of each queue takes everything.
    pub fn begin_drain(&mut self) {
        self.draining = Some(BTreeMap::new());
        let copies = self.queues.iter_mut().flat_map(|queue| queue.copies.values_mut());
        copies.for_each(|copy| copy.was_drained = false);
    }

    /// Everything was taken that there is.
    pub fn end_drain(&mut self) -> Check {
        self.draining = None;
        if !self.has_damage() {
            // A queue on what is damaged refuses its part in the midst of a commit.
            self.committed.iter().try_for_each(|published| self.check_whole(published))?;
        }
        for number in 0..self.queues.len() {
            let is_damaged = self.is_damaged(number);
            let mut dead = Vec::new();
            let Queue { copies, stage, rules, .. } = &mut self.queues[number];
            for (id, copy) in copies {
                if copy.presence == Presence::Must
                    && !copy.was_drained
                    && !is_damaged
                    && *stage == Stage::There
                {
                    if rules.grave.is_some() {
                        dead.push(*id);
                    } else if copy.due_at_ms.is_some_and(|at| at <= self.now_ms) {
                        self.expired += 1;
                    } else {
                        return Err(format!("message {id} is lost from queue {number}"));
                    }
                }
                // A letter's original is looked for below, from other queues.
                if !is_damaged && *stage == Stage::There && !copy.is_letter {
                    copy.presence = Presence::Gone;
                }
            }
            dead.into_iter().try_for_each(|id| self.check_buried(number, id))?;
        }
        Ok(())
    }
}

/// The number in a queue's name.
fn number_of(name: &str) -> Option<usize> {
    name.strip_prefix('q')?.parse().ok()
}
