//! The snapshot algorithm's decisions, `cdc_mysql::snapshot::reconcile`, explored against a simulated server.
//!
//! The server appends a transaction to its log, commits it in the engine, and counts it in `gtid_executed`,
//! each a step of its own; the log reader gives out one row event a step; a chunk is announced, asks for LW,
//! selects, asks for HW and is mended in steps. Steps of all of them are interleaved in every way (short
//! histories) or at random (long ones). What is checked in every state: from the moment that all chunks are
//! done, the target equals the source *at the log reader's position* at every transaction boundary, over
//! crashes too; and something can always go on until all is read and copied.
//!
//! The tests named `without_..` take a rule out of what surrounds the decisions, or out of what they are
//! told, and must go wrong: so the explorer sees what it is there to see, and the rule is needed.
//!
//! `CDC_MODEL_SECONDS` goes on with longer histories, and with more random executions, for about that many
//! seconds; `CDC_SEED` gives another seed.

#[path = "model/explore.rs"]
mod explore;
#[path = "model/run.rs"]
mod run;
#[path = "model/server.rs"]
mod server;

use explore::{explore, shortest, wander};
use run::{Fault, Forget, Settings};
use server::{Features, Random, histories};
use std::io::Write;
use std::time::{Duration, Instant};

const FULL: Features = Features {
    keys: 0b111,
    minimal: false,
    diff: false,
    xa: false,
    truncate: true,
    pairs: false,
    more: false,
    no_moves: false,
};
const MINIMAL: Features = Features { minimal: true, diff: true, ..FULL };
const DIFF: Features = Features { truncate: false, ..MINIMAL };
const PARTLY: Features = Features { diff: false, ..DIFF };
const XA: Features = Features { xa: true, truncate: false, ..FULL };
const ALL: Features = Features { xa: true, pairs: true, more: true, ..FULL };
const ALL_MINIMAL: Features = Features { minimal: true, diff: true, ..ALL };

const ONE: Settings = Settings::BASE;
const TWO: Settings = Settings { two_chunks: true, ..ONE };
const CRASH: Settings = Settings { crashes: 1, ..ONE };
/// Everything at once, for random executions.
const ROUGH: Settings = Settings { crashes: 3, drops: 2, in_transit: true, ..TWO };

/// Past the test harness, which shows a test's output only if it fails.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: a number is wanted")))
}

/// The seed of random choices, never 0.
fn seed() -> u64 {
    variable("CDC_SEED").unwrap_or(20260101).max(1)
}

/// A test's share of a longer run: there are some thirty that go on, two run at a time.
fn until() -> Option<Instant> {
    let share = 2.0 / 32.0;
    variable("CDC_MODEL_SECONDS").map(|s| Instant::now() + Duration::from_secs_f64(s as f64 * share))
}

/// All interleavings of all histories up to a length; in a longer run of longer ones too, in random order.
fn exhaust(name: &str, c: Settings, f: Features, longest: usize) {
    let begin = Instant::now();
    let until = until();
    let mut random = Random(seed());
    let (mut count, mut states) = (0, 0);
    let mut length = 1;
    let late = || until.is_none_or(|until| Instant::now() > until);
    // 16 transactions are what a mask holds, memory ends before
    while length <= longest || !late() && length < 5 {
        let mut all = histories(length, f);
        let total = all.len();
        let mut done = 0;
        while !all.is_empty() && (length <= longest || !late()) {
            let h = all.swap_remove(random.below(all.len()));
            let explored = explore(&h, &c);
            if let Some(why) = explored.wrong {
                match shortest(&h, &c) {
                    Some(found) => panic!("{name}: {found}"),
                    None => panic!("{name}: {why} in {h:?}"),
                }
            }
            done += 1;
            states += explored.states;
        }
        if length > longest {
            say(&format!("model: {name}: {done} of {total} histories of length {length}"));
        }
        count += done;
        length += 1;
    }
    say(&format!("model: {name}: {count} histories, {states} states, {:.1?}", begin.elapsed()));
}

/// Random executions of random histories; more of them in a longer run.
fn roam(name: &str, c: Settings, f: Features) {
    let begin = Instant::now();
    let until = until();
    let seed = seed();
    let mut random = Random(seed);
    let (mut executions, mut steps) = (0, 0);
    while executions < EXECUTIONS || until.is_some_and(|until| Instant::now() < until) {
        match wander(&mut random, &c, f, 3..=12) {
            Ok(n) => steps += n,
            Err(found) => panic!("{name}: CDC_SEED={seed}, execution {executions}: {found}"),
        }
        executions += 1;
    }
    let took = begin.elapsed();
    say(&format!(
        "model: {name}: CDC_SEED={seed}: {executions} random executions, {steps} steps, {took:.1?}"
    ));
}

