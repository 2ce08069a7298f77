//! A TCP proxy between a program and a server, for tests of what a network does.
//!
//! ```no_run
//! use cdc_testkit::proxy::Proxy;
//!
//! # fn main() -> anyhow::Result<()> {
//! let proxy = Proxy::start(3306)?;
//! // … the program connects to 127.0.0.1:proxy.port() …
//! proxy.cut_all(); // now: every connection ends
//! proxy.cut_after(10_000); // later: in the middle of whatever is then on its way
//! proxy.flip_after(500); // later: one bit of what the server sends is another
//! proxy.refuse(true); // new connections end at once
//! proxy.slow_down(Some(50_000)); // bytes a second
//! proxy.swallow(); // what is open stays open, and nothing passes any more; new connections do
//! # Ok(())
//! # }
//! ```

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

/// A running proxy; Drop ends it and its connections.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    ended: AtomicBool,
    refusing: AtomicBool,
    stalled: AtomicBool,
    /// Connections of lower numbers pass nothing.
    swallowed: AtomicU64,
    /// Bytes a second and connection; 0: no limit.
    rate: AtomicU64,
    /// Bytes from the server after which everything is cut; negative: never.
    cut_after: AtomicI64,
    /// Bytes from the server after which a bit is flipped; negative: never.
    flip_after: AtomicI64,
    from_server: AtomicU64,
    accepted: AtomicU64,
    /// Both ends of each connection, by number.
    open: Mutex<Vec<(u64, [TcpStream; 2])>>,
}

impl Shared {
    fn open(&self) -> std::sync::MutexGuard<'_, Vec<(u64, [TcpStream; 2])>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Proxy {
    /// Starts a proxy to this port on 127.0.0.1.
    pub fn start(server: u16) -> Result<Proxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("binding the proxy's port")?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            ended: AtomicBool::new(false),
            refusing: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            swallowed: AtomicU64::new(0),
            rate: AtomicU64::new(0),
            cut_after: AtomicI64::new(-1),
            flip_after: AtomicI64::new(-1),
            from_server: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            open: Mutex::default(),
        });
        let acceptor = thread::spawn({
            let shared = shared.clone();
            move || accept(&listener, server, &shared)
        });
        Ok(Proxy { port, shared, acceptor: Some(acceptor) })
    }

    /// The port on 127.0.0.1 to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Like [`crate::servers::Server::url`], through the proxy.
    pub fn url(&self, user: &str) -> String {
        format!("mysql://{user}:{user}@127.0.0.1:{}", self.port)
    }

    /// Ends every connection now.
    pub fn cut_all(&self) {
        for (_, ends) in self.shared.open().iter() {
            for end in ends {
                let _ = end.shutdown(Shutdown::Both);
            }
        }
    }

    /// Ends every connection once, after this many more bytes from the server.
    pub fn cut_after(&self, bytes: u32) {
        self.shared.cut_after.store(i64::from(bytes), Ordering::SeqCst);
    }

    /// Flips one bit once, in the byte behind this many more bytes from the server.
    pub fn flip_after(&self, bytes: u32) {
        self.shared.flip_after.store(i64::from(bytes), Ordering::SeqCst);
    }

    /// Whether new connections end at once. Those that are open stay open.
    pub fn refuse(&self, refuse: bool) {
        self.shared.refusing.store(refuse, Ordering::SeqCst);
    }

    /// Whether bytes are held back, with the connections open: a network that went silent.
    pub fn stall(&self, stall: bool) {
        self.shared.stalled.store(stall, Ordering::SeqCst);
    }

    /// From now on nothing passes that goes over a connection which is open now, in either direction and for ever, and none is
    /// ended: a firewall that has forgotten them. New ones pass.
    pub fn swallow(&self) {
        let next = self.shared.open().iter().map(|(number, _)| number + 1).max().unwrap_or(0);
        self.shared.swallowed.store(next, Ordering::SeqCst);
    }

    /// Limits each connection to so many bytes a second in either direction.
    pub fn slow_down(&self, bytes_per_second: Option<u64>) {
        self.shared.rate.store(bytes_per_second.map_or(0, |rate| rate.max(1)), Ordering::SeqCst);
    }

    /// How many connections are open.
    pub fn open_connections(&self) -> usize {
        self.shared.open().len()
    }

    /// How many connections were made in all; refused ones are not counted.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// How many bytes came from the server in all.
    pub fn bytes_from_server(&self) -> u64 {
        self.shared.from_server.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        // wakes the acceptor, which looks at the flag
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        self.cut_all();
    }
}

fn accept(listener: &TcpListener, server: u16, shared: &Arc<Shared>) {
    for (number, client) in (0..).zip(listener.incoming()) {
        if shared.ended.load(Ordering::SeqCst) {
            return;
        }
        let Ok(client) = client else { continue };
        if shared.refusing.load(Ordering::SeqCst) {
            continue; // dropped, so closed
        }
        // a server that is down looks the same to the client: its connection ends
        let Ok(upstream) = TcpStream::connect(("127.0.0.1", server)) else { continue };
        let _ = connect(number, &client, &upstream, shared);
    }
}

fn connect(number: u64, client: &TcpStream, upstream: &TcpStream, shared: &Arc<Shared>) -> Result<()> {
    for end in [client, upstream] {
        end.set_nodelay(true)?;
    }
    shared.accepted.fetch_add(1, Ordering::SeqCst);
    shared.open().push((number, [client.try_clone()?, upstream.try_clone()?]));
    let pumps = [
        (client.try_clone()?, upstream.try_clone()?, false),
        (upstream.try_clone()?, client.try_clone()?, true),
    ];
    for (from, to, is_from_server) in pumps {
        let shared = shared.clone();
        thread::spawn(move || {
            pump(number, &from, &to, is_from_server, &shared);
            // one direction that ends takes the other with it, as a database connection does
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
            shared.open().retain(|(other, _)| *other != number);
        });
    }
    Ok(())
}

