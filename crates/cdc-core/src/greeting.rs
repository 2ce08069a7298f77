//! Which server answers, MySQL or MariaDB: what it says before anything is asked of it (MySQL internals, "Protocol::HandshakeV10").
//!
//! It is for one question. The client library takes a final zero byte off what a method of authentication sends. MariaDB's
//! ed25519 sends 32 random bytes and no zero behind them, so one login in 256 is refused although the password is right. A refusal tells
//! neither the method nor the server. So at a MariaDB it is believed when [`LOGINS`] in a row were refused, which chance does to one in 4
//! billion; at a MySQL, which may count them (`FAILED_LOGIN_ATTEMPTS`), at once.
//!
//! And where nobody answers: whether the host is away or named wrong ([`is_no_host`]), as far as that can be told.

use std::io::{ErrorKind, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

/// So many refusals in a row are believed of a MariaDB.
pub const LOGINS: u32 = 4;

/// Longer versions than servers have.
const LONGEST: usize = 256;

/// Does a MariaDB answer at this socket, or at this host and port? What does not answer within `wait` is none.
#[must_use]
pub fn is_mariadb(socket: Option<&Path>, host: &str, port: u16, wait: Duration) -> bool {
    let version = match socket {
        Some(path) => of_socket(path, wait),
        None => of_tcp(host, port, wait),
    };
    version.is_some_and(|version| version.to_ascii_lowercase().contains("mariadb"))
}

fn of_tcp(host: &str, port: u16, wait: Duration) -> Option<String> {
    let mut addresses = (host, port).to_socket_addrs().ok()?;
    let stream = addresses.find_map(|address| TcpStream::connect_timeout(&address, wait).ok())?;
    stream.set_read_timeout(Some(wait)).ok()?;
    version(stream)
}

#[cfg(unix)]
fn of_socket(path: &Path, wait: Duration) -> Option<String> {
    let stream = std::os::unix::net::UnixStream::connect(path).ok()?;
    stream.set_read_timeout(Some(wait)).ok()?;
    version(stream)
}

#[cfg(not(unix))]
fn of_socket(_: &Path, _: Duration) -> Option<String> {
    None
}

/// A packet's header, the protocol's number, and text up to a zero.
fn version(mut stream: impl Read) -> Option<String> {
    let mut start = [0; 5];
    stream.read_exact(&mut start).ok()?;
    if start[4] != 10 {
        return None;
    }
    let mut text = Vec::new();
    let mut byte = [0];
    while text.len() < LONGEST {
        match stream.read(&mut byte) {
            Ok(1) if byte[0] == 0 => return String::from_utf8(text).ok(),
            Ok(1) => text.push(byte[0]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => return None,
        }
    }
    None
}

/// Does an error of a connection say that no host has this name? (A name server that does not answer is another matter.)
#[must_use]
pub fn is_no_host(said: &str) -> bool {
    ["Name or service not known", "No address associated", "nodename nor servname"]
        .iter()
        .any(|words| said.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn only_a_greeting_has_a_version() {
        let read = |payload: &[u8]| version(&[b"\x4a\0\0\0", payload].concat()[..]);
        assert_eq!(read(b"\x0a5.5.5-10.11.8-MariaDB-log\0rest").unwrap(), "5.5.5-10.11.8-MariaDB-log");
        assert_eq!(read(b"\x0a9.7.0\0rest").unwrap(), "9.7.0");
        // too many connections; cut off; another protocol; no end
        assert_eq!(read(b"\xff\x10\x04Too many connections\0"), None);
        assert_eq!(read(b"\x0a9.7"), None);
        assert_eq!(version(&b"SSH-2.0-x\r\n"[..]), None);
        assert_eq!(read(&[10; 4 * LONGEST]), None);
    }

    #[test]
    fn a_mariadb_is_told_and_nobody_is_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let wait = Duration::from_millis(200);
        let answering = thread::spawn(move || {
            for said in [&b"\x4a\0\0\0\x0a11.8.2-MariaDB\0"[..], b"\x4a\0\0\0\x0a9.7.0\0", b""] {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(said).unwrap();
                // silence, not the end
                thread::sleep(2 * wait);
            }
        });
        let is = || is_mariadb(None, "127.0.0.1", port, wait);
        assert_eq!([is(), is(), is()], [true, false, false]);
        answering.join().unwrap();
        assert!(!is());
        assert!(!is_mariadb(Some(Path::new("/nowhere")), "127.0.0.1", port, wait));
    }

    #[test]
    fn a_name_that_no_host_has_is_told_from_a_name_server_that_is_silent() {
        assert!(is_no_host("failed to lookup address information: Name or service not known"));
        assert!(!is_no_host("failed to lookup address information: Temporary failure in name resolution"));
    }
}
