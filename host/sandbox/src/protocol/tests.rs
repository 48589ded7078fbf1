//! Both ends of the pipe against bytes that nobody sent in good faith: none is accepted, none ends the process.

use stagegate_evaluate::gate::limits::REQUEST_BYTES_MAX;

use super::*;

/// A request that holds one of everything that nests.
fn evaluate() -> Request<'static> {
    let column = wire::Column {
        name: "available".to_owned(),
        nulls: vec![1],
        data: wire::ColumnData::Cells(vec![
            wire::Cell::Integer(-3),
            wire::Cell::Null,
            wire::Cell::Text("x".to_owned()),
        ]),
    };
    let object = wire::Object {
        group: "apps".to_owned(),
        resource: "deployments".to_owned(),
        namespace: Some("shop".to_owned()),
        name: "nginx".to_owned(),
        uid: "u".to_owned(),
        generation: Some(2),
        evidence: evidence(),
        combined_status: wire::CombinedStatus {
            results: vec![wire::ResultSet {
                collector: "c".to_owned(),
                row_count: 3,
                columns: vec![column],
            }],
            ..wire::CombinedStatus::default()
        },
    };
    Request::Evaluate {
        request: Cow::Owned(wire::Request {
            policy: "p".to_owned(),
            stage: "s".to_owned(),
            attempt: 1,
            now_ms: 1_700_000_000_000,
            config: "{}".to_owned(),
            objects: vec![object],
            destinations: wire::Destinations {
                names: wire::Arena {
                    bytes: "dev-1".to_owned(),
                    ends: vec![5],
                },
                labels: Some(wire::Labels::default()),
            },
            earlier: Vec::new(),
        }),
        limits: Limits::new(100, 8),
    }
}

fn evidence() -> wire::Evidence {
    let number = |value| wire::Integers {
        nulls: Vec::new(),
        values: vec![value],
    };
    wire::Evidence {
        reported: vec![wire::Reported::WithStatus],
        reported_at_ms: vec![1_699_999_999_000],
        generation: number(2),
        ready: number(1),
        available: wire::Integers {
            nulls: vec![0],
            ..number(0)
        },
        total: number(4),
        updated: number(3),
        health: vec![wire::Health::Progressing],
    }
}

fn held() -> Answer {
    let verdict = wire::Verdict {
        decision: wire::Decision::Hold(wire::Hold {
            reason: "not yet".to_owned(),
            retry_after_ms: Some(5),
        }),
        evidence: Vec::new(),
    };
    let log = Vec::new();
    Answer {
        said: Ok(Said::Evaluation { verdict, log }),
        is_last: false,
    }
}

fn answered(nonce: Nonce, answer: &Answer) -> Vec<u8> {
    let mut bytes = Vec::new();
    reply(&mut bytes, nonce, answer).unwrap();
    bytes
}

fn compiled(nonce: Nonce, compiled: &Compiled) -> Vec<u8> {
    let mut bytes = Vec::new();
    reply_compiled(&mut bytes, nonce, compiled).unwrap();
    bytes
}

/// SplitMix64: the same bytes on every run.
struct Bytes(u64);

