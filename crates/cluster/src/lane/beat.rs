//! Signs of life: when a ping is due, and when the peer is given up.
//!
//! A ping is due when nothing was sent for a while, as a sign of life of this end, and when nothing came for a while, as
//! the peer may have nothing to say and its own pings may be rarer. At most one waits for the output; its answer may be
//! left out where a later ping is answered.

use super::error::Error;
use super::limits::Limits;
use base::Now;
use base::time::NS_PER_MS;

/// The clock of a lane that is open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beat {
    ping_ns: u64,
    silence_ms: u32,
    /// When this end last said something, or wanted to ping.
    said_ns: u64,
    heard_ns: u64,
    /// Pings that were sent; each has its number.
    asked: u64,
    /// The last ping that was answered.
    answered: u64,
    /// A ping is to be sent.
    pub is_due: bool,
}

impl Beat {
    /// The lane is open.
    pub fn start(&mut self, limits: &Limits, now: Now) {
        let ping_ns = u64::from(limits.ping_ms) * NS_PER_MS;
        let (said_ns, heard_ns) = (now.mono_ns, now.mono_ns);
        *self = Beat { ping_ns, silence_ms: limits.silence_ms, said_ns, heard_ns, ..Beat::default() };
    }

    /// A frame was given to the output.
    #[inline]
    pub fn note_said(&mut self, now: Now) {
        self.said_ns = now.mono_ns;
    }

    /// Bytes came.
    #[inline]
    pub fn note_heard(&mut self, now: Now) {
        self.heard_ns = now.mono_ns;
    }

    /// The number of a ping that goes out.
    pub fn ping(&mut self) -> u64 {
        self.is_due = false;
        self.asked += 1;
        self.asked
    }

    /// A ping was answered.
    pub fn pong(&mut self, number: u64) -> Result<(), Error> {
        if number <= self.answered || number > self.asked {
            return Err(Error::Pong { number });
        }
        self.answered = number;
        Ok(())
    }

    /// When there is something to do, in monotonic nanoseconds.
    pub fn deadline(&self) -> u64 {
        self.ping_at().min(self.silence_at())
    }

    fn ping_at(&self) -> u64 {
        if self.is_due {
            return u64::MAX;
        }
        let is_answered = self.answered == self.asked;
        let since_ns = if is_answered { self.said_ns.min(self.heard_ns) } else { self.said_ns };
        since_ns.saturating_add(self.ping_ns)
    }

    fn silence_at(&self) -> u64 {
        self.heard_ns.saturating_add(u64::from(self.silence_ms) * NS_PER_MS)
    }

    /// Does what is due at this time.
    ///
    /// # Errors
    /// [`Error::Silence`].
    pub fn tick(&mut self, now: Now) -> Result<(), Error> {
        if now.mono_ns >= self.silence_at() {
            return Err(Error::Silence { silence_ms: self.silence_ms });
        }
        self.is_due |= now.mono_ns >= self.ping_at();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The milliseconds of pings, and of the end, with a ping after 100 ms and an end after 350, where this end says
    /// something and hears something at these.
    fn check(said_ms: &[u64], heard_ms: &[u64], pings: &[u64], end: Option<u64>) {
        let limits = Limits { ping_ms: 100, silence_ms: 350, ..Limits::default() };
        let mut beat = Beat::default();
        beat.start(&limits, Now::at_ms(0));
        let mut found = Vec::new();
        for ms in 1..600 {
            let now = Now::at_ms(ms);
            if said_ms.contains(&ms) {
                beat.note_said(now);
            }
            if heard_ms.contains(&ms) {
                beat.note_heard(now);
            }
            if now.mono_ns < beat.deadline() {
                continue;
            }
            if beat.tick(now).is_err() {
                assert_eq!((found.as_slice(), Some(ms)), (pings, end));
                return;
            }
            assert!(beat.is_due, "a deadline means something");
            beat.ping();
            beat.note_said(now);
            found.push(ms);
        }
        assert_eq!((found.as_slice(), None), (pings, end));
    }

    #[test]
    fn pings_break_silences() {
        let always: Vec<u64> = (1..600).collect();
        check(&[], &[], &[100, 200, 300], Some(350));
        check(&always, &always, &[], None);
        check(&[], &always, &[100, 200, 300, 400, 500], None);
        check(&always, &[], &[100], Some(350));
        check(&[50, 150], &[60], &[160, 260, 360], Some(410));
    }

    #[test]
    fn pongs_answer_pings_that_were_sent() {
        let mut beat = Beat::default();
        assert_eq!(beat.pong(0), Err(Error::Pong { number: 0 }));
        assert_eq!(beat.pong(1), Err(Error::Pong { number: 1 }));
        assert_eq!((beat.ping(), beat.ping(), beat.ping()), (1, 2, 3));
        assert_eq!(beat.pong(2), Ok(()));
        assert_eq!(beat.pong(1), Err(Error::Pong { number: 1 }));
        assert_eq!(beat.pong(2), Err(Error::Pong { number: 2 }));
        assert_eq!(beat.pong(3), Ok(()));
        assert_eq!(beat.pong(4), Err(Error::Pong { number: 4 }));
    }
}