/// A rule taken out is caught in short histories, and the same history is right with it.
fn caught(name: &str, fault: Fault, c: Settings, f: Features) {
    let faulty = Settings { fault: Some(fault), ..c };
    let (mut count, mut states) = (0, 0);
    for h in (1..=3).flat_map(|length| histories(length, f)) {
        let explored = explore(&h, &faulty);
        count += 1;
        states += explored.states;
        if explored.wrong.is_some() {
            let found = shortest(&h, &faulty).expect("a violation that was found before");
            assert_eq!(explore(&h, &c).wrong, None, "with the rule, {h:?}");
            eprintln!("{name}: caught in {count} histories, {states} states: {found}");
            return;
        }
    }
    panic!("{name}: {count} histories, {states} states, and nothing went wrong");
}

macro_rules! tests {
    ($run:ident: $($name:ident($($argument:expr),*);)*) => {$(
        #[test]
        fn $name() {
            $run(stringify!($name), $($argument),*);
        }
    )*};
}

tests! { exhaust:
    full_images(ONE, FULL, 2);
    full_images_three_long(ONE, Features { truncate: false, no_moves: true, ..FULL }, 3);
    full_images_in_two_chunks(TWO, Features { no_moves: true, ..FULL }, 2);
    partial_images(ONE, MINIMAL, 2);
    partial_images_of_all_columns(ONE, Features { more: true, ..MINIMAL }, 2);
    partial_images_in_two_chunks(Settings { keep_small: true, ..TWO }, MINIMAL, 1);
    partial_images_that_no_target_follows(Settings { keep_small: true, lost: true, ..TWO }, MINIMAL, 1);
    one_key(ONE, Features { keys: 0b001, more: true, ..DIFF }, 3);
    two_events_a_transaction(ONE, Features { pairs: true, truncate: false, diff: false, ..MINIMAL }, 1);
    commits_out_of_order(Settings { order_off: true, ..ONE }, MINIMAL, 2);
    low_watermarks_in_transit(Settings { order_off: true, in_transit: true, ..ONE }, MINIMAL, 2);
    forgetting_at_any_time(Settings { forget: Forget::AnyTime, ..ONE }, DIFF, 2);
    never_forgetting(Settings { forget: Forget::Never, keep_small: true, ..ONE }, MINIMAL, 2);
    a_chunk_dropped(Settings { drops: 1, ..ONE }, PARTLY, 2);
    xa(ONE, XA, 3);
    xa_in_two_chunks(TWO, Features { more: true, ..XA }, 2);
    xa_waited_for_at_the_start(Settings { xa_wait: true, ..ONE }, XA, 2);
    mariadb(Settings { mariadb: true, ..ONE }, FULL, 2);
    mariadb_in_two_chunks(Settings { mariadb: true, ..TWO }, MINIMAL, 1);
    mariadb_partial_images(Settings { mariadb: true, ..ONE }, MINIMAL, 2);
    a_crash(Settings { crashes: 1, ..ONE }, FULL, 2);
    a_crash_with_partial_images(Settings { crashes: 1, order_off: true, ..ONE }, MINIMAL, 1);
    a_crash_with_two_chunks(Settings { crashes: 1, ..TWO }, FULL, 1);
    a_crash_with_xa(Settings { crashes: 1, ..ONE }, Features { no_moves: true, ..XA }, 2);
    two_crashes(Settings { crashes: 2, ..ONE }, FULL, 1);
}

const EXECUTIONS: u64 = 2000;

tests! { roam:
    random_full_images(ROUGH, ALL);
    random_partial_images(ROUGH, ALL_MINIMAL);
    random_partial_images_kept_small(Settings { keep_small: true, ..ROUGH }, ALL_MINIMAL);
    random_partial_images_that_no_target_follows(Settings { keep_small: true, lost: true, ..ROUGH }, ALL_MINIMAL);
    random_commits_out_of_order(Settings { order_off: true, ..ROUGH }, ALL);
    random_commits_out_of_order_partial_images(Settings { order_off: true, ..ROUGH }, ALL_MINIMAL);
    random_forgetting(Settings { order_off: true, forget: Forget::AnyTime, ..ROUGH }, ALL_MINIMAL);
    random_never_forgetting(Settings { forget: Forget::Never, ..ROUGH }, ALL_MINIMAL);
    random_mariadb(Settings { mariadb: true, ..ROUGH }, ALL_MINIMAL);
    random_many_in_flight(Settings { in_flight: 5, keep_small: true, order_off: true, ..ROUGH }, ALL_MINIMAL);
}

