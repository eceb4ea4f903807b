//! The state of the dashboard, and how keys change it. Knows no terminal, no socket and no clock.
//!
//! Invariant: the row that is chosen is on the page that is shown, or there is none.

use super::overview::{Asked, List, Order, Overview, ROWS_MAX};
use std::collections::VecDeque;

/// Totals that are kept for the lines of the last minutes.
pub const SAMPLES_MAX: usize = 240;

/// Characters of a search.
pub const SEARCH_MAX: usize = 200;

/// Milliseconds between two looks: the least, and the most.
pub const INTERVAL_MS: [u64; 2] = [250, 60_000];

/// The node works at most one part in so many of the time for the dashboard.
pub const SHARE: u64 = 20;

/// A key that was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// Enter.
    Enter,
    /// Escape.
    Escape,
    /// The last character goes.
    Backspace,
    /// The next list.
    Tab,
    /// To the row above.
    Up,
    /// To the row below.
    Down,
    /// To the column on the left.
    Left,
    /// To the column on the right.
    Right,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the first row.
    Home,
    /// To the last row.
    End,
    /// The end, in any state.
    Interrupt,
}

/// The work that a key leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The frame is to be drawn.
    Draw,
    /// The node is to be asked at once.
    Ask,
    /// It is over.
    End,
}

/// How fast something is, a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Messages published.
    pub published: f64,
    /// Messages confirmed.
    pub confirmed: f64,
    /// Messages delivered or got.
    pub delivered: f64,
    /// Messages acknowledged.
    pub acknowledged: f64,
    /// Messages delivered once more.
    pub redelivered: f64,
    /// Bytes written.
    pub written_bytes: f64,
    /// Flushes.
    pub flushes: f64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct State {
    /// Which list is shown.
    pub list: List,
    orders: [(Order, bool); 2],
    /// The text that is searched for.
    pub search: String,
    /// It is being typed.
    pub is_searching: bool,
    /// The first row on the page, of all that match.
    pub skip: u64,
    /// The row that is chosen, on the page.
    pub chosen: usize,
    /// Rows on the screen.
    pub rows: u32,
    /// Keys are explained.
    pub is_help: bool,
    /// The queue that is open, by virtual host and name.
    pub opened: Option<[String; 2]>,
    /// Nothing new is asked.
    pub is_paused: bool,
    /// Milliseconds between two looks.
    pub interval_ms: u64,
    /// The node's last answer.
    pub overview: Option<Overview>,
    /// The node's rates since the look before.
    pub rates: Option<Rates>,
    /// Messages that came and went a second, oldest first.
    pub past: VecDeque<[u64; 2]>,
    /// Why there is nothing newer.
    pub trouble: Option<String>,
}

impl State {
    /// One that has not seen anything.
    pub fn new(list: List, order: Option<Order>, search: &str, interval_ms: u64) -> State {
        let mut orders = [(Order::Ready, false), (Order::In, false)];
        if let Some(order) = order.filter(|order| list.orders().contains(order)) {
            orders[list as usize].0 = order;
        }
        State {
            list,
            orders,
            search: search.chars().take(SEARCH_MAX).collect(),
            is_searching: false,
            skip: 0,
            chosen: 0,
            rows: 20,
            is_help: false,
            opened: None,
            is_paused: false,
            interval_ms: interval_ms.clamp(INTERVAL_MS[0], INTERVAL_MS[1]),
            overview: None,
            rates: None,
            past: VecDeque::new(),
            trouble: None,
        }
    }

    /// The order of the list, and whether it is the other way round.
    pub fn order(&self) -> (Order, bool) {
        self.orders[self.list as usize]
    }

    /// The question to the node.
    pub fn asked(&self) -> Asked {
        let (order, is_reversed) = self.order();
        let (search, count) = (self.search.clone(), self.rows.clamp(1, ROWS_MAX));
        let opened = self.opened.clone();
        Asked { list: self.list, order, is_reversed, search, skip: self.skip, count, opened }
    }

    /// The node answered `asked`.
    pub fn hear(&mut self, asked: &Asked, overview: Overview) {
        self.trouble = None;
        if let Some(before) = self.overview.as_ref().filter(|before| before.at_ns < overview.at_ns) {
            let seconds = (overview.at_ns - before.at_ns) as f64 / 1e9;
            let (then, now) = (&before.counted, &overview.counted);
            // A node that was started anew counts anew, and its clock begins again.
            let rate = |then: u64, now: u64| now.saturating_sub(then) as f64 / seconds;
            let rates = Rates {
                published: rate(then.published, now.published),
                confirmed: rate(then.confirmed, now.confirmed),
                delivered: rate(then.delivered, now.delivered),
                acknowledged: rate(then.acknowledged, now.acknowledged),
                redelivered: rate(then.redelivered, now.redelivered),
                written_bytes: rate(then.written_bytes, now.written_bytes),
                flushes: rate(then.flushes, now.flushes),
            };
            self.past.push_back([rates.published as u64, rates.delivered as u64]);
            while self.past.len() > SAMPLES_MAX {
                self.past.pop_front();
            }
            self.rates = Some(rates);
        } else {
            self.rates = None;
        }
        self.overview = Some(overview);
        // Another page may be wanted by now; its rows come with the next answer.
        if *asked == self.asked() {
            self.stay_within();
        }
    }

