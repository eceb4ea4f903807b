//! Tables of what is taken, refused and given back.

use super::*;

const MIB: usize = 1 << 20;

fn ledger(limits: LedgerLimits, watermark: Option<u64>) -> Arc<Ledger> {
    let ledger = Ledger::new(limits);
    ledger.set_watermark(watermark);
    Arc::new(ledger)
}

fn open(ledger: &Arc<Ledger>, user: &str, vhost: &str) -> Holding {
    ledger.open(&user.into(), &vhost.into())
}

fn shares() -> LedgerLimits {
    LedgerLimits { user_share: Some(0.25), lone_user_share: Some(0.75), ..LedgerLimits::default() }
}

/// Bytes that `holding` can take in steps, and the bound that stops it.
fn fill(holding: &mut Holding, step: usize) -> (u64, Bound) {
    loop {
        if let Err(full) = holding.take(Kind::Bodies, step) {
            return (holding.held(), full.bound);
        }
    }
}

#[test]
fn counts_exactly_and_reserves_in_pieces() {
    let ledger = ledger(LedgerLimits::default(), None);
    let mut holding = open(&ledger, "u", "v");
    assert_eq!((holding.held(), ledger.held()), (0, 0));
    // Taken, held then, reserved then.
    let rows = [
        (1, 1, 4097),
        (4096, 4097, 4097),
        (1, 4098, 8194),
        (100_000, 104_098, 104_098 + 104_098 / 8),
        (10_000, 114_098, 104_098 + 104_098 / 8),
    ];
    for (bytes, held, reserved) in rows {
        holding.take(Kind::Caches, bytes).expect("there are no bounds");
        assert_eq!((holding.held(), ledger.held()), (held, reserved), "{bytes}");
    }
    let rows = [(14_098, 100_000, 104_098 + 104_098 / 8), (90_000, 10_000, 14_096), (10_000, 0, 0)];
    for (bytes, held, reserved) in rows {
        holding.give(Kind::Caches, bytes);
        assert_eq!((holding.held(), ledger.held()), (held, reserved), "{bytes}");
    }
}

/// At a bound no piece is reserved beyond what is kept whatever the bounds are.
#[test]
fn what_cannot_be_refused_reserves_no_more_than_it_takes_at_a_bound() {
    let ledger = ledger(shares(), Some(100 * MIB as u64));
    let (mut first, mut second) = (open(&ledger, "u", "v"), open(&ledger, "u", "v"));
    let _other = open(&ledger, "other", "v");
    first.take(Kind::Arguments, 16 * MIB).expect("there is room");
    assert_eq!(fill(&mut second, MIB / 8).1, Bound::User);
    for holding in [&mut first, &mut second] {
        // The first has what is left of its piece.
        holding.keep(Kind::Input, 3 * MIB);
        holding.keep(Kind::Input, 1);
    }
    assert_eq!(ledger.held(), first.held() + second.held());
    assert!(ledger.held() <= 31 * MIB as u64 + 2, "{}", ledger.held());
    first.give(Kind::Input, 3 * MIB + 1);
    second.give(Kind::Input, 3 * MIB + 1);
    assert!(ledger.held() <= 29 * MIB as u64, "{}", ledger.held());
}

#[test]
fn kinds_are_counted_apart() {
    let ledger = ledger(LedgerLimits::default(), None);
    let mut holding = open(&ledger, "u", "v");
    for (at, kind) in Kind::ALL.into_iter().enumerate() {
        holding.take(kind, 10 + at).expect("there are no bounds");
    }
    for (at, kind) in Kind::ALL.into_iter().enumerate() {
        assert_eq!(holding.held_of(kind), 10 + at as u64, "{}", kind.name());
    }
    assert_eq!(holding.held(), 145);
    holding.set(Kind::Output, 113);
    holding.set(Kind::Caches, 5);
    holding.give_all(Kind::Bodies);
    assert_eq!((holding.held_of(Kind::Output), holding.held()), (113, 222));
}