tests! { caught:
    without_a_low_watermark_from_executed(Fault::LowIsWrittenEnd, ONE, FULL);
    without_a_low_watermark_from_a_snapshot(Fault::LowIsWrittenEnd, Settings { mariadb: true, ..ONE }, FULL);
    without_low_before_select(Fault::LowAfterSelect, ONE, FULL);
    without_a_high_watermark_from_the_written_end(Fault::HighIsExecuted, ONE, FULL);
    without_waiting_for_the_high_watermark(Fault::HighNotAwaited, ONE, FULL);
    without_reached_at_the_high_watermark(Fault::ReachedIsAfter, ONE, FULL);
    without_skipped_ones_reached(Fault::SkippedNotReached, ONE, FULL);
    without_budgets_of_their_own(Fault::OneBudget, TWO, FULL);
    without_a_lower_bound_of_low_watermarks(Fault::ExecutedIsWrittenEnd, ONE, FULL);
    without_announcing_first(Fault::AnnouncedAfterSelect, ONE, FULL);
    without_the_check_of_low_after_a_restart(Fault::RestartForgets, CRASH, FULL);
    without_noting_what_is_replayed(Fault::ReplayNotNoted, CRASH, FULL);
    without_overlays(Fault::PartlyDropped, ONE, PARTLY);
    without_the_last_transaction_of_a_key(Fault::FirstTransactionKept, ONE, FULL);
    without_ddl(Fault::DdlNotNoted, ONE, FULL);
    without_ddl_read_before_an_announcement(Fault::DdlOnlyInFlight, ONE, FULL);
    without_ddl_behind_the_high_watermark(Fault::DdlOnlyToHigh, ONE, FULL);
    without_xa_noted_at_commit(Fault::XaNotedAtPrepare, ONE, XA);
    without_xa_held_over_a_restart(Fault::XaLostByRestart, CRASH, XA);
    without_asking_for_xa_branches(Fault::XaRecoverNotAsked, ONE, XA);
    without_xa_visible_before_it_is_counted(Fault::XaCountedEarly, ONE, XA);
    without_w0(Fault::StartAtExecutedOnly, Settings { order_off: true, ..ONE }, FULL);
    without_low_holding_all_up_to_w0(Fault::StartAtWrittenOnly, ONE, FULL);
    without_a_small_chunk_for_a_moved_key(Fault::MoveNotQueued, ONE, PARTLY);
    without_a_moved_key_being_unknown(Fault::MoveTakenAsKnown, ONE, PARTLY);
    without_the_wait_of_small_chunks(Fault::SmallChunkAsAnyOther, ONE, PARTLY);
    without_reading_unknown_keys_again(Fault::AgainIgnored, ONE, DIFF);
    without_a_diff_being_unknown(Fault::DiffTakenAsKnown, ONE, DIFF);
    without_the_sink_having_committed(Fault::FinishedBeforeCommit, CRASH, FULL);
    without_a_tick_not_committed(Fault::RowsInCommittedTick, ONE, FULL);
    without_a_tick_not_replayed(Fault::RowsInReplayedTick, CRASH, FULL);
    without_a_first_checkpoint(Fault::CommitBeforeCheckpoint, CRASH, FULL);
    without_an_order_of_rows(Fault::RowsLate, ONE, FULL);
    without_numbers_of_chunks(Fault::LateAnswerTaken, Settings { drops: 1, ..ONE }, FULL);
}

/// Random executions see faults as well.
#[test]
fn random_executions_catch_faults() {
    let off = Settings { order_off: true, ..ROUGH };
    let faults = [
        (Fault::LowIsWrittenEnd, ROUGH, ALL),
        (Fault::HighIsExecuted, ROUGH, ALL),
        (Fault::AnnouncedAfterSelect, ROUGH, ALL),
        (Fault::RestartForgets, ROUGH, ALL),
        (Fault::PartlyDropped, ROUGH, ALL_MINIMAL),
        (Fault::DdlNotNoted, ROUGH, ALL),
        (Fault::XaNotedAtPrepare, ROUGH, ALL),
        (Fault::StartAtExecutedOnly, off, ALL),
        (Fault::MoveTakenAsKnown, off, ALL_MINIMAL),
        (Fault::FinishedBeforeCommit, ROUGH, ALL),
        (Fault::LateAnswerTaken, ROUGH, ALL),
    ];
    for (fault, c, f) in faults {
        let c = Settings { fault: Some(fault), ..c };
        let mut random = Random(seed());
        let found = (0..20_000).find(|_| wander(&mut random, &c, f, 3..=12).is_err());
        let Some(executions) = found else { panic!("{fault:?} was not caught, CDC_SEED={}", seed()) };
        eprintln!("{fault:?}: caught in {executions} random executions");
    }
}
