//! The admin port as whoever asks sees it, over a socket and in real time: kubelets, Prometheus, and clients that mean ill.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::{asked, serve};
use crate::shell::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_are_answered_as_the_kubernetes_api_server_answers_its_own() {
    let world = World::start().await;
    let port = serve(&world.running).await;
    let deadline = Instant::now() + Duration::from_secs(10);
    while asked(port.address, "/readyz").await != (200, "ok".to_owned()) {
        assert!(Instant::now() < deadline, "{:?}", asked(port.address, "/readyz").await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(asked(port.address, "/livez").await, (200, "ok".to_owned()));
    let (code, body) = asked(port.address, "/livez?verbose").await;
    let lines = [
        "[+]ping ok",
        "[+]evaluator ok",
        "[+]queue/staging ok",
        "[+]queue/binding ok",
        "[+]queue/combine ok",
    ];
    for line in lines {
        assert!(body.lines().any(|told| told == line), "{body}");
    }
    assert_eq!((code, body.lines().last()), (200, Some("livez check passed")));
    let (code, body) = asked(port.address, "/readyz?timeout=1&verbose=1").await;
    assert!(code == 200 && body.contains("[+]watch/bindings ok\n"), "{body}");

    let health = world.running.health();
    world.stop().await;
    assert!(health.ready().iter().any(|check| check.failure.is_some()));
    let (code, body) = asked(port.address, "/readyz").await;
    assert!(
        code == 503 && body.contains("[-]shutdown failed: stopping\n"),
        "{code} {body}"
    );
    assert!(body.ends_with("readyz check failed\n"), "{body}");
    assert_eq!(
        asked(port.address, "/livez").await.0,
        200,
        "stopping is no reason to be restarted"
    );
}

/// What is sent, and how the answer begins; nothing: the connection is closed.
const ODD: &[(&[u8], &str)] = &[
    (
        b"POST /livez HTTP/1.1\r\nhost: a\r\ncontent-length: 9999999999\r\n\r\n",
        "HTTP/1.1 405",
    ),
    (b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", "HTTP/1.1 404"),
    (b"GET /livez/../etc HTTP/1.1\r\nhost: a\r\n\r\n", "HTTP/1.1 404"),
    (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello\r\n\r\n",
        "HTTP/1.1 400",
    ),
    (
        b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\nGET /livez HTTP/1.1\r\nhost: a\r\n\r\n",
        "HTTP/1.1 200",
    ),
];

/// Whether the server has neither closed nor reset it within so long.
fn is_open(mut stream: &TcpStream, within: Duration) -> bool {
    stream.set_read_timeout(Some(within)).unwrap();
    let ended = stream.read_to_end(&mut Vec::new());
    ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_requests_are_answered_shortly_and_a_probe_gets_through_whoever_else_hangs_on() {
    let world = World::start().await;
    let port = serve(&world.running).await;
    let address = port.address;
    tokio::task::spawn_blocking(move || {
        for (sent, expected) in ODD {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            stream.write_all(sent).unwrap();
            let mut answer = Vec::new();
            // A connection that is closed with bytes unread may end in a reset after the answer.
            let _ended = stream.read_to_end(&mut answer);
            let answer = String::from_utf8_lossy(&answer);
            assert!(answer.starts_with(expected), "{answer}");
            assert_eq!(
                answer.matches("HTTP/1.1").count(),
                1,
                "one request for each connection: {answer}"
            );
        }
        let endless = [b"GET /livez HTTP/1.1\r\n".to_vec(), vec![b'x'; 1 << 20]].concat();
        let mut stream = TcpStream::connect(address).unwrap();
        let _cut_off = stream.write_all(&endless);
        let mut answer = String::new();
        let _ended = stream.read_to_string(&mut answer);
        assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");

        // More than there may be, each with a request that is never finished.
        let mut hanging = Vec::new();
        for _ in 0..300 {
            let mut stream = TcpStream::connect(address).unwrap();
            // It may have been closed to make room by now.
            let _sent = stream.write_all(b"GET /livez HTTP/1.1\r\n");
            hanging.push(stream);
            if hanging.len() % 50 == 0 {
                let asked = Instant::now();
                assert_eq!(super::get(address, "/livez").unwrap(), (200, "ok".to_owned()));
                assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
            }
        }
        let open = hanging
            .iter()
            .filter(|stream| is_open(stream, Duration::from_millis(1)));
        assert!(open.count() <= 64, "the oldest make room for the newest");
        std::thread::sleep(Duration::from_secs(6));
        for stream in hanging {
            assert!(
                !is_open(&stream, Duration::from_secs(6)),
                "a connection outlives its time"
            );
        }
    })
    .await
    .unwrap();
    world.stop().await;
}