    /// The node did not answer.
    pub fn miss(&mut self, why: String) {
        self.trouble = Some(why);
    }

    /// So many rows have room.
    pub fn resize(&mut self, rows: u32) -> Step {
        let rows = rows.clamp(1, ROWS_MAX);
        if std::mem::replace(&mut self.rows, rows) == rows {
            return Step::Draw;
        }
        self.chosen = self.chosen.min(rows as usize - 1);
        Step::Ask
    }

    /// How long the next look has to wait after one that took `took_ms`.
    pub fn pause_ms(&self, took_ms: u64) -> u64 {
        self.interval_ms.max(took_ms.saturating_mul(SHARE))
    }

    /// Somebody typed.
    pub fn key(&mut self, key: Key) -> Step {
        if key == Key::Interrupt {
            return Step::End;
        }
        if self.is_searching {
            return self.search_key(key);
        }
        if self.is_help {
            self.is_help = false;
            return if key == Key::Char('q') { Step::End } else { Step::Draw };
        }
        if self.opened.is_some() && !matches!(key, Key::Char('q' | '?' | 'h' | ' ' | '+' | '-')) {
            // Back to the list, which is where it was.
            let is_back = matches!(key, Key::Escape | Key::Enter | Key::Backspace | Key::Left);
            return if is_back && self.opened.take().is_some() { Step::Ask } else { Step::Draw };
        }
        match key {
            Key::Char('q') => Step::End,
            Key::Enter => self.open(),
            Key::Char('?' | 'h') => {
                self.is_help = true;
                Step::Draw
            }
            Key::Char('/') => {
                self.is_searching = true;
                Step::Draw
            }
            Key::Escape if !self.search.is_empty() => {
                self.search.clear();
                self.begin_anew()
            }
            Key::Char(' ') => {
                self.is_paused = !self.is_paused;
                if self.is_paused { Step::Draw } else { Step::Ask }
            }
            Key::Char('r') => {
                self.orders[self.list as usize].1 ^= true;
                self.begin_anew()
            }
            Key::Char('+') => self.pace(self.interval_ms / 2),
            Key::Char('-') => self.pace(self.interval_ms.saturating_mul(2)),
            Key::Tab | Key::Char('\t') => {
                self.list = match self.list {
                    List::Queues => List::Connections,
                    List::Connections => List::Queues,
                };
                self.begin_anew()
            }
            Key::Char('1') => self.turn_to(List::Queues),
            Key::Char('2') => self.turn_to(List::Connections),
            Key::Left | Key::Char('<') => self.order_by(-1),
            Key::Right | Key::Char('>') => self.order_by(1),
            Key::Up | Key::Char('k') => self.go_to(self.place().saturating_sub(1)),
            Key::Down | Key::Char('j') => self.go_to(self.place().saturating_add(1)),
            Key::PageUp => self.go_to(self.place().saturating_sub(self.rows.into())),
            Key::PageDown => self.go_to(self.place().saturating_add(self.rows.into())),
            Key::Home => self.go_to(0),
            Key::End => self.go_to(u64::MAX),
            Key::Char(_) | Key::Escape | Key::Backspace | Key::Interrupt => Step::Draw,
        }
    }

    /// Opens the queue that is chosen.
    fn open(&mut self) -> Step {
        let queues = self.overview.as_ref().map_or(&[][..], |overview| &overview.queues[..]);
        match queues.get(self.chosen).filter(|_| self.list == List::Queues) {
            Some(line) => {
                self.opened = Some([line.vhost.clone(), line.name.clone()]);
                Step::Ask
            }
            None => Step::Draw,
        }
    }

    fn search_key(&mut self, key: Key) -> Step {
        match key {
            Key::Enter => {
                self.is_searching = false;
                Step::Draw
            }
            Key::Escape => {
                self.is_searching = false;
                self.search.clear();
                self.begin_anew()
            }
            Key::Backspace => {
                self.search.pop();
                self.begin_anew()
            }
            Key::Char(letter) if !letter.is_control() && self.search.chars().count() < SEARCH_MAX => {
                self.search.push(letter);
                self.begin_anew()
            }
            _ => Step::Draw,
        }
    }

