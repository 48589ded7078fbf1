//! The cache of artifacts: what it trusts and what it does not.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use stagegate_decide::names::Digest;
use stagegate_evaluate::gate::{FailureKind, Limits};
use stagegate_sandbox::{Cache, Sandbox, SandboxOptions};

use super::{SAMPLE, folder, kind, options};
use crate::guests;

/// A directory of its own with the sample's artifact, and that entry.
fn copied(name: &str) -> (PathBuf, PathBuf) {
    let directory = folder(name);
    drop(Cache::open(&directory).unwrap());
    let entry = fs::read_dir(&SAMPLE.directory).unwrap().next().unwrap().unwrap();
    let copy = directory.join(entry.file_name());
    fs::copy(entry.path(), &copy).unwrap();
    (directory, copy)
}

fn sandbox(directory: &std::path::Path) -> Arc<Sandbox> {
    let cache = Some(Cache::open(directory).unwrap());
    Sandbox::new(SandboxOptions { cache, ..options() })
}

#[test]
fn an_artifact_on_disk_is_used_without_the_component() {
    let (directory, _entry) = copied("used");
    let checked = sandbox(&directory).check_config(&SAMPLE.digest, "[]");
    assert!(matches!(checked, Ok(Err(_))), "{checked:?}");
}

#[test]
fn an_entry_of_which_a_byte_was_changed_is_removed_and_compiled_again() {
    let length = fs::metadata(copied("length").1).unwrap().len();
    let at = [0, 31, 32, length / 2, length - 1];
    for position in at.into_iter().map(|at| usize::try_from(at).unwrap()) {
        let (directory, entry) = copied("changed");
        let mut bytes = fs::read(&entry).unwrap();
        bytes[position] ^= 1;
        fs::write(&entry, bytes).unwrap();
        let sandbox = sandbox(&directory);
        assert_eq!(
            kind(sandbox.check_config(&SAMPLE.digest, "[]")),
            FailureKind::NotLoaded,
            "byte {position}"
        );
        assert!(!entry.exists(), "the entry was removed");
    }
}

#[test]
fn cut_empty_and_foreign_entries_are_removed_and_compiled_again() {
    for length in [0, 10, 32, 33, 4_096] {
        let (directory, entry) = copied("cut");
        OpenOptions::new()
            .write(true)
            .open(&entry)
            .unwrap()
            .set_len(length)
            .unwrap();
        let sandbox = sandbox(&directory);
        assert_eq!(
            kind(sandbox.check_config(&SAMPLE.digest, "[]")),
            FailureKind::NotLoaded,
            "{length} bytes"
        );
        assert!(!entry.exists());
        if length == 0 {
            let component = guests::wasm("gate_min_available");
            sandbox.load(&SAMPLE.digest, &component).unwrap();
            assert!(entry.exists(), "it was compiled again");
            assert!(matches!(sandbox.check_config(&SAMPLE.digest, "[]"), Ok(Err(_))));
        }
    }
    // A link is no entry, wherever it leads.
    let (directory, entry) = copied("link");
    fs::remove_file(&entry).unwrap();
    let target = fs::read_dir(&SAMPLE.directory).unwrap().next().unwrap().unwrap().path();
    std::os::unix::fs::symlink(&target, &entry).unwrap();
    assert_eq!(
        kind(sandbox(&directory).check_config(&SAMPLE.digest, "[]")),
        FailureKind::NotLoaded
    );
    assert!(target.exists(), "what it led to is untouched");
}

#[test]
fn bytes_that_are_no_artifact_are_refused_by_the_child_and_forgotten() {
    let directory = folder("garbage");
    Cache::open(&directory)
        .unwrap()
        .insert(&SAMPLE.digest, b"machine code, surely")
        .unwrap();
    let sandbox = sandbox(&directory);
    assert_eq!(kind(sandbox.check_config(&SAMPLE.digest, "[]")), FailureKind::NotLoaded);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    let request = guests::telling("hold");
    assert_eq!(
        kind(sandbox.evaluate(&SAMPLE.digest, &request, Limits::default())),
        FailureKind::NotLoaded
    );
    sandbox
        .load(&SAMPLE.digest, &guests::wasm("gate_min_available"))
        .unwrap();
    assert!(matches!(sandbox.check_config(&SAMPLE.digest, "[]"), Ok(Err(_))));
}

#[test]
fn an_artifact_under_the_name_of_another_component_is_removed() {
    let directory = folder("renamed");
    let cache = Cache::open(&directory).unwrap();
    let [own, other] = [b"own", b"oth"].map(|bytes| Digest::of_bytes(bytes));
    cache.insert(&own, b"artifact").unwrap();
    let entry = fs::read_dir(&directory).unwrap().next().unwrap().unwrap().path();
    let name = entry.file_name().unwrap().to_str().unwrap();
    let renamed = directory.join(name.replace(own.as_str(), other.as_str()));
    fs::copy(&entry, &renamed).unwrap();
    assert!(cache.get(&other).is_none(), "the artifact of another component");
    assert!(!renamed.exists(), "it is removed");
    let foreign = entry.with_extension("0".repeat(64));
    fs::copy(&entry, &foreign).unwrap();
    fs::rename(&foreign, &entry).unwrap();
    assert!(cache.get(&own).is_some(), "nothing but the name is summed");
}

