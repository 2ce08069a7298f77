//! What `cargo xtask bench` measures as `upsert`: `upserts map|upserts|operator CHANGES KEYS` prints seconds by the clock, seconds of the processor
//! and the most memory in MB, all of the work alone, without the making of what goes in. `upserts extremes CHANGES ROWS` (`extremes`) does so for changes of a
//! group of so many rows: what they take beyond the rows alone.

use cdc_benches::table;
use cdc_benches::views::{
    EXTREMES_VIEW, ITEMS, PLAIN_VIEW, bound, by_map, by_upserts, group_records, item_records, items, run,
};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::error::Error;
use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

/// The program's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn cpu_s() -> Result<f64, Box<dyn Error>> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok((usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6)
}

/// Changes of a group of so many rows.
fn extremes(changes: u64, rows: u64) -> Result<(), Box<dyn Error>> {
    let schema = table(ITEMS);
    let bound = bound(EXTREMES_VIEW, std::slice::from_ref(&schema));
    let once = |changes: u64| -> Result<(f64, f64), Box<dyn Error>> {
        let records = group_records(&schema, rows, changes);
        let (start, cpu) = (Instant::now(), cpu_s()?);
        let done = run(&bound, records, 1);
        let spent = (start.elapsed().as_secs_f64(), cpu_s()? - cpu);
        // every other change is of the least or the greatest
        if done < changes / 4 {
            return Err(format!("{done} rows came out").into());
        }
        Ok(spent)
    };
    let (alone, both) = (once(0)?, once(changes)?);
    let peak = getrusage(UsageWho::RUSAGE_SELF)?.max_rss() as f64 / 1024.0;
    writeln!(io::stdout(), "{} {} {peak}", (both.0 - alone.0).max(0.0), (both.1 - alone.1).max(0.0))?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, way, changes, keys] = &args[..] else {
        return Err("upserts map|upserts|operator|extremes CHANGES KEYS".into());
    };
    let (changes, keys) = (changes.parse::<u64>()?, keys.parse::<u64>()?);
    let schema = table(ITEMS);
    if way == "extremes" {
        return extremes(changes, keys);
    }
    let items = items(changes, keys);
    let records = if way == "operator" { item_records(&schema, &items) } else { Vec::new() };
    let bound = bound(PLAIN_VIEW, &[schema]);
    let (start, cpu) = (Instant::now(), cpu_s()?);
    let (done, least) = match way.as_str() {
        "map" => (black_box(by_map(&items)) as u64, 1),
        "upserts" => (black_box(by_upserts(&items)) as u64, 1),
        // most keys change once in a tick
        "operator" => (run(&bound, records, 1), changes / 2),
        other => return Err(format!("no way \"{other}\"").into()),
    };
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_s()? - cpu);
    if done < least {
        return Err(format!("{done} rows came out").into());
    }
    let peak = getrusage(UsageWho::RUSAGE_SELF)?.max_rss() as f64 / 1024.0;
    writeln!(io::stdout(), "{wall} {cpu} {peak}")?;
    Ok(())
}