    fn turn_to(&mut self, list: List) -> Step {
        self.list = list;
        self.begin_anew()
    }

    fn begin_anew(&mut self) -> Step {
        (self.skip, self.chosen) = (0, 0);
        Step::Ask
    }

    fn pace(&mut self, interval_ms: u64) -> Step {
        self.interval_ms = interval_ms.clamp(INTERVAL_MS[0], INTERVAL_MS[1]);
        Step::Draw
    }

    fn order_by(&mut self, by: isize) -> Step {
        let (orders, (order, _)) = (self.list.orders(), self.order());
        let at = orders.iter().position(|own| *own == order).unwrap_or(0);
        let next = at.saturating_add_signed(by).min(orders.len() - 1);
        self.orders[self.list as usize] = (orders[next], false);
        self.begin_anew()
    }

    /// Which of all rows is chosen.
    fn place(&self) -> u64 {
        self.skip + self.chosen as u64
    }

    fn go_to(&mut self, place: u64) -> Step {
        let before = self.skip;
        let last = self.matched().saturating_sub(1);
        let (place, rows) = (place.min(last), u64::from(self.rows));
        if place < self.skip {
            self.skip = place;
        } else if place >= self.skip + rows {
            self.skip = place + 1 - rows;
        }
        self.chosen = (place - self.skip) as usize;
        if self.skip == before { Step::Draw } else { Step::Ask }
    }

    fn matched(&self) -> u64 {
        self.overview.as_ref().map_or(0, |overview| overview.matched)
    }

