//! A kind as a whole: all pages of one list, at one version. Must not give a part of a list, nor one that is older than
//! what was seen before.

use std::fmt::Debug;

use futures::FutureExt as _;
use kube::api::ListParams;
use kube::core::ObjectList;
use kube::core::metadata::PartialObjectMeta;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::Selected;
use super::bounds::ANSWER_MAX;
use super::error::WatchError;
use super::position::Position;
use crate::order::order;
use crate::store::{ObjectId, Version};

/// Objects asked for at once. A page is in memory as a whole, each object with its managed fields; client-go asks for five times as many.
const PAGE_OBJECTS: u32 = 100;

/// All objects of a kind at one moment.
pub struct Listed<T> {
    pub objects: Vec<T>,
    pub position: Position,
}

/// The objects, for the store, each as `kept` makes it before the next page is asked for.
pub async fn whole<T, O>(of: &Selected<T>, seen: u64, kept: impl Fn(T) -> O) -> Result<Listed<O>, WatchError>
where
    T: Clone + Debug + DeserializeOwned,
{
    let list = |params| async move { of.api.list(&params).await }.boxed();
    pages((seen, of.labels.clone()), list, kept).await
}

/// Their versions, to compare with the store. The metadata that they stand in takes fifty times as much.
pub async fn versions<T>(of: &Selected<T>, seen: u64) -> Result<Listed<(ObjectId, Version)>, WatchError>
where
    T: Clone + Debug + DeserializeOwned,
{
    let list = |params| async move { of.api.list_metadata(&params).await }.boxed();
    let version = |object: PartialObjectMeta<T>| (ObjectId::of(&object.metadata), Version::of(&object.metadata));
    pages((seen, of.labels.clone()), list, version).await
}

async fn pages<'a, T: Clone, O>(
    (seen, labels): (u64, Option<String>),
    list: impl Fn(ListParams) -> futures::future::BoxFuture<'a, kube::Result<ObjectList<T>>>,
    kept: impl Fn(T) -> O,
) -> Result<Listed<O>, WatchError> {
    let mut objects = Vec::new();
    let mut first: Option<String> = None;
    let mut params = ListParams::default().limit(PAGE_OBJECTS);
    params.label_selector = labels;
    loop {
        let page = timeout(ANSWER_MAX, list(params.clone()));
        let page = page
            .await
            .map_err(|_elapsed| WatchError::NoAnswer)?
            .map_err(WatchError::List)?;
        let version = page.metadata.resource_version.unwrap_or_default();
        if version.is_empty() {
            return Err(WatchError::NoVersion);
        }
        // Before anybody looks at its objects.
        if let Some(listed) = order(&version).filter(|listed| *listed < seen) {
            return Err(WatchError::Older { listed, seen });
        }
        // Pages of different versions are parts of different lists: an object may be on none of them.
        let first = first.get_or_insert_with(|| version.clone());
        if *first != version {
            let (of, then) = (first.clone(), version);
            return Err(WatchError::Torn { of, then });
        }
        objects.extend(page.items.into_iter().map(&kept));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => break,
        }
    }
    Ok(Listed {
        objects,
        position: Position {
            version: first.unwrap_or_default(),
        },
    })
}
