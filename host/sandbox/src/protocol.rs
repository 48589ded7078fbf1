//! What the host and its children say to each other: frames of a fixed head and a bounded body. Must not know processes.
//!
//! A frame is `SGSB`, the version (u16), the kind (u16), the nonce (16 bytes), the body's length (u32), the body; numbers in
//! little-endian order. Bodies are postcard, but for an artifact, which stands as it is. Every request has a new nonce and the
//! answer repeats it: a late answer to an earlier request, or one that another child made, is no answer.

use std::borrow::Cow;
use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stagegate_evaluate::gate::limits::REQUEST_BYTES_MAX;
use stagegate_evaluate::gate::{Failure, FailureKind, Limits, answer, sentence, wire};

/// Both ends are the same program, so this changes with every change of a type that crosses.
pub const VERSION: u16 = 2;
/// Most bytes of an answer's body. What a guest may answer is bounded far below.
pub const ANSWER_BYTES_MAX: usize = 2 << 20;
/// Most bytes of an artifact: a component of 1 MiB makes about 4 MB of machine code.
pub const ARTIFACT_BYTES_MAX: usize = 32 << 20;

const MAGIC: [u8; 4] = *b"SGSB";
const HEAD_BYTES: usize = 28;
/// Requests hold names and limits beside what `REQUEST_BYTES_MAX` bounds.
const REQUEST_BODY_BYTES_MAX: usize = REQUEST_BYTES_MAX + 1024;
/// A body is read in pieces, so that a head that lies about its length costs no memory.
const PIECE_BYTES: usize = 64 << 10;

/// What the host asks. The first is for a compile child, the others for a run child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(
    clippy::large_enum_variant,
    reason = "one exists for each call, and it is passed by reference"
)]
pub enum Request<'a> {
    /// Compile the component that stands on standard input.
    Compile,
    Describe,
    /// Whether a config is one by the schema that the gate itself states.
    CheckConfig {
        /// JSON text.
        config: Cow<'a, str>,
    },
    Evaluate {
        request: Cow<'a, wire::Request>,
        limits: Limits,
    },
}

/// What a run child answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub said: Result<Said, Failure>,
    /// The child has used most of its processor time and takes no more requests.
    pub is_last: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Said {
    Description(wire::Description),
    /// `Err`: why the config is none.
    Config(Result<(), String>),
    Evaluation {
        verdict: wire::Verdict,
        log: Vec<wire::LogLine>,
    },
}

impl Said {
    /// Cut to the interface's bounds. The child has done so already, if it still is what was started.
    fn bounded(self) -> Result<Self, Failure> {
        Ok(match self {
            Self::Description(description) => Self::Description(answer::description(description)?),
            Self::Config(checked) => Self::Config(checked.map_err(sentence)),
            Self::Evaluation { verdict, log } => Self::Evaluation {
                verdict: answer::verdict(verdict)?,
                log: answer::log(log),
            },
        })
    }
}

/// What a compile child answers.
#[derive(Clone, PartialEq, Eq)]
pub enum Compiled {
    Artifact(Vec<u8>),
    Failure(Failure),
}

/// Names one request; 122 bits of the kernel's randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce([u8; 16]);

impl Nonce {
    fn random() -> Self {
        Self(*uuid::Uuid::new_v4().as_bytes())
    }
}

/// Why bytes are no message that is waited for.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// Before the first byte of a head: the other side is gone.
    #[error("the other side has ended")]
    Ended,
    #[error("reading or writing a message: {0}")]
    Io(#[from] io::Error),
    #[error("a message that does not begin as one")]
    Foreign,
    #[error("a message of version {0} of the protocol; this side speaks {VERSION}")]
    Version(u16),
    #[error("a message of kind {0}, which is not waited for")]
    Kind(u16),
    #[error("an answer to another request")]
    Nonce,
    #[error("a message of {length} bytes; at most {limit} are taken")]
    TooLong { length: u64, limit: usize },
    #[error("a message that does not decode: {0}")]
    Malformed(postcard::Error),
    #[error("a message with {0} bytes too many")]
    Trailing(usize),
}