#[test]
fn each_bound_refuses_and_says_so() {
    let one = LedgerLimits { connection_max: Some(100_000), ..LedgerLimits::default() };
    let vhost = LedgerLimits { vhost_share: Some(0.5), ..LedgerLimits::default() };
    let rows = [
        (one, None, (100_000, Bound::Connection), "connection holds 100000 of at most 100000 bytes"),
        (shares(), Some(MIB), (750_000, Bound::LoneUser), "user 'u' holds 786000 of at most 786432 bytes"),
        (vhost, Some(MIB), (524_000, Bound::Vhost), "vhost 'v' holds 524000 of at most 524288 bytes"),
        (
            LedgerLimits::default(),
            Some(MIB),
            (1_048_000, Bound::Node),
            "node holds 1048000 of at most 1048576",
        ),
    ];
    for (limits, watermark, (held, bound), text) in rows {
        let ledger = ledger(limits, watermark.map(|bytes| bytes as u64));
        let mut holding = open(&ledger, "u", "v");
        let (filled, found) = fill(&mut holding, 1000);
        assert_eq!(found, bound);
        assert!(filled >= held, "{filled} {bound:?}");
        let full = holding.take(Kind::Replies, 1000).expect_err("it is full");
        assert!(full.to_string().starts_with(text) && full.to_string().contains(bound.key()), "{full}");
        // A smaller request may find room; the refused one took nothing.
        assert_eq!(holding.held_of(Kind::Replies), 0);
        assert_eq!(ledger.held(), filled);
        let rows = ledger.rows();
        let refusals = [rows.node.refusals, rows.users[0].refusals, rows.vhosts[0].refusals];
        assert_eq!((refusals.iter().sum::<u64>(), ledger.refusals()), (2, 2), "{refusals:?}");
    }
}

#[test]
fn a_user_alone_may_hold_more_than_beside_another() {
    let ledger = ledger(shares(), Some(100 * MIB as u64));
    let mut first = open(&ledger, "first", "v");
    let (filled, bound) = fill(&mut first, MIB);
    assert_eq!((filled, bound), (75 * MIB as u64, Bound::LoneUser));
    let mut second = open(&ledger, "second", "v");
    // The other has his share, and what the first holds beyond his own stays.
    first.give(Kind::Bodies, 40 * MIB);
    // All that he can take is the rest of the piece that is reserved.
    let (filled, bound) = fill(&mut first, MIB);
    assert!((35..=40).contains(&(filled >> 20)) && bound == Bound::User, "{filled} {bound:?}");
    assert_eq!(fill(&mut second, MIB), (25 * MIB as u64, Bound::User));
    // A second connection of a user has no share of its own.
    let mut third = open(&ledger, "second", "w");
    assert_eq!(fill(&mut third, MIB), (0, Bound::User));
    drop((second, third));
    assert_eq!(fill(&mut first, MIB), (75 * MIB as u64, Bound::LoneUser));
    // The watermark falls, and rises.
    first.give(Kind::Bodies, 65 * MIB);
    ledger.set_watermark(Some(20 * MIB as u64));
    assert_eq!(fill(&mut first, MIB), (15 * MIB as u64, Bound::LoneUser));
    ledger.set_watermark(None);
    first.take(Kind::Bodies, 200 * MIB).expect("there is no bound");
}

#[test]
fn a_limit_of_its_own_counts_in_place_of_the_share() {
    let ledger = ledger(shares(), Some(100 * MIB as u64));
    ledger.set_user_max("u", Some(2 * MIB as u64));
    ledger.set_vhost_max("w", Some(MIB as u64));
    let (mut v, mut w) = (open(&ledger, "u", "v"), open(&ledger, "u", "w"));
    assert_eq!(fill(&mut w, MIB), (MIB as u64, Bound::VhostLimit));
    assert_eq!(fill(&mut v, MIB), (MIB as u64, Bound::UserLimit));
    ledger.set_user_max("u", None);
    assert_eq!(fill(&mut v, MIB), (74 * MIB as u64, Bound::LoneUser));
    drop((v, w));
    // A limit outlives connections; without one nothing is kept of a user who is gone.
    let names = |rows: &[AccountRow]| rows.iter().map(|row| row.name.to_string()).collect::<Vec<_>>();
    let rows = ledger.rows();
    assert_eq!((names(&rows.users), names(&rows.vhosts)), (vec![], vec!["w".to_owned()]));
    ledger.set_vhost_max("w", None);
    assert!(ledger.rows().vhosts.is_empty() && ledger.tables().tenants.is_empty());
}