    /// Keeps the chosen row among those that are left.
    fn stay_within(&mut self) {
        let last = self.matched().saturating_sub(1);
        if self.place() > last {
            self.go_to(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::overview::{Counted, QueueLine};
    use super::*;

    pub(crate) fn overview(at_s: u64, matched: u64, published: u64) -> Overview {
        Overview {
            at_ns: at_s * 1_000_000_000,
            matched,
            counted: Counted { published, delivered: published / 2, ..Counted::default() },
            queues: (0..matched.min(10)).map(|_| QueueLine::default()).collect(),
            ..Overview::default()
        }
    }

    fn state(matched: u64) -> State {
        let mut state = State::new(List::Queues, None, "", 1000);
        state.resize(10);
        state.hear(&state.asked(), overview(1, matched, 0));
        state
    }

    /// Keys, the step that the last asks for, and the state after it: list, order, search, first row, chosen row.
    fn check(keys: &[Key], step: Step, expected: (List, Order, bool, &str, u64, usize)) {
        let mut state = state(100);
        let last = keys.iter().map(|key| state.key(*key)).last();
        let asked = state.asked();
        let is =
            (asked.list, asked.order, asked.is_reversed, asked.search.as_str(), asked.skip, state.chosen);
        assert_eq!((last, is), (Some(step), expected), "{keys:?}");
    }

    #[test]
    fn keys_lead_where_they_say() {
        use Key::*;
        use List::{Connections, Queues};
        check(&[Down], Step::Draw, (Queues, Order::Ready, false, "", 0, 1));
        check(&[PageDown], Step::Ask, (Queues, Order::Ready, false, "", 1, 9));
        check(&[End], Step::Ask, (Queues, Order::Ready, false, "", 90, 9));
        check(&[End, Down], Step::Draw, (Queues, Order::Ready, false, "", 90, 9));
        check(&[End, Home], Step::Ask, (Queues, Order::Ready, false, "", 0, 0));
        check(&[End, PageUp, Up], Step::Ask, (Queues, Order::Ready, false, "", 88, 0));
        check(&[Up], Step::Draw, (Queues, Order::Ready, false, "", 0, 0));
        check(&[Right], Step::Ask, (Queues, Order::Unacked, false, "", 0, 0));
        check(&[Left, Left, Left], Step::Ask, (Queues, Order::Name, false, "", 0, 0));
        check(&[Char('r')], Step::Ask, (Queues, Order::Ready, true, "", 0, 0));
        check(&[Char('r'), Right], Step::Ask, (Queues, Order::Unacked, false, "", 0, 0));
        check(&[Down, Tab], Step::Ask, (Connections, Order::In, false, "", 0, 0));
        check(&[Tab, Char('1')], Step::Ask, (Queues, Order::Ready, false, "", 0, 0));
        check(&[Char('/'), Char('q')], Step::Ask, (Queues, Order::Ready, false, "q", 0, 0));
        check(
            &[Char('/'), Char('q'), Char('x'), Backspace],
            Step::Ask,
            (Queues, Order::Ready, false, "q", 0, 0),
        );
        check(&[Char('/'), Char('q'), Enter, Down], Step::Draw, (Queues, Order::Ready, false, "q", 0, 1));
        check(&[Char('/'), Char('q'), Enter, Escape], Step::Ask, (Queues, Order::Ready, false, "", 0, 0));
        check(&[Char('/'), Char('q'), Escape], Step::Ask, (Queues, Order::Ready, false, "", 0, 0));
        check(&[Char('/'), Interrupt], Step::End, (Queues, Order::Ready, false, "", 0, 0));
        check(&[Char('q')], Step::End, (Queues, Order::Ready, false, "", 0, 0));
        check(&[Char('?'), Char('r')], Step::Draw, (Queues, Order::Ready, false, "", 0, 0));
        check(&[Char(' ')], Step::Draw, (Queues, Order::Ready, false, "", 0, 0));
        check(&[Char(' '), Char(' ')], Step::Ask, (Queues, Order::Ready, false, "", 0, 0));
        check(&[Char('x')], Step::Draw, (Queues, Order::Ready, false, "", 0, 0));
        check(&[Down, Enter], Step::Ask, (Queues, Order::Ready, false, "", 0, 1));
        check(&[Down, Enter, Down], Step::Draw, (Queues, Order::Ready, false, "", 0, 1));
        check(&[Down, Enter, Escape], Step::Ask, (Queues, Order::Ready, false, "", 0, 1));
        check(&[Enter, Char('q')], Step::End, (Queues, Order::Ready, false, "", 0, 0));
    }

    #[test]
    fn a_queue_is_opened_and_left() {
        let mut state = state(2);
        state.key(Key::Enter);
        assert_eq!(state.asked().opened, Some([String::new(), String::new()]));
        state.key(Key::Enter);
        assert_eq!(state.asked().opened, None);
        // Connections have no messages.
        state.key(Key::Tab);
        assert_eq!((state.key(Key::Enter), state.asked().opened), (Step::Draw, None));
    }

    #[test]
    fn rates_are_between_two_looks() {
        let mut state = state(3);
        assert_eq!(state.rates, None);
        state.hear(&state.asked(), overview(3, 3, 500));
        let rates = state.rates.unwrap();
        assert_eq!((rates.published, rates.delivered, rates.confirmed), (250.0, 125.0, 0.0));
        assert_eq!(state.past, [[250, 125]]);
        // It was started anew.
        state.hear(&state.asked(), overview(1, 3, 7));
        assert_eq!(state.rates, None);
        for second in 2..1000 {
            state.hear(&state.asked(), overview(second, 3, 7));
        }
        assert_eq!(state.past.len(), SAMPLES_MAX);
    }

    #[test]
    fn what_is_chosen_is_there() {
        let mut state = state(100);
        state.key(Key::End);
        let asked = state.asked();
        state.hear(&asked, overview(2, 5, 0));
        assert_eq!((state.skip, state.chosen), (4, 0));
        state.hear(&state.asked(), overview(3, 0, 0));
        assert_eq!((state.skip, state.chosen), (0, 0));
        // An answer to a question from before a key says nothing of the page that is wanted now.
        let mut state = self::state(100);
        let before = state.asked();
        state.key(Key::End);
        state.hear(&before, overview(2, 5, 0));
        assert_eq!(state.skip, 90);
        // Fewer rows.
        assert_eq!(state.resize(3), Step::Ask);
        assert!(state.chosen < 3);
        assert_eq!(state.resize(3), Step::Draw);
    }

    #[test]
    fn searches_and_intervals_are_bounded() {
        let mut state = state(1);
        state.key(Key::Char('/'));
        for _ in 0..SEARCH_MAX + 10 {
            state.key(Key::Char('é'));
        }
        state.key(Key::Char('\u{1b}'));
        assert_eq!(state.search.chars().count(), SEARCH_MAX);
        state.key(Key::Enter);
        for (key, expected) in [('+', INTERVAL_MS[0]), ('-', INTERVAL_MS[1])] {
            (0..20).for_each(|_| assert_eq!(state.key(Key::Char(key)), Step::Draw));
            assert_eq!(state.interval_ms, expected);
        }
        // A node that takes long is asked less often.
        assert_eq!((state.pause_ms(1), state.pause_ms(10_000)), (60_000, 200_000));
    }

    #[test]
    fn trouble_is_over_with_the_next_answer() {
        let mut state = state(1);
        state.miss("gone".into());
        assert!(state.trouble.is_some() && state.overview.is_some());
        state.hear(&state.asked(), overview(2, 1, 0));
        assert_eq!(state.trouble, None);
    }
}
