//! What an empty node begins with: a virtual host and a user.
//!
//! Made by the same wishes as anybody's, committed before anything listens.

use crate::clock::Clock;
use crate::config::Config;
use base::id::{PortId, ShardId};
use broker::access::{PasswordHash, SALT};
use broker::catalog::{Actor, Op, VhostId};
use broker::{Event, Events, Mail, Shard};
use journal::{Disk, Journal};

/// The connection that the first wishes come from: a slot no socket has.
const PORT: PortId = PortId { shard: ShardId(0), slot: u32::MAX, generation: 0 };

/// Turns after which a wish that was not answered never will be.
const TURNS_MAX: usize = 100;

/// 64 bits from the system's randomness.
///
/// # Errors
/// Why there is none.
pub fn random_bits() -> Result<u64, String> {
    use std::io::Read;
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| format!("the system has no randomness: {error}"))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Makes the configured virtual host and user where there is no virtual host yet.
///
/// # Errors
/// Why that cannot be.
pub fn first_user(
    config: &Config,
    clock: Clock,
    shards: &mut [Shard],
    journal: &mut Journal,
    disk: &dyn Disk,
) -> Result<(), String> {
    if shards[0].catalog().vhosts().next().is_some() {
        return Ok(());
    }
    let user = &config.default_user;
    let mut salt = [0; SALT];
    salt.copy_from_slice(&random_bits()?.to_le_bytes()[..SALT]);
    let name: Box<str> = user.name.as_str().into();
    let vhost: Box<str> = user.vhost.as_str().into();
    let wishes = [
        Op::AddVhost { name: vhost.clone() },
        Op::AddUser {
            name: name.clone(),
            password: Some(PasswordHash::new(&user.password, salt)),
            tags: user.tags.iter().map(|tag| tag.as_str().into()).collect(),
        },
        Op::SetPermissions {
            user: name,
            vhost,
            configure: user.configure.as_str().into(),
            write: user.write.as_str().into(),
            read: user.read.as_str().into(),
        },
    ];
    shards[0].open_port(PORT, Actor::internal(VhostId::default(), PORT));
    let mut pump = Pump { clock, shards, journal, disk };
    for (token, wish) in wishes.into_iter().enumerate() {
        let now = clock.now();
        pump.shards[0].request(now, PORT, token as u32, wish);
        pump.until_answered(token as u32)?;
    }
    shards[0].close_port(clock.now(), PORT);
    Ok(())
}

/// Turns of all shards in one thread.
struct Pump<'a> {
    clock: Clock,
    shards: &'a mut [Shard],
    journal: &'a mut Journal,
    disk: &'a dyn Disk,
}

impl Pump<'_> {
    fn until_answered(&mut self, wanted: u32) -> Result<(), String> {
        let mut events = Events::default();
        for _ in 0..TURNS_MAX {
            self.turn()?;
            self.shards[0].take_events(&mut events);
            for (_, event) in &events.list {
                if let Event::Reply { token, reply } = event
                    && *token == wanted
                {
                    let refused = |refusal: &broker::catalog::Refusal| refusal.text.clone();
                    return reply.as_ref().map(|_| ()).map_err(refused);
                }
            }
        }
        Err("the catalog does not answer".into())
    }

    fn turn(&mut self) -> Result<(), String> {
        let now = self.clock.now();
        let mut sealed = Vec::new();
        let mut places = Vec::new();
        for shard in self.shards.iter_mut() {
            shard.end_turn(now, &mut sealed);
            if !sealed.is_empty() {
                self.journal.write(self.disk, &sealed, &mut places).map_err(|error| error.to_string())?;
                for (batch, place) in sealed.drain(..).zip(&places) {
                    shard.written(now, batch.log, batch.base, *place);
                }
            }
        }
        for from in 0..self.shards.len() {
            for to in (0..self.shards.len()).filter(|to| *to != from) {
                let mut mail: Vec<Mail> = Vec::new();
                self.shards[from].take_mail(ShardId(to as u16), &mut mail);
                for mail in mail {
                    // No connection is there yet that events could be for.
                    let _ = self.shards[to].receive(now, mail);
                }
            }
        }
        Ok(())
    }
}