/// The directory that was given may be one with other things in it.
#[test]
fn files_that_are_not_the_cache_s_own_stay_and_its_own_are_kept_in_bounds() {
    const FAR_TOO_LARGE: u64 = 600 << 20;
    let directory = folder("foreign");
    drop(Cache::open(&directory).unwrap());
    let long_ago = SystemTime::now() - Duration::from_secs(7_200);
    let hex = "0123456789abcdef".repeat(4);
    let made = |name: &str| {
        let path = directory.join(name);
        let file = fs::File::create(&path).unwrap();
        // No block of it is written.
        file.set_len(FAR_TOO_LARGE).unwrap();
        file.set_modified(long_ago).unwrap();
        path
    };
    let foreign = [
        "photos.tar".to_owned(),
        ".new-year.txt".to_owned(),
        format!(".new-{}", &hex[..31]),
        hex.clone(),
        format!("{hex}.txt"),
        format!("{}.{hex}", hex.to_uppercase()),
    ];
    let foreign = foreign.map(|name| made(&name));
    let own = [format!("{hex}.{hex}"), format!(".new-{}", &hex[..32])].map(|name| made(&name));
    let cache = Cache::open(&directory).unwrap();
    cache.insert(&Digest::of_bytes(b"x"), b"artifact").unwrap();
    for path in foreign {
        assert!(path.exists(), "{} is gone", path.display());
    }
    for path in own {
        assert!(!path.exists(), "{} is there", path.display());
    }
    assert!(cache.get(&Digest::of_bytes(b"x")).is_some());
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_directory_that_others_may_enter_or_that_is_a_link_is_refused() {
    let directory = folder("open");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
    let refused = Cache::open(&directory).unwrap_err().to_string();
    assert!(refused.contains("0700"), "{refused}");
    fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
    Cache::open(&directory).unwrap();
    let link = folder("directory-link");
    drop(fs::remove_file(&link));
    std::os::unix::fs::symlink(&directory, &link).unwrap();
    assert!(Cache::open(&link).is_err());
    fs::remove_file(&link).unwrap();
    let file = directory.join("file");
    fs::write(&file, "").unwrap();
    assert!(Cache::open(&file).is_err());
}

#[test]
fn a_missing_directory_is_made_for_its_owner_alone_and_so_are_entries() {
    let directory = folder("made").join("deep");
    let cache = Cache::open(&directory).unwrap();
    assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
    let digest = Digest::of_bytes(b"x");
    cache.insert(&digest, b"artifact").unwrap();
    let entries: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(entries.len(), 1, "nothing temporary is left");
    assert_eq!(entries[0].metadata().unwrap().mode() & 0o777, 0o600);
}

#[test]
fn what_comes_out_is_what_went_in_and_can_no_longer_be_changed() {
    let caches = [Cache::in_memory(), Cache::open(&folder("sealed")).unwrap()];
    for cache in caches {
        let digest = Digest::of_bytes(b"x");
        assert!(cache.get(&digest).is_none());
        cache.insert(&digest, b"artifact").unwrap();
        let mut file = cache.get(&digest).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"artifact");
        file.rewind().unwrap();
        assert!(file.write_all(b"x").is_err(), "it takes no writes");
        assert!(file.set_len(0).is_err(), "it cannot be cut");
        cache.remove(&digest);
        assert!(cache.get(&digest).is_none());
    }
}

#[test]
fn memory_holds_64_mib_of_artifacts_and_drops_the_least_recently_used() {
    let cache = Cache::in_memory();
    let artifact = vec![7; 16 << 20];
    let digests: Vec<Digest> = (0..5_u8).map(|number| Digest::of_bytes(&[number])).collect();
    for digest in &digests[..4] {
        cache.insert(digest, &artifact).unwrap();
    }
    assert!(cache.get(&digests[0]).is_some(), "used again");
    cache.insert(&digests[4], &artifact).unwrap();
    let held: Vec<bool> = digests.iter().map(|digest| cache.contains(digest)).collect();
    assert_eq!(held, [true, false, true, true, true]);
}

#[test]
fn a_digest_that_is_a_path_names_no_file() {
    let directory = folder("path");
    let cache = Cache::open(&directory).unwrap();
    for text in ["../../etc/passwd", "", &"A".repeat(64), &"a".repeat(63)] {
        let digest = Digest::from_text(text);
        assert!(cache.get(&digest).is_none());
        cache.insert(&digest, b"artifact").unwrap();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "kept in memory only");
    }
}
