//! Bounds rolled small, so that files roll, memory runs out and windows close all the time.

use crate::machine::Makeup;
use adapters::Settings;
use base::Random;
use base::memory::BLOCK;
use broker::Limits;

/// Milliseconds for which claims are waited for where all of them are.
pub const CLAIMS_AWAITED_MS: u64 = u32::MAX as u64;

fn one_of(dice: &mut Random, choices: &[u64]) -> u64 {
    choices[dice.below(choices.len() as u64) as usize]
}

/// A node's makeup.
pub fn roll(dice: &mut Random, whole_turns: bool, agrees: bool) -> Makeup {
    let mut limits = Limits {
        message_size_max: 1 << 20,
        log_bytes_in_flight_max: one_of(dice, &[4096, 65_536, 1 << 24]) as usize,
        lazy_batch_bytes_max: one_of(dice, &[64, 4096, 65_536]) as usize,
        lazy_batch_ms_max: one_of(dice, &[0, 10, 100]),
        resident_bytes_max: one_of(dice, &[0, 8192, 65_536, 1 << 22]) as usize,
        loaded_bytes_max: one_of(dice, &[0, 8192, 65_536]) as usize,
        reads_max: one_of(dice, &[1, 4]) as usize,
        read_bytes_max: one_of(dice, &[0, 8192, 512 << 10]) as usize,
        dispatch_messages_max: one_of(dice, &[1, 3, 64, 4096]) as u32,
        spare_buffers_max: one_of(dice, &[0, 1, 4]) as usize,
        routes_max: one_of(dice, &[1, 4, 256]) as usize,
        route_steps_max: routing::STEPS_MAX,
        topic_words_max: 250,
        arguments_max: 1024,
        arguments_bytes_max: 64 << 10,
        waiting_for_bytes_max: one_of(dice, &[1, 4, 64, 16_384]) as usize,
        // Letters to a damaged log are read again for each try, one a round of a world that rests: with one try a second it
        // would never rest.
        dead_lettering_retry_ms: 20_000,
        ..Limits::default()
    };
    // A choice of its own would change what all seeds mean.
    limits.resident_delayed_bytes_max = limits.resident_bytes_max.min(limits.loaded_bytes_max);
    limits.routes_bytes_max = limits.routes_max * 400;
    limits.weighed_at_once_max = limits.waiting_for_bytes_max;
    limits.policy_steps_max = limits.waiting_for_bytes_max as u64;
    limits.policy_objects_max = limits.waiting_for_bytes_max;
    limits.taken_in_at_once_max = limits.waiting_for_bytes_max;
    limits.removed_by_each_min = limits.waiting_for_bytes_max.clamp(2, 64);
    limits.removed_at_once_max = limits.waiting_for_bytes_max;
    limits.left_at_once_max = limits.waiting_for_bytes_max;
    limits.expired_at_once_max = limits.waiting_for_bytes_max;
    limits.dead_letterings_max = limits.waiting_for_bytes_max;
    limits.dead_lettering_bytes_max = limits.log_bytes_in_flight_max;
    limits.visit_bytes_max = limits.log_bytes_in_flight_max;
    // Where queues take messages back after a while, what settles them must not be later than that for ever.
    limits.visit_items_max = (limits.waiting_for_bytes_max as u64).max(if whole_turns { 16 } else { 1 });
    limits.outbox_parcels_max = limits.waiting_for_bytes_max;
    limits.guest_bytes_max = limits.log_bytes_in_flight_max;
    // In half of the runs it is certain that what somebody holds is claimed.
    if limits.reads_max > 1 {
        limits.claims_ms_max = CLAIMS_AWAITED_MS;
    }
    // Links are cut for as long as the dice say, and a node behind them is alive.
    limits.node_lost_after_ms = u64::from(u32::MAX);
    limits.loaded_for_passes_bytes_max = limits.loaded_bytes_max * 4;
    limits.consumer_window_bytes = limits.loaded_bytes_max;
    limits.stream_dispatch_bytes_max = limits.read_bytes_max;
    limits.stream_dispatch_busy_bytes_max = limits.read_bytes_max / 2;
    limits.stream_reads_ahead = limits.reads_max > 1;
    limits.referred_bytes_min = limits.waiting_for_bytes_max;
    limits.feed_sync_bytes_min = limits.read_bytes_max as u64;
    let block = BLOCK as u64;
    let file_bytes = block * one_of(dice, &[4, 8, 16, 64]);
    let journal = journal::Limits {
        file_bytes,
        first_file_bytes: block * one_of(dice, &[2, 4]),
        spare_files: one_of(dice, &[0, 1, 2]) as usize,
        spare_files_max: one_of(dice, &[0, 2, 4]) as usize,
        packed_bytes_max: {
            // A roll that decides nothing any more; without it all seeds would mean something else.
            dice.below(3);
            one_of(dice, &[0, 1024, 16 << 10]) as usize
        },
        inline_bytes_max: one_of(dice, &[2048, 16 << 10, 8 << 20]) as usize,
        bulk_bytes_max: one_of(dice, &[8192, 256 << 10]),
        prepare_bytes: one_of(dice, &[4096, 16 << 10]) as usize,
        window_bytes: one_of(dice, &[8192, 64 << 10]) as usize,
    };
    let mut settings = Settings::new("rabbit@sim");
    settings.amqp091.heartbeat_s = 0;
    settings.amqp091.handshake_ms_max = u32::MAX;
    settings.amqp091.frame_max = one_of(dice, &[8192, 131_072]) as u32;
    settings.amqp10.idle_ms = 0;
    settings.amqp10.handshake_ms = u32::MAX;
    settings.amqp10.close_ms = u32::MAX;
    settings.amqp10.frame_bytes_max = one_of(dice, &[512, 8192, 131_072]) as u32;
    settings.amqp10.incoming_window_max = one_of(dice, &[4, 400]) as u32;
    settings.stream.limits.heartbeat_s = 0;
    settings.stream.limits.handshake_ms_max = u32::MAX;
    settings.handshake_ms_max = u64::from(u32::MAX);
    settings.output_bytes_max = one_of(dice, &[1024, 1 << 20]) as usize;
    settings.output_bytes_low = settings.output_bytes_max / 4;
    settings.unconfirmed_max = one_of(dice, &[1, 16, 65_536]);
    settings.link_credit_min = one_of(dice, &[2, 170]) as u32;
    settings.link_credit_max = one_of(dice, &[200, 4096]) as u32;
    // As with the limits: no choice of its own.
    settings.stream.initial_credits = settings.unconfirmed_max as u32;
    settings.stream.credits_required_for_unblocking = settings.unconfirmed_max as u32 / 4;
    let logs = dice.between(2, 8) as u32;
    Makeup { limits, journal, settings, follows: dice.one_in(2), whole_turns, logs, agrees, seat: None }
}
