//! What an API server has stored: read from etcd, and put back under the same keys and at the same revisions, so that uids, generations and
//! resourceVersions stay as they were. Must not know what is stored.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{Client, Config};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Below it, the API server stores everything.
const ROOT: &str = "/registry/";
/// The first text behind all that begin so.
const BEHIND: &str = "/registry0";
/// The key that is written to get to a revision.
const FILLER: &str = "/filler";
/// How many of these writes are under way at once.
const AT_ONCE: usize = 64;
/// etcd answers after less than a second.
const READY_MAX: Duration = Duration::from_secs(60);

/// One object, as it is stored.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Stored {
    pub key: String,
    /// The object's resourceVersion.
    pub revision: u64,
    pub object: Value,
}

/// By its JSON gateway.
pub struct Etcd {
    client: Client,
}

#[derive(Deserialize)]
struct Range {
    header: Header,
    #[serde(default)]
    kvs: Vec<Pair>,
}

/// The gateway writes numbers of 64 bits as texts.
#[derive(Deserialize)]
struct Header {
    revision: String,
}

#[derive(Deserialize)]
struct Pair {
    key: String,
    value: String,
    mod_revision: String,
}

impl Etcd {
    /// Waits until it answers.
    ///
    /// # Errors
    /// When it does not.
    pub async fn at(port: u16) -> anyhow::Result<Etcd> {
        let address = format!("http://127.0.0.1:{port}").parse()?;
        let client = Client::try_from(Config::new(address))?;
        let etcd = Etcd { client };
        let begun = Instant::now();
        while let Err(error) = etcd.range().await {
            ensure!(begun.elapsed() < READY_MAX, "etcd does not answer: {error:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(etcd)
    }

    /// All objects, in the order of their revisions.
    ///
    /// # Errors
    /// A server that does not answer; an object that is not stored as JSON.
    pub async fn stored(&self) -> anyhow::Result<Vec<Stored>> {
        let pairs = self.range().await?.kvs.into_iter();
        let stored: anyhow::Result<Vec<Stored>> = pairs.map(Pair::decoded).collect();
        let mut stored = stored?;
        stored.sort_by_key(|one| one.revision);
        Ok(stored)
    }

    /// Into an etcd that no API server uses yet.
    ///
    /// # Errors
    /// A revision that etcd is past.
    pub async fn put_back(&self, stored: &[Stored]) -> anyhow::Result<()> {
        let mut stored: Vec<&Stored> = stored.iter().collect();
        stored.sort_by_key(|one| one.revision);
        let mut current: u64 = self.range().await?.header.revision.parse()?;
        for one in stored {
            let before = one.revision.checked_sub(1).filter(|before| *before >= current);
            let before = before.with_context(|| format!("etcd is past revision {}", one.revision))?;
            stream::iter(current..before)
                .map(|_| self.put(FILLER, ""))
                .buffer_unordered(AT_ONCE)
                .try_collect::<Vec<u64>>()
                .await?;
            current = self.put(&one.key, &one.object.to_string()).await?;
            ensure!(
                current == one.revision,
                "{} is at {current}, not {}",
                one.key,
                one.revision
            );
        }
        Ok(())
    }

    async fn range(&self) -> anyhow::Result<Range> {
        let asked = json!({"key": BASE64.encode(ROOT), "range_end": BASE64.encode(BEHIND)});
        self.ask("/v3/kv/range", &asked).await
    }

    /// Says at which revision.
    async fn put(&self, key: &str, value: &str) -> anyhow::Result<u64> {
        #[derive(Deserialize)]
        struct Answer {
            header: Header,
        }
        let asked = json!({"key": BASE64.encode(key), "value": BASE64.encode(value)});
        let answer: Answer = self.ask("/v3/kv/put", &asked).await?;
        Ok(answer.header.revision.parse()?)
    }

    async fn ask<A: for<'de> Deserialize<'de>>(&self, path: &str, asked: &Value) -> anyhow::Result<A> {
        let request = http::Request::post(path).body(asked.to_string().into_bytes())?;
        let answer = self.client.request(request).await;
        answer.with_context(|| format!("asking etcd for {path}"))
    }
}

impl Pair {
    fn decoded(self) -> anyhow::Result<Stored> {
        let key = String::from_utf8(BASE64.decode(&self.key)?)?;
        let value = BASE64.decode(&self.value)?;
        Ok(Stored {
            revision: self.mod_revision.parse()?,
            object: serde_json::from_slice(&value).with_context(|| format!("{key} is not stored as JSON"))?,
            key,
        })
    }
}
