//! What a gate can reach: each probe says what came of it. Must not fail by itself, so that every attempt is made.

use std::fmt::Display;
use std::hash::{BuildHasher, RandomState};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

type Pieces = Vec<(String, String)>;

/// `ok`, or the error.
fn piece<T, E: Display>(name: &str, result: Result<T, E>) -> (String, String) {
    (
        name.to_owned(),
        result.map_or_else(|error| error.to_string(), |_| "ok".to_owned()),
    )
}

pub fn files() -> Pieces {
    vec![
        piece("read /etc/passwd", std::fs::read("/etc/passwd")),
        piece("read .", std::fs::read_dir(".").map(Iterator::count)),
        piece("write /tmp/gate", std::fs::write("/tmp/gate", "x")),
    ]
}

pub fn sockets() -> Pieces {
    vec![
        piece("connect", TcpStream::connect("127.0.0.1:80")),
        piece("listen", TcpListener::bind("127.0.0.1:0")),
        piece("udp", UdpSocket::bind("127.0.0.1:0")),
        piece(
            "resolve",
            std::net::ToSocketAddrs::to_socket_addrs("localhost:80").map(Iterator::count),
        ),
    ]
}

pub fn environment() -> Pieces {
    vec![
        ("variables".to_owned(), std::env::vars_os().count().to_string()),
        ("arguments".to_owned(), std::env::args_os().count().to_string()),
    ]
}

/// The seed of hash maps is the only randomness that the standard library asks for.
pub fn randomness() -> Pieces {
    vec![("hash".to_owned(), RandomState::new().hash_one("gate").to_string())]
}

/// Milliseconds since 1970, and the nanoseconds that pass while the gate counts to a million.
pub fn clocks() -> Pieces {
    let before = Instant::now();
    let wall = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis());
    let counted = (0..1_000_000_u64).map(std::hint::black_box).sum::<u64>();
    vec![
        ("wall-ms".to_owned(), wall.to_string()),
        ("passed-ns".to_owned(), before.elapsed().as_nanos().to_string()),
        ("counted".to_owned(), counted.to_string()),
    ]
}
