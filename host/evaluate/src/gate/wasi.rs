//! What WASI gives to gates, which is nothing: no environment, arguments, files or sockets; clocks that stand; randomness that
//! the request decides. Must not know the rest of what a call has.

use std::convert::Infallible;
use std::future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rand_core::TryRng;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx};

use super::wire::Request;

/// Most bytes of randomness in one call of the guest.
const RANDOM_BYTES_MAX: u64 = 64 << 10;
/// What a gate may write to its standard output and error together, and how much of its end is kept.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
const TAIL_BYTES: usize = 4 << 10;

/// Time and randomness of a call: all that it may depend on beside its request, made of the request.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    now_ms: u64,
    seed: [u8; 32],
}

impl Moment {
    /// Of a description: the same for ever.
    pub(super) const DESCRIBING: Moment = Moment {
        now_ms: 0,
        seed: [0; 32],
    };

    /// The seed covers what tells judgements apart, and not every row: the same request always has the same, which is all
    /// that is promised, and hashing the evidence would cost more than most gates.
    pub(super) fn of(request: &Request) -> Self {
        let mut digest = Sha256::new();
        let texts = [&request.policy, &request.stage, &request.config];
        for text in texts
            .into_iter()
            .chain(request.objects.iter().map(|object| &object.uid))
        {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        }
        digest.update(request.attempt.to_le_bytes());
        digest.update(request.now_ms.to_le_bytes());
        Self {
            now_ms: request.now_ms,
            seed: digest.finalize().into(),
        }
    }

    fn seed_for(&self, purpose: u8) -> [u8; 32] {
        Sha256::new()
            .chain_update(self.seed)
            .chain_update([purpose])
            .finalize()
            .into()
    }
}

/// A context that gives nothing. What the guest writes goes to `output`.
pub(super) fn denied(moment: Moment, output: &Tail) -> WasiCtx {
    let insecure_seed = moment.seed_for(b's');
    WasiCtx::builder()
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        // Empty, and never to be waited for.
        .stdin(MemoryInputPipe::new(Bytes::new()))
        .stdout(output.clone())
        .stderr(output.clone())
        .wall_clock(FixedClock(moment.now_ms))
        .monotonic_clock(FixedClock(moment.now_ms))
        .secure_random(Stream::new(moment.seed_for(b'r')))
        .insecure_random(Stream::new(moment.seed_for(b'i')))
        .insecure_random_seed(u128::from_le_bytes(std::array::from_fn(|i| insecure_seed[i])))
        .max_random_size(RANDOM_BYTES_MAX)
        .build()
}

/// A clock that stands at so many milliseconds since 1970.
struct FixedClock(u64);

impl HostWallClock for FixedClock {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl HostMonotonicClock for FixedClock {
    fn resolution(&self) -> u64 {
        1_000_000
    }

    fn now(&self) -> u64 {
        self.0.saturating_mul(1_000_000)
    }
}

/// Bytes that a seed decides: SHA-256 of the seed and a counter.
struct Stream {
    seed: [u8; 32],
    blocks: u64,
    block: [u8; 32],
    used: usize,
}

impl Stream {
    fn new(seed: [u8; 32]) -> Self {
        Self {
            seed,
            blocks: 0,
            block: [0; 32],
            used: 32,
        }
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    fn byte(&mut self) -> u8 {
        if self.used == self.block.len() {
            let counter = self.blocks.to_le_bytes();
            self.block = Sha256::new()
                .chain_update(self.seed)
                .chain_update(counter)
                .finalize()
                .into();
            self.blocks += 1;
            self.used = 0;
        }
        let byte = self.block[self.used];
        self.used += 1;
        byte
    }
}

impl TryRng for Stream {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(u32::from_le_bytes(self.take()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(u64::from_le_bytes(self.take()))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.fill_with(|| self.byte());
        Ok(())
    }
}

/// Takes what a gate writes, up to a bound, and keeps the end of it.
#[derive(Clone, Default)]
pub(super) struct Tail(Arc<Mutex<LastBytes>>);

#[derive(Default)]
struct LastBytes {
    bytes: usize,
    end: Vec<u8>,
}

impl Tail {
    pub(super) fn text(&self) -> String {
        let LastBytes { end, .. } = &*self.lock();
        String::from_utf8_lossy(&end[end.len().saturating_sub(TAIL_BYTES)..]).into_owned()
    }

    fn push(&self, bytes: &[u8]) {
        let LastBytes { bytes: written, end } = &mut *self.lock();
        *written = written.saturating_add(bytes.len());
        end.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
        // Moved only when it has doubled, so that many short writes cost no more than few long ones.
        if end.len() > 2 * TAIL_BYTES {
            let surplus = end.len() - TAIL_BYTES;
            end.drain(..surplus);
        }
    }

    /// No code that can panic runs under the lock, so a poisoned state is whole.
    fn lock(&self) -> MutexGuard<'_, LastBytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IsTerminal for Tail {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Tail {
    /// For 0.3, which is not linked.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for Tail {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.push(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        match OUTPUT_BYTES_MAX.saturating_sub(self.lock().bytes) {
            0 => Err(StreamError::Closed),
            left => Ok(left),
        }
    }
}

impl Pollable for Tail {
    /// Always.
    fn ready<'this, 'future>(&'this mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'future>>
    where
        'this: 'future,
        Self: 'future,
    {
        Box::pin(future::ready(()))
    }
}
