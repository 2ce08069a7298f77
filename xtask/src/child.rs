//! Child processes: never left behind, and measured.

use std::fs;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;

/// A child that is killed if it is dropped before it has ended.
pub struct Guarded(Child);

impl Guarded {
    /// Starts a program.
    pub fn spawn(command: &mut Command) -> Result<Guarded> {
        let child = command.stdin(Stdio::null()).spawn();
        Ok(Guarded(child.with_context(|| format!("starting {:?}", command.get_program()))?))
    }

    /// Asks it to end, as Ctrl-C does.
    pub fn interrupt(&self) -> Result<()> {
        // not waited for yet, so the number is still its own
        kill(Pid::from_raw(i32::try_from(self.0.id())?), Signal::SIGINT).context("sending SIGINT")
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.0.try_wait()?)
    }

    /// Waits for its end, and no longer than this.
    pub fn wait(&mut self, most: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + most;
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!("not ended after {most:?}");
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// What a program took from start to end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Seconds by the clock.
    pub wall_s: f64,
    /// Seconds of processor time, user and system.
    pub cpu_s: f64,
    /// The most memory it held, where the system tells.
    pub peak_rss_mb: Option<f64>,
}

/// Runs a program to its end and measures it. Only one at a time: processor time is that of all children
/// that ended meanwhile.
pub fn measure(command: &mut Command, most: Duration) -> Result<Cost> {
    let name = format!("{:?}", command.get_program());
    let before = children_cpu_s()?;
    let start = Instant::now();
    let mut child = Guarded::spawn(command)?;
    let mut peak_kb = None;
    let status = loop {
        if let Some(status) = child.ended()? {
            break status;
        }
        // a high-water mark, so the last look before the end is what counts
        peak_kb = high_water_kb(child.0.id()).or(peak_kb);
        ensure!(start.elapsed() < most, "{name} has not ended after {most:?}");
        thread::sleep(Duration::from_millis(2));
    };
    let wall_s = start.elapsed().as_secs_f64();
    ensure!(status.success(), "{name} failed ({status})");
    let cpu_s = children_cpu_s()? - before;
    Ok(Cost { wall_s, cpu_s, peak_rss_mb: peak_kb.map(|kb| kb as f64 / 1024.0) })
}

fn children_cpu_s() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(micros as f64 / 1e6)
}

fn high_water_kb(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
