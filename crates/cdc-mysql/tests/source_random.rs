//! Random histories run while tables are copied and followed, and the source is killed and resumed at random
//! boundaries, from states that are older than what the target has (as after a crash between the target's commit
//! and the state's). The end must equal the source. `CDC_SEED` runs one seed.

mod common;

use anyhow::{Context, Result, ensure};
use cdc_mysql::capture::{Capture, CaptureState};
use cdc_testkit::history::{History, HistoryOptions, Length};
use common::{Copy, assert_all_equal, config, server};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;

const SEEDS: [u64; 3] = [1, 20, 300];

const KILLS: usize = 8;

async fn check(seed: u64) -> Result<()> {
    let server = server();
    let database = format!("random_{seed}");
    let options = HistoryOptions {
        seed,
        database: database.clone(),
        initial_rows: 250,
        rate: Some(150),
        ..HistoryOptions::default()
    };
    let mut rng = StdRng::seed_from_u64(seed);
    let writers = History::create(server, options)?.start(server, Length::Transactions(300))?;
    let mut config = config(server, &[&format!("{database}.*")]);
    config.chunk_rows = rng.random_range(3..12);
    config.chunk_readers = rng.random_range(1..4);
    common::dawdle(&mut config, Duration::from_millis(rng.random_range(0..4)));
    let mut capture = Capture::start(config.clone()).await?;
    let mut copy = Copy::of(&capture);
    let mut replayed = 0;
    for _ in 0..KILLS {
        // states on the way, each as old as it gets; the copy goes on
        let mut states: Vec<String> = Vec::new();
        for _ in 0..rng.random_range(2..5) {
            let mut left: u32 = rng.random_range(2..60);
            copy.run(&mut capture, |capture, _| {
                left = left.saturating_sub(1);
                left == 0 && capture.is_past_hold()
            })
            .await?;
            states.push(serde_json::to_string(&capture.state())?);
        }
        // the target is at the last boundary, and the state at any of them
        let target = capture.position();
        drop(capture);
        let state: CaptureState = serde_json::from_str(&states[rng.random_range(0..states.len() - 1)])?;
        replayed += u32::from(state.position != target);
        capture = Capture::resume(config.clone(), &state).await?;
        capture.hold_chunks_until(&target)?;
        copy.resume(&capture);
    }
    // the snapshot may end before the history or after it
    copy.run(&mut capture, |capture, _| capture.is_whole()).await?;
    let under_writers = writers.is_running();
    let history = writers.wait()?;
    copy.catch_up(&mut capture).await?;
    ensure!(history.expected_rows() == history.actual_rows(server)?);
    eprintln!(
        "seed {seed}: {} transactions, {} chunks, {} changes, {replayed} of {KILLS} resumed behind the target; \
         whole under writers: {under_writers}",
        history.transactions(),
        copy.chunks.len(),
        copy.log.len()
    );
    assert_all_equal(server, &copy).await.with_context(|| format!("CDC_SEED={seed}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_18_75_killed_and_resumed_under_random_histories() -> Result<()> {
    let seeds = match std::env::var("CDC_SEED") {
        Ok(seed) => vec![seed.parse()?],
        Err(_) => SEEDS.to_vec(),
    };
    for seed in seeds {
        check(seed).await.with_context(|| format!("CDC_SEED={seed}"))?;
    }
    Ok(())
}
