//! A database is copied and followed by the program as its users start it: restarts.

mod support;

use anyhow::Result;
use support::{Job, server};

#[test]
fn a_second_start_finds_nothing_new() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE twice; CREATE TABLE twice.t (id INT PRIMARY KEY, v VARCHAR(20)); INSERT INTO twice.t VALUES (1, 'a'), (2, NULL)")?;
    let job = Job::new(server, "twice", "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*");
    let first = job.catch_up(&[])?;
    println!("{}", first.text());
    let second = job.catch_up(&[])?;
    println!("{}", second.text());
    assert!(second.err.contains("nothing new"), "{}", second.text());
    job.verify()?;
    job.compare(server, ("twice", "t"), "t")?;
    Ok(())
}