#[test]
fn what_is_kept_whatever_the_bounds_are_is_counted() {
    let limits = LedgerLimits { connection_max: Some(10_000), ..LedgerLimits::default() };
    let ledger = ledger(limits, None);
    let mut holding = open(&ledger, "u", "v");
    assert_eq!(holding.full(), None);
    holding.keep(Kind::Transactions, 20_000);
    assert_eq!(holding.held(), 20_000);
    assert_eq!(holding.full().map(|full| full.bound), Some(Bound::Connection));
    assert!(holding.take(Kind::Bodies, 1).is_err());
    holding.give(Kind::Transactions, 15_000);
    assert_eq!(holding.full(), None);
    holding.take(Kind::Bodies, 1).expect("there is room again");
}

#[test]
fn a_dropped_holding_gives_all_back_wherever_it_went() {
    let ledger = ledger(shares(), Some(100 * MIB as u64));
    let holdings = [("a", "v"), ("a", "w"), ("b", "v")].map(|(user, vhost)| {
        let mut holding = open(&ledger, user, vhost);
        holding.take(Kind::Transactions, 3 * MIB).expect("there is room");
        holding.keep(Kind::Output, 12_345);
        holding
    });
    let held: u64 = holdings.iter().map(Holding::held).sum();
    assert!(ledger.held() >= held && ledger.held() <= held + held / 8 + 3 * 4096, "{held}");
    let rows = ledger.rows();
    assert_eq!(rows.users.iter().map(|row| row.connections).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(rows.users.iter().map(|row| row.held).sum::<u64>(), ledger.held());
    assert_eq!(rows.vhosts.iter().map(|row| row.held).sum::<u64>(), ledger.held());
    assert_eq!((rows.node.connections, rows.users[0].most), (3, Some(25 * MIB as u64)));
    // To another thread, as to another shard.
    std::thread::scope(|scope| {
        holdings.into_iter().for_each(|holding| _ = scope.spawn(move || drop(holding)))
    });
    let rows = ledger.rows();
    assert_eq!((rows.node.held, rows.node.connections), (0, 0));
    assert!(rows.users.is_empty() && rows.vhosts.is_empty());
    assert_eq!(ledger.users.load(Relaxed), 0);
}

#[test]
fn many_threads_never_hold_more_than_may_be_held() {
    let ledger = ledger(shares(), Some(4 * MIB as u64));
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let ledger = &ledger;
            scope.spawn(move || {
                let mut dice = base::Random::new(thread);
                let mut holding = open(ledger, "u", "v");
                for _ in 0..2000 {
                    let bytes = dice.below(200_000) as usize;
                    if holding.take(Kind::Bodies, bytes).is_err() {
                        holding.give_all(Kind::Bodies);
                    }
                    assert!(
                        ledger.held() <= 2 * 4 * MIB as u64,
                        "what is tried and refused is all there is more"
                    );
                }
            });
        }
    });
    assert_eq!(ledger.held(), 0);
}

#[test]
fn output_that_is_not_read_is_bounded_for_a_user() {
    let limits = LedgerLimits { user_unread_max: Some(1000), ..LedgerLimits::default() };
    let ledger = ledger(limits, None);
    let [mut first, mut second, other] = ["u", "u", "w"].map(|user| open(&ledger, user, "v"));
    let are_unread = |all: [&Holding; 3]| all.map(Holding::is_unread);
    first.set(Kind::Output, 700);
    second.set(Kind::Output, 300);
    second.set(Kind::Input, 500);
    assert_eq!(are_unread([&first, &second, &other]), [false; 3]);
    second.set(Kind::Output, 301);
    assert_eq!(are_unread([&first, &second, &other]), [true, true, false]);
    first.set(Kind::Output, 0);
    assert_eq!((second.is_unread(), second.full()), (false, None));
    first.set(Kind::Output, 5000);
    drop(first);
    assert!(!second.is_unread());
}

#[test]
fn a_holding_without_accounts_counts_nothing() {
    let mut holding = Holding::default();
    holding.take(Kind::Bodies, usize::MAX).expect("nobody is asked");
    holding.keep(Kind::Bodies, 7);
    holding.give(Kind::Bodies, 9);
    assert_eq!((holding.held(), holding.full()), (0, None));
    assert_eq!(size_of::<Holding>(), 16);
}