impl ProtocolError {
    /// Whether a deadline passed while waiting.
    pub fn is_time_out(&self) -> bool {
        let Self::Io(error) = self else { return false };
        matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Request = 1,
    Answer = 2,
    Artifact = 3,
}

impl Kind {
    fn of(number: u16) -> Result<Self, ProtocolError> {
        match number {
            1 => Ok(Self::Request),
            2 => Ok(Self::Answer),
            3 => Ok(Self::Artifact),
            other => Err(ProtocolError::Kind(other)),
        }
    }
}

/// A request as it goes over the pipe.
pub struct Encoded {
    nonce: Nonce,
    frame: Vec<u8>,
}

impl Encoded {
    /// # Errors
    /// `RequestTooLarge`: it is refused, never cut.
    pub fn new(request: &Request<'_>) -> Result<Self, Failure> {
        let nonce = Nonce::random();
        let frame = frame(Kind::Request, nonce, request)
            .map_err(|error| Failure::new(FailureKind::SandboxBroken, format_args!("encoding a request: {error}")))?;
        if frame.len() - HEAD_BYTES > REQUEST_BYTES_MAX {
            let message = format!(
                "the request has {} bytes, at most {REQUEST_BYTES_MAX} are handed to a gate",
                frame.len() - HEAD_BYTES
            );
            return Err(Failure::new(FailureKind::RequestTooLarge, message));
        }
        Ok(Self { nonce, frame })
    }

    pub fn send(&self, out: &mut impl Write) -> Result<(), ProtocolError> {
        out.write_all(&self.frame)?;
        Ok(out.flush()?)
    }

    /// The answer of a run child to this request.
    pub fn answer(&self, from: &mut impl Read) -> Result<Answer, ProtocolError> {
        let head = Head::read(from)?;
        if head.kind != Kind::Answer {
            return Err(ProtocolError::Kind(head.kind as u16));
        }
        self.own(&head)?;
        let answer: Answer = decode(&head.body(from, ANSWER_BYTES_MAX)?)?;
        let said = match answer.said {
            Ok(said) => said.bounded(),
            Err(failure) => Err(Failure::new(failure.kind, failure.message)),
        };
        Ok(Answer { said, ..answer })
    }

    /// The answer of a compile child to this request.
    pub fn compiled(&self, from: &mut impl Read) -> Result<Compiled, ProtocolError> {
        let head = Head::read(from)?;
        self.own(&head)?;
        match head.kind {
            Kind::Artifact => Ok(Compiled::Artifact(head.body(from, ARTIFACT_BYTES_MAX)?)),
            Kind::Answer => {
                let failure: Failure = decode(&head.body(from, ANSWER_BYTES_MAX)?)?;
                Ok(Compiled::Failure(Failure::new(failure.kind, failure.message)))
            }
            Kind::Request => Err(ProtocolError::Kind(head.kind as u16)),
        }
    }