impl Bytes {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

#[test]
fn what_is_sent_arrives() {
    let config = Request::CheckConfig {
        config: Cow::Borrowed("{\"a\": 1}"),
    };
    for request in [Request::Compile, Request::Describe, config, evaluate()] {
        let encoded = Encoded::new(&request).unwrap();
        let mut sent = Vec::new();
        encoded.send(&mut sent).unwrap();
        let (nonce, received) = receive(&mut sent.as_slice()).unwrap();
        assert_eq!((nonce, &received), (encoded.nonce, &request));
        assert_eq!(
            encoded.answer(&mut answered(nonce, &held()).as_slice()).unwrap(),
            held()
        );
        let artifact = Compiled::Artifact(vec![7; 100_000]);
        let taken = encoded.compiled(&mut compiled(nonce, &artifact).as_slice()).unwrap();
        assert!(taken == artifact);
    }
}

#[test]
fn nothing_that_is_cut_is_accepted() {
    let encoded = Encoded::new(&evaluate()).unwrap();
    let answer = answered(encoded.nonce, &held());
    let artifact = compiled(encoded.nonce, &Compiled::Artifact(vec![7; 50]));
    for length in 0..encoded.frame.len() {
        assert!(
            receive(&mut &encoded.frame[..length]).is_err(),
            "a request of {length} bytes"
        );
    }
    for length in 0..answer.len() {
        assert!(
            encoded.answer(&mut &answer[..length]).is_err(),
            "an answer of {length} bytes"
        );
    }
    for length in 0..artifact.len() {
        assert!(
            encoded.compiled(&mut &artifact[..length]).is_err(),
            "an artifact of {length} bytes"
        );
    }
    assert!(matches!(encoded.answer(&mut &answer[..0]), Err(ProtocolError::Ended)));
}

#[test]
fn no_changed_bit_of_a_head_is_accepted() {
    let encoded = Encoded::new(&evaluate()).unwrap();
    let answer = answered(encoded.nonce, &held());
    let artifact = compiled(encoded.nonce, &Compiled::Artifact(vec![7; 50]));
    for bit in 0..HEAD_BYTES * 8 {
        let flipped = |frame: &[u8]| {
            let mut frame = frame.to_vec();
            frame[bit / 8] ^= 1 << (bit % 8);
            frame
        };
        assert!(
            encoded.answer(&mut flipped(&answer).as_slice()).is_err(),
            "bit {bit} of an answer"
        );
        // A shorter artifact is one, too: the length is all that says where it ends. Its engine refuses it.
        let shortened = bit / 8 >= HEAD_BYTES - 4;
        assert!(
            shortened || encoded.compiled(&mut flipped(&artifact).as_slice()).is_err(),
            "bit {bit} of an artifact"
        );
        // The child takes whatever nonce a request has.
        let is_nonce = (8..24).contains(&(bit / 8));
        assert!(
            is_nonce || receive(&mut flipped(&encoded.frame).as_slice()).is_err(),
            "bit {bit} of a request"
        );
    }
}

#[test]
fn an_answer_to_another_request_and_an_echo_are_none() {
    let (first, second) = (Encoded::new(&evaluate()).unwrap(), Encoded::new(&evaluate()).unwrap());
    let late = answered(first.nonce, &held());
    assert!(matches!(second.answer(&mut late.as_slice()), Err(ProtocolError::Nonce)));
    let artifact = compiled(first.nonce, &Compiled::Artifact(Vec::new()));
    assert!(matches!(
        second.compiled(&mut artifact.as_slice()),
        Err(ProtocolError::Nonce)
    ));
    assert!(matches!(
        first.answer(&mut first.frame.as_slice()),
        Err(ProtocolError::Kind(1))
    ));
    assert!(matches!(
        first.answer(&mut artifact.as_slice()),
        Err(ProtocolError::Kind(3))
    ));
}

#[test]
fn another_version_is_named() {
    let encoded = Encoded::new(&Request::Describe).unwrap();
    let mut frame = answered(encoded.nonce, &held());
    frame[4..6].copy_from_slice(&(VERSION + 1).to_le_bytes());
    let refused = encoded.answer(&mut frame.as_slice()).unwrap_err();
    assert!(
        matches!(refused, ProtocolError::Version(version) if version == VERSION + 1),
        "{refused}"
    );
}

#[test]
fn a_length_that_lies_is_refused_before_it_costs_memory() {
    let encoded = Encoded::new(&Request::Describe).unwrap();
    let mut frame = answered(encoded.nonce, &held());
    let length = u32::try_from(frame.len() - HEAD_BYTES).unwrap();
    let mut read_length = |length: u32| {
        frame[HEAD_BYTES - 4..HEAD_BYTES].copy_from_slice(&length.to_le_bytes());
        encoded.answer(&mut frame.as_slice()).unwrap_err()
    };
    assert!(matches!(read_length(u32::MAX), ProtocolError::TooLong { .. }));
    assert!(matches!(
        read_length(u32::try_from(ANSWER_BYTES_MAX).unwrap()),
        ProtocolError::Io(_)
    ));
    assert!(matches!(read_length(length - 1), ProtocolError::Malformed(_)));
    frame.push(0);
    frame[HEAD_BYTES - 4..HEAD_BYTES].copy_from_slice(&(length + 1).to_le_bytes());
    assert!(matches!(
        encoded.answer(&mut frame.as_slice()),
        Err(ProtocolError::Trailing(1))
    ));
}

#[test]
fn random_bytes_are_refused_and_end_nothing() {
    let encoded = Encoded::new(&evaluate()).unwrap();
    let mut random = Bytes(4);
    for length in (0..200).cycle().take(20_000) {
        let bytes = random.take(length);
        assert!(receive(&mut bytes.as_slice()).is_err());
        assert!(encoded.answer(&mut bytes.as_slice()).is_err());
        assert!(encoded.compiled(&mut bytes.as_slice()).is_err());
    }
    // Behind an honest head any bytes may be what a child says, but they are decoded without harm.
    for length in (0..400).cycle().take(20_000) {
        let bytes = random.take(length);
        for kind in [Kind::Request, Kind::Answer] {
            let mut frame = head(kind, encoded.nonce, length);
            frame.extend(&bytes);
            drop(receive(&mut frame.as_slice()));
            drop(encoded.answer(&mut frame.as_slice()));
            drop(encoded.compiled(&mut frame.as_slice()));
        }
    }
}

#[test]
fn changed_bodies_end_nothing() {
    let encoded = Encoded::new(&evaluate()).unwrap();
    let answer = answered(encoded.nonce, &held());
    let mut random = Bytes(7);
    for _ in 0..20_000 {
        let changed = |frame: &[u8], by: u64| {
            let mut frame = frame.to_vec();
            let at = HEAD_BYTES + usize::try_from(by).unwrap_or_default() % (frame.len() - HEAD_BYTES);
            frame[at] = by.to_be_bytes()[0];
            frame
        };
        drop(receive(&mut changed(&encoded.frame, random.next() >> 1).as_slice()));
        drop(encoded.answer(&mut changed(&answer, random.next() >> 1).as_slice()));
    }
}

#[test]
fn a_request_that_is_too_large_is_refused_by_its_name() {
    let config = " ".repeat(REQUEST_BYTES_MAX);
    let request = Request::CheckConfig {
        config: Cow::Owned(config),
    };
    let refused = Encoded::new(&request).err().map(|failure| failure.kind);
    assert_eq!(refused, Some(FailureKind::RequestTooLarge));
}

#[test]
fn an_answer_that_is_too_large_becomes_a_failure() {
    let encoded = Encoded::new(&Request::Describe).unwrap();
    let answer = Answer {
        said: Ok(Said::Config(Err("x".repeat(ANSWER_BYTES_MAX)))),
        is_last: true,
    };
    let arrived = encoded
        .answer(&mut answered(encoded.nonce, &answer).as_slice())
        .unwrap();
    assert!(arrived.is_last);
    assert_eq!(arrived.said.unwrap_err().kind, FailureKind::AnswerTooLarge);
}

/// What the host takes from a child that says this: it may have been taken over by its module.
fn taken(said: Said) -> Result<Said, Failure> {
    let encoded = Encoded::new(&Request::Describe).unwrap();
    let answer = Answer {
        said: Ok(said),
        is_last: false,
    };
    let frame = answered(encoded.nonce, &answer);
    encoded.answer(&mut frame.as_slice()).unwrap().said
}

#[test]
fn what_a_child_says_is_cut_to_the_bounds_of_this_side() {
    let long = "\u{1b}[2J\n".repeat(4_000);
    let line = wire::LogLine {
        level: wire::Level::Info,
        message: long.clone(),
    };
    let piece = wire::EvidencePiece {
        name: long.clone(),
        value: long.clone(),
    };
    let decision = wire::Decision::Hold(wire::Hold {
        reason: long.clone(),
        retry_after_ms: None,
    });
    let said = taken(Said::Evaluation {
        verdict: wire::Verdict {
            decision,
            evidence: vec![piece; 33],
        },
        log: vec![line; 3],
    });
    let Ok(Said::Evaluation { verdict, log }) = said else {
        panic!("a verdict was sent: {said:?}");
    };
    let wire::Decision::Hold(hold) = verdict.decision else {
        panic!("it was a hold");
    };
    assert_eq!((hold.reason.len(), verdict.evidence.len()), (4_096, 32));
    assert!(!hold.reason.contains(char::is_control));
    assert_eq!(verdict.evidence[31].value.len(), 1_024);
    assert_eq!(log.iter().map(|line| line.message.len()).sum::<usize>(), 8_192);
    let Ok(Said::Config(Err(why))) = taken(Said::Config(Err(long.clone()))) else {
        panic!("a config was refused");
    };
    assert!(why.chars().count() <= 256 && !why.contains(char::is_control));
    let described = |config_schema: &str| {
        taken(Said::Description(wire::Description {
            name: long.clone(),
            version: String::new(),
            summary: String::new(),
            config_schema: config_schema.to_owned(),
        }))
    };
    let Ok(Said::Description(description)) = described("{}") else {
        panic!("a description was sent");
    };
    assert_eq!(description.name.len(), 64);
    for schema in ["{", &format!("\"{}\"", "x".repeat(64 << 10))] {
        assert_eq!(described(schema).unwrap_err().kind, FailureKind::AnswerInvalid);
    }
}

#[test]
fn a_verdict_that_is_none_is_none_from_a_child_either() {
    let decisions = [
        wire::Decision::Pass(wire::Pass { valid_for_ms: Some(0) }),
        wire::Decision::Fail(wire::Fail {
            reason: "\u{200b}".to_owned(),
        }),
    ];
    for decision in decisions {
        let verdict = wire::Verdict {
            decision,
            evidence: Vec::new(),
        };
        let log = Vec::new();
        let failure = taken(Said::Evaluation { verdict, log }).unwrap_err();
        assert_eq!(failure.kind, FailureKind::AnswerInvalid, "{failure}");
    }
}

#[test]
fn a_failure_is_shown_in_the_bounds_of_this_side() {
    let encoded = Encoded::new(&Request::Describe).unwrap();
    let failure = Failure {
        kind: FailureKind::Trapped,
        message: "\u{1b}[2J\n".repeat(1_000),
    };
    let answer = Answer {
        said: Err(failure.clone()),
        is_last: false,
    };
    let arrived = encoded
        .answer(&mut answered(encoded.nonce, &answer).as_slice())
        .unwrap();
    let message = arrived.said.unwrap_err().message;
    assert!(
        message.chars().count() <= 256 && !message.contains(char::is_control),
        "{message:?}"
    );
    let frame = compiled(encoded.nonce, &Compiled::Failure(failure));
    let Ok(Compiled::Failure(failure)) = encoded.compiled(&mut frame.as_slice()) else {
        panic!("a failure was sent");
    };
    assert!(!failure.message.contains(char::is_control));
}