fn pump(number: u64, mut from: &TcpStream, mut to: &TcpStream, is_from_server: bool, shared: &Shared) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let rate = shared.rate.load(Ordering::SeqCst);
        // small steps keep a slow connection steady
        let most = if rate == 0 { buffer.len() } else { buffer.len().min((rate / 20 + 1) as usize) };
        let Ok(length @ 1..) = from.read(&mut buffer[..most]) else { return };
        while shared.stalled.load(Ordering::SeqCst) && !shared.ended.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(5));
        }
        if number < shared.swallowed.load(Ordering::SeqCst) {
            continue;
        }
        let mut pass = length;
        let mut cut = false;
        if is_from_server {
            shared.from_server.fetch_add(length as u64, Ordering::SeqCst);
            if shared.flip_after.load(Ordering::SeqCst) >= 0 {
                let left = shared.flip_after.fetch_sub(length as i64, Ordering::SeqCst);
                if (0..length as i64).contains(&left) {
                    shared.flip_after.store(-1, Ordering::SeqCst);
                    buffer[left as usize] ^= 1 << (left % 8);
                }
            }
            if shared.cut_after.load(Ordering::SeqCst) >= 0 {
                let left = shared.cut_after.fetch_sub(length as i64, Ordering::SeqCst);
                cut = left >= 0 && left <= length as i64;
                if cut {
                    shared.cut_after.store(-1, Ordering::SeqCst);
                    pass = left as usize;
                }
            }
        }
        if to.write_all(&buffer[..pass]).is_err() {
            return;
        }
        if cut {
            for (_, ends) in shared.open().iter() {
                for end in ends {
                    let _ = end.shutdown(Shutdown::Both);
                }
            }
            return;
        }
        if rate > 0 {
            thread::sleep(Duration::from_secs_f64(length as f64 / rate as f64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// A server that sends back what it gets.
    fn echo() -> Result<u16> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(length @ 1..) = (&stream).read(&mut buffer) {
                        if (&stream).write_all(&buffer[..length]).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Ok(port)
    }

    fn exchange(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(bytes)?;
        let mut back = vec![0; bytes.len()];
        stream.read_exact(&mut back)?;
        Ok(back)
    }

    #[test]
    fn forwards_cuts_and_refuses() -> Result<()> {
        let proxy = Proxy::start(echo()?)?;
        let connect = || TcpStream::connect(("127.0.0.1", proxy.port()));
        let mut stream = connect()?;
        assert_eq!(exchange(&mut stream, b"hello")?, b"hello");
        proxy.refuse(true);
        assert!(exchange(&mut connect()?, b"x").is_err());
        assert_eq!(exchange(&mut stream, b"still here")?, b"still here");
        proxy.refuse(false);
        proxy.cut_all();
        assert!(exchange(&mut stream, b"x").is_err());
        assert_eq!(exchange(&mut connect()?, b"again")?, b"again");
        assert_eq!((proxy.accepted(), proxy.bytes_from_server()), (2, 20));
        Ok(())
    }

    #[test]
    fn cuts_once_in_the_middle() -> Result<()> {
        let proxy = Proxy::start(echo()?)?;
        let connect = || TcpStream::connect(("127.0.0.1", proxy.port()));
        let mut stream = connect()?;
        proxy.cut_after(7);
        stream.write_all(b"0123456789")?;
        let mut got = Vec::new();
        let _ = stream.read_to_end(&mut got);
        assert_eq!(got, b"0123456");
        assert_eq!(exchange(&mut connect()?, b"0123456789")?, b"0123456789");
        Ok(())
    }

    #[test]
    fn flips_one_bit() -> Result<()> {
        let proxy = Proxy::start(echo()?)?;
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port()))?;
        proxy.flip_after(3);
        let back = exchange(&mut stream, b"0123456789")?;
        let wrong: Vec<usize> = (0..10).filter(|&i| back[i] != b"0123456789"[i]).collect();
        assert_eq!(wrong, [3]);
        assert_eq!((back[3] ^ b'3').count_ones(), 1);
        assert_eq!(exchange(&mut stream, b"0123456789")?, b"0123456789");
        Ok(())
    }

    #[test]
    fn swallows_what_is_open_and_passes_what_is_new() -> Result<()> {
        let proxy = Proxy::start(echo()?)?;
        let connect = || TcpStream::connect(("127.0.0.1", proxy.port()));
        let mut old = connect()?;
        assert_eq!(exchange(&mut old, b"hello")?, b"hello");
        proxy.swallow();
        old.write_all(b"x")?;
        old.set_read_timeout(Some(Duration::from_millis(100)))?;
        assert!(old.read(&mut [0]).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock));
        assert_eq!(exchange(&mut connect()?, b"again")?, b"again");
        Ok(())
    }

    #[test]
    fn slows_down_and_stalls() -> Result<()> {
        let proxy = Proxy::start(echo()?)?;
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port()))?;
        proxy.slow_down(Some(10_000));
        let start = Instant::now();
        exchange(&mut stream, &[7; 4000])?;
        assert!(start.elapsed() > Duration::from_millis(300), "{:?}", start.elapsed());
        proxy.slow_down(None);
        proxy.stall(true);
        stream.set_read_timeout(Some(Duration::from_millis(100)))?;
        stream.write_all(b"x")?;
        assert!(stream.read(&mut [0]).is_err());
        proxy.stall(false);
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        assert_eq!(stream.read(&mut [0])?, 1);
        Ok(())
    }
}
