//! A queue at work shows its browsers what is ready.

use super::held::{Held, Next};
use super::{Browser, Chooser};
use crate::catalog::Refusal;
use crate::content::Content;
use crate::event::{Event, Item};
use crate::placed::queue::at::AtQueue;
use crate::placed::queue::delivery::Site;
use crate::placed::queue::owned::{Member, OwnedQueue};
use crate::post::Post;
use crate::reading::ReadWhat;
use crate::request::{NewConsumer, Reply};
use crate::selector::Selector;
use crate::turn::Turn;
use base::Now;
use base::id::QueueSeq;
use filter::{Program, Room};
use message::record::{Enqueue, SeqRange};
use queue::{Command, Credit};

/// Units of work on a message that is looked at which count as one message more.
const UNITS_A_MESSAGE: usize = 50;

/// Bytes of memory for evaluating that a browser keeps.
const ROOM_KEPT_MAX: usize = 16 << 10;

impl OwnedQueue {
    fn browser(&self, member: Member) -> Option<&Browser> {
        self.browsers().iter().find(|browser| browser.member == member)
    }

    fn browser_mut(&mut self, member: Member) -> Option<&mut Browser> {
        let browsers = &mut self.features.as_mut()?.browsers;
        browsers.iter_mut().find(|browser| browser.member == member)
    }

    /// The messages a browser may still be shown when `limit` is all it may have seen; none where it saw more.
    #[cold]
    pub(crate) fn browsing_credit(&self, member: Member, limit: u32) -> u32 {
        let credit = self.browser(member).map_or(0, |browser| limit.wrapping_sub(browser.shown));
        if credit > u32::MAX / 2 { 0 } else { credit }
    }

    /// Messages that a browser could be shown now; may be too many, but none is none.
    #[cold]
    pub(crate) fn ready_to_browse(&self, member: Member) -> u64 {
        let next = self.browser(member).and_then(|browser| self.fifo.next_ready_at(browser.next));
        next.map_or(0, |next| self.fifo.ready().min(self.fifo.next_seq().0 - next.0))
    }
}

impl Browser {
    /// Whether it is to be shown the message of this record, and the units of work that it took to find out.
    fn wants(&mut self, record: &[u8], now: Now) -> (bool, usize) {
        let Some(Chooser { program, room }) = self.chooses.as_deref_mut() else { return (true, 0) };
        let message = Enqueue::read(record).expect("a live message is a record");
        let (head, body) = ([message.head], [message.body]);
        let way = (message.exchange, message.routing_key);
        let content = Content::new((message.format, message.flags), way, (&head, &body));
        let is_wanted = program.matches(&content, room, now.wall_ms);
        let units = program.price(message.head.len()) + room.spent();
        room.trim(ROOM_KEPT_MAX);
        (is_wanted, units)
    }
}