    fn own(&self, head: &Head) -> Result<(), ProtocolError> {
        if head.nonce == self.nonce {
            Ok(())
        } else {
            Err(ProtocolError::Nonce)
        }
    }
}

/// The next request; the child's side.
pub fn receive(from: &mut impl Read) -> Result<(Nonce, Request<'static>), ProtocolError> {
    let head = Head::read(from)?;
    if head.kind != Kind::Request {
        return Err(ProtocolError::Kind(head.kind as u16));
    }
    Ok((head.nonce, decode(&head.body(from, REQUEST_BODY_BYTES_MAX)?)?))
}

/// An answer to the request of that nonce; the child's side. One that is too long becomes a failure that says so.
pub fn reply(out: &mut impl Write, nonce: Nonce, answer: &Answer) -> Result<(), ProtocolError> {
    let mut bytes = frame(Kind::Answer, nonce, answer).map_err(ProtocolError::Malformed)?;
    if bytes.len() - HEAD_BYTES > ANSWER_BYTES_MAX {
        let message = format!("the answer has more than {ANSWER_BYTES_MAX} bytes");
        let said = Err(Failure::new(FailureKind::AnswerTooLarge, message));
        let is_last = answer.is_last;
        bytes = frame(Kind::Answer, nonce, &Answer { said, is_last }).map_err(ProtocolError::Malformed)?;
    }
    out.write_all(&bytes)?;
    Ok(out.flush()?)
}

/// The end of a compilation; the child's side.
pub fn reply_compiled(out: &mut impl Write, nonce: Nonce, compiled: &Compiled) -> Result<(), ProtocolError> {
    let (head, body) = match compiled {
        Compiled::Artifact(artifact) => (head(Kind::Artifact, nonce, artifact.len()), artifact.as_slice()),
        Compiled::Failure(failure) => {
            let bytes = frame(Kind::Answer, nonce, failure).map_err(ProtocolError::Malformed)?;
            out.write_all(&bytes)?;
            return Ok(out.flush()?);
        }
    };
    out.write_all(&head)?;
    out.write_all(body)?;
    Ok(out.flush()?)
}

struct Head {
    kind: Kind,
    nonce: Nonce,
    length: u32,
}

impl Head {
    fn read(from: &mut impl Read) -> Result<Self, ProtocolError> {
        let mut bytes = [0; HEAD_BYTES];
        let mut filled = 0;
        while filled < HEAD_BYTES {
            match from.read(&mut bytes[filled..]) {
                Ok(0) if filled == 0 => return Err(ProtocolError::Ended),
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        let (magic, rest) = split::<4>(&bytes);
        let (version, rest) = split::<2>(rest);
        let (kind, rest) = split::<2>(rest);
        let (nonce, rest) = split::<16>(rest);
        let (length, _end) = split::<4>(rest);
        if magic != MAGIC {
            return Err(ProtocolError::Foreign);
        }
        match u16::from_le_bytes(version) {
            VERSION => {}
            other => return Err(ProtocolError::Version(other)),
        }
        Ok(Self {
            kind: Kind::of(u16::from_le_bytes(kind))?,
            nonce: Nonce(nonce),
            length: u32::from_le_bytes(length),
        })
    }

    fn body(&self, from: &mut impl Read, limit: usize) -> Result<Vec<u8>, ProtocolError> {
        let length = u64::from(self.length);
        let expected = usize::try_from(self.length).unwrap_or(usize::MAX);
        if expected > limit {
            return Err(ProtocolError::TooLong { length, limit });
        }
        let mut body = Vec::with_capacity(expected.min(PIECE_BYTES));
        from.take(length).read_to_end(&mut body)?;
        if body.len() < expected {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(body)
    }
}

/// The first `N` bytes of a head, which always has them.
fn split<const N: usize>(bytes: &[u8]) -> ([u8; N], &[u8]) {
    bytes
        .split_first_chunk()
        .map_or(([0; N], &[]), |(first, rest)| (*first, rest))
}

fn head(kind: Kind, nonce: Nonce, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES);
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((kind as u16).to_le_bytes());
    bytes.extend(nonce.0);
    // A length that four bytes do not hold is over every limit, and so is this.
    bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    bytes
}

fn frame(kind: Kind, nonce: Nonce, body: &impl Serialize) -> Result<Vec<u8>, postcard::Error> {
    let mut bytes = postcard::to_extend(body, head(kind, nonce, 0))?;
    let length = u32::try_from(bytes.len() - HEAD_BYTES).unwrap_or(u32::MAX);
    bytes[HEAD_BYTES - 4..HEAD_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, ProtocolError> {
    let (value, rest) = postcard::take_from_bytes(body).map_err(ProtocolError::Malformed)?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(ProtocolError::Trailing(rest.len()))
    }
}

#[cfg(test)]
mod tests;
