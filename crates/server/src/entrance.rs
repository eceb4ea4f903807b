//! The entrance of a node of a cluster: threads that let clients in wait there until the node's copy of the catalog has what was
//! agreed on when it came up. The planning shard tells how far the copy is.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long clients wait at most for a catalog that is as new as the start, once the copy has anything.
const CATCH_UP: Duration = Duration::from_secs(5);

/// The node's copy of the catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// It has what was agreed on when the node came up.
    pub is_caught_up: bool,
    /// It has a virtual host.
    pub has_content: bool,
}

/// The definitions that the configuration names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Import {
    /// It names none.
    #[default]
    Nothing,
    /// They are to be imported before clients come.
    Owed,
    /// They were imported.
    Done,
}

#[derive(Debug, Default)]
struct State {
    copied: Copied,
    import: Import,
    is_over: bool,
}

impl State {
    /// Clients may come, where a catalog that is as new as the start was waited for long enough or not.
    fn lets_in(&self, has_waited: bool) -> bool {
        let Copied { is_caught_up, has_content } = self.copied;
        match self.import {
            Import::Nothing => has_content && (is_caught_up || has_waited),
            Import::Owed => false,
            Import::Done => true,
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Entrance {
    state: Mutex<State>,
    changed: Condvar,
}

impl Entrance {
    /// How the copy is now.
    pub fn tell(&self, copied: Copied) {
        self.held().copied = copied;
        self.changed.notify_all();
    }

    /// The node ends: nobody waits any more.
    pub fn end(&self) {
        self.held().is_over = true;
        self.changed.notify_all();
    }

    /// Definitions are to be imported before clients come.
    pub fn owe_import(&self) {
        self.held().import = Import::Owed;
    }

    /// The definitions were imported.
    pub fn imported(&self) {
        self.held().import = Import::Done;
        self.changed.notify_all();
    }

    /// Waits until definitions can be imported, which somebody who leads the catalog has to agree to: false, the node ends.
    pub fn wait_to_import(&self) -> bool {
        let waits = |state: &mut State| !state.is_over && !state.copied.is_caught_up;
        let waited = self.changed.wait_while(self.held(), waits);
        !waited.unwrap_or_else(PoisonError::into_inner).is_over
    }

    /// Waits until clients may come, or the node ends. Where nobody leads the catalog for long, clients find what the copy has, if
    /// it has anything.
    pub fn wait(&self) {
        self.wait_for(CATCH_UP);
    }

    fn wait_for(&self, catch_up: Duration) {
        let begin = Instant::now();
        let mut state = self.held();
        loop {
            let left = catch_up.saturating_sub(begin.elapsed());
            if state.is_over || state.lets_in(left.is_zero()) {
                return;
            }
            state = match left.is_zero() {
                true => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                false => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// Waits as long, or until the node ends: whether it does.
    pub fn is_over_within(&self, time: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.held(), time, |state| !state.is_over);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }

    /// No state here is broken by a thread that panicked.
    fn held(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::thread::spawn;

    const SOON: Duration = Duration::from_millis(50);
    const FAR: Duration = Duration::from_secs(600);

    /// Whether somebody who waits `catch_up` at most is let in by this.
    fn lets_in(catch_up: Duration, act: impl FnOnce(&Entrance)) -> bool {
        let entrance = Arc::new(Entrance::default());
        let (through, is_through) = channel();
        let waiting = entrance.clone();
        let thread = spawn(move || {
            waiting.wait_for(catch_up);
            through.send(()).unwrap_or_default();
        });
        act(&entrance);
        let is_in = is_through.recv_timeout(2 * SOON).is_ok();
        entrance.end();
        thread.join().expect("it ends with the node");
        is_in
    }

    #[test]
    fn clients_wait_for_a_catalog() {
        let copied = |is_caught_up, has_content| Copied { is_caught_up, has_content };
        let cases = [
            (FAR, copied(false, false), false),
            (FAR, copied(true, false), false),
            (FAR, copied(false, true), false),
            (FAR, copied(true, true), true),
            (SOON / 50, copied(false, false), false),
            (SOON / 50, copied(false, true), true),
        ];
        for (catch_up, copied, expected) in cases {
            assert_eq!(lets_in(catch_up, |entrance| entrance.tell(copied)), expected, "{copied:?}");
        }
        assert!(lets_in(FAR, Entrance::end), "the node ends");
    }

    #[test]
    fn clients_wait_for_definitions() {
        let all = Copied { is_caught_up: true, has_content: true };
        let owes = |then: fn(&Entrance)| {
            move |entrance: &Entrance| {
                entrance.owe_import();
                entrance.tell(all);
                then(entrance);
            }
        };
        let entrance = Arc::new(Entrance::default());
        owes(|_| {})(&entrance);
        assert!(entrance.wait_to_import(), "somebody leads");
        assert!(!entrance.held().lets_in(true));
        entrance.imported();
        assert!(entrance.held().lets_in(false));
        // A catalog without a virtual host is all that they said.
        entrance.tell(Copied { is_caught_up: true, has_content: false });
        assert!(entrance.held().lets_in(false));
        let entrance = Entrance::default();
        entrance.owe_import();
        entrance.end();
        assert!(!entrance.wait_to_import());
        assert!(lets_in(FAR, |entrance| owes(Entrance::imported)(entrance)));
    }

    #[test]
    fn a_gap_ends_with_the_node() {
        let entrance = Entrance::default();
        assert!(!entrance.is_over_within(Duration::from_millis(1)));
        entrance.end();
        assert!(entrance.is_over_within(FAR));
    }
}