impl AtQueue<'_> {
    /// Somebody begins to browse a queue, at its head or behind it.
    #[cold]
    pub(crate) fn browse(
        &mut self,
        now: Now,
        member: Member,
        consumer: NewConsumer,
        program: Option<Program>,
    ) {
        let NewConsumer { credit, settled, browses, .. } = consumer;
        let queue = &mut *self.queue;
        let (from, held) = browses.map_or((QueueSeq(0), false), |shown| (shown.from, shown.held));
        let next = queue.fifo.head().max(from);
        let credit = credit.at_first();
        let (shown, unsettled, paused, drain) = (0, 0, false, false);
        let chooses = program.map(|program| Box::new(Chooser { program, room: Room::default() }));
        let browser =
            Browser { member, next, credit, shown, unsettled, settled, paused, drain, held, chooses };
        queue.features_mut(now).browsers.push(browser);
        self.mark_dirty();
    }

    /// As [`AtQueue::browse`], of one that is shown what it chooses.
    ///
    /// # Errors
    /// Its selector is too much.
    #[cold]
    pub(crate) fn browse_chosen(
        &mut self,
        now: Now,
        member: Member,
        consumer: NewConsumer,
        selector: &Selector,
    ) -> Result<Reply, Refusal> {
        let program = Program::compile(selector.expression()).map_err(|fault| {
            let named = self.queue.definition().named();
            Refusal::invalid_argument("x-filter", &named, &format!(": {fault}"))
        })?;
        self.browse(now, member, consumer, Some(program));
        Ok(Reply::Consuming)
    }

    /// Browsers are gone. What is kept for them goes with the last.
    #[cold]
    pub(crate) fn end_browsing(&mut self, is_gone: impl Fn(Member) -> bool) {
        let queue = &mut *self.queue;
        let Some(features) = &mut queue.features else { return };
        let before = features.browsers.len();
        features.browsers.retain(|browser| !is_gone(browser.member));
        if features.browsers.len() < before && features.is_idle() && queue.fifo.next_deadline_ms().is_none() {
            self.commons.agenda.timers.forget(self.slot, features.timer);
            queue.features = None;
        }
    }

    /// Has a browser do what a consumer's command says; nothing where it is gone.
    #[cold]
    #[inline(never)]
    pub(crate) fn tell_browser(&mut self, member: Member, command: Command) {
        if let Some(browser) = self.queue.browser_mut(member) {
            browser.obey(command);
            self.mark_dirty();
        }
    }

    /// Messages that a browser was shown were not sent: they are shown again. That it is settled comes by itself.
    #[cold]
    pub(crate) fn show_again(&mut self, member: Member, range: SeqRange) {
        if let Some(browser) = self.queue.browser_mut(member) {
            let count = range.last.0 - range.first.0 + 1;
            browser.next = browser.next.min(range.first);
            browser.shown = browser.shown.wrapping_sub(count as u32);
        }
    }

    /// Shows the browsers of a queue what they have not seen, each its share of what a queue may hand out at once.
    #[cold]
    #[inline(never)]
    pub(crate) fn show_all(&mut self, turn: &mut Turn<'_>) {
        let Some(features) = &mut self.queue.features else { return };
        if features.browsers.is_empty() {
            return;
        }
        let mut browsers = std::mem::take(&mut features.browsers);
        let share = (turn.limits.dispatch_messages_max / browsers.len() as u32).max(1);
        let mut has_more = false;
        for browser in &mut browsers {
            has_more |= self.show(browser, share, turn.now, turn.post);
        }
        if let Some(features) = &mut self.queue.features {
            features.browsers = browsers;
        }
        if has_more {
            self.mark_dirty();
        }
    }

    /// Shows a browser up to `count_max` messages. True: it could be shown more at once.
    fn show(&mut self, browser: &mut Browser, count_max: u32, now: Now, post: &mut Post) -> bool {
        let mut held = Held::of(self.queue, browser, count_max);
        let mut looked_at = held.price;
        while browser.has_room() {
            let fifo = &self.queue.fifo;
            let next = held.next(browser.next, fifo.next_ready_at(browser.next));
            if next != Next::None && looked_at >= count_max && looked_at > held.price {
                return true;
            }
            looked_at += 1;
            let (seq, is_held) = match next {
                Next::Ready(seq) => (seq, false),
                Next::Held(seq) => (seq, true),
                Next::Passed(seq) => {
                    browser.next = QueueSeq(seq.0 + 1);
                    continue;
                }
                Next::Later => return true,
                Next::None => break,
            };
            let (redelivered, counts) = fifo.past(seq);
            match self.locate(seq) {
                Site::Here(memory, offset) => {
                    let (is_wanted, units) = browser.wants(&memory[offset as usize..], now);
                    looked_at = looked_at.saturating_add((units / UNITS_A_MESSAGE) as u32);
                    if !is_wanted {
                        browser.next = QueueSeq(seq.0 + 1);
                        continue;
                    }
                    let here = (memory.clone(), offset);
                    let (memory, offset) = self.with_annotations(seq, here);
                    let marks = Item::marks_of(redelivered, counts.delivery_count, counts.acquired_count);
                    let item = Item { seq, offset, marks };
                    if is_held {
                        post.show(browser.member.port, browser.member.handle, &memory, item);
                    } else {
                        let Member { port, handle } = browser.member.shown(self.queue.is_traced());
                        post.deliver(port, handle, &memory, item);
                    }
                    browser.saw(seq);
                }
                Site::Away(what) => {
                    self.commons.reads.reading.wait(what, self.slot, None);
                    return false;
                }
                Site::Gone => browser.next = QueueSeq(seq.0 + 1),
            }
        }
        if browser.drain
            && !browser.paused
            && let Credit::Link(unused) = browser.credit
        {
            browser.drain = false;
            browser.credit = Credit::Link(0);
            browser.shown = browser.shown.wrapping_add(unused);
            let event = Event::Drained { consumer: browser.member.handle, unused };
            post.event(browser.member.port, event);
        }
        false
    }

    /// The bytes there are damaged: browsers go on behind what lies in them.
    #[cold]
    pub(crate) fn pass_over_shown(&mut self, what: ReadWhat) {
        let count = self.queue.browsers().len();
        for at in 0..count {
            loop {
                let queue = &*self.queue;
                let browser = &queue.browsers()[at];
                let ready = queue.fifo.next_ready_at(browser.next);
                let next = Held::of(queue, browser, 1).next(browser.next, ready);
                let (Next::Ready(seq) | Next::Held(seq) | Next::Passed(seq)) = next else { break };
                if !matches!(self.locate(seq), Site::Away(found) if found == what) {
                    break;
                }
                if let Some(features) = &mut self.queue.features {
                    features.browsers[at].next = QueueSeq(seq.0 + 1);
                }
            }
        }
    }
}
