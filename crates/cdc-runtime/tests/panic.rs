//! A panic of any thread ends the process at once, with a clear error: a sibling would wait for it for ever.

use std::process::Command;
use std::time::{Duration, Instant};

const CHILD: &str = "CDC_TEST_PANIC_CHILD";

#[test]
fn a_panicking_worker_ends_the_process_at_once() {
    if std::env::var_os(CHILD).is_some() {
        cdc_runtime::supervise::exit_on_panic();
        let worker = std::thread::Builder::new()
            .name("timely:work-1".into())
            .spawn(|| panic!("a frontier went back"))
            .expect("a thread");
        let _ = worker.join();
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    let start = Instant::now();
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "a_panicking_worker_ends_the_process_at_once", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("the same test as a child");
    assert_eq!(output.status.code(), Some(cdc_runtime::supervise::PANIC_EXIT));
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(printed.contains("error[E3007]") && printed.contains("a frontier went back"), "{printed}");
    assert!(printed.contains("timely:work-1") && printed.contains("panic.rs:"), "{printed}");
    assert!(start.elapsed() < Duration::from_secs(30));
}
