//! From a ConfigMap to the bytes of a component: its entry, unpacked within bounds. Must not look into the component.

use k8s_openapi::api::core::v1::ConfigMap;
use stagegate_decide::checks::SourceEntry;
use stagegate_evaluate::gate::limits::COMPONENT_BYTES_MAX;
use stagegate_sandbox::unpacked;

/// Why there are no bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Unusable {
    KeyMissing,
    /// Will be so until the ConfigMap changes; says what to do.
    Refused(String),
}

/// The entry's bytes, unpacked.
pub fn component(config_map: ConfigMap, entry: &SourceEntry) -> Result<Vec<u8>, Unusable> {
    let key = &entry.key;
    let Some(stored) = config_map.binary_data.and_then(|mut data| data.remove(key)) else {
        if config_map.data.is_some_and(|data| data.contains_key(key)) {
            return Err(Unusable::Refused(format!(
                "key {key} is text under `data`; a component belongs under `binaryData`, where kubectl create configmap \
                 --from-file puts a file that is not UTF-8 text"
            )));
        }
        return Err(Unusable::KeyMissing);
    };
    let bytes = unpacked(stored.0, COMPONENT_BYTES_MAX).map_err(|cause| {
        Unusable::Refused(format!(
            "key {key} begins like a gzip file and cannot be unpacked: {cause}"
        ))
    })?;
    if bytes.len() > COMPONENT_BYTES_MAX {
        return Err(Unusable::Refused(format!(
            "the component under key {key} has more than {COMPONENT_BYTES_MAX} bytes; build it optimised for size and \
             stripped"
        )));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;
    use stagegate_sandbox::packed;

    fn entry() -> SourceEntry {
        SourceEntry::try_from("gates/g gate.wasm".to_owned()).unwrap()
    }

    fn holding(bytes: &[u8]) -> ConfigMap {
        ConfigMap {
            binary_data: Some([("gate.wasm".to_owned(), ByteString(bytes.to_vec()))].into()),
            ..ConfigMap::default()
        }
    }

    #[test]
    fn plain_and_packed_are_the_same_bytes() {
        assert_eq!(component(holding(b"\0asm..."), &entry()).unwrap(), b"\0asm...");
        assert_eq!(
            component(holding(&packed(b"\0asm...").unwrap()), &entry()).unwrap(),
            b"\0asm..."
        );
    }

    #[test]
    fn a_gzip_bomb_is_refused_before_it_has_grown() {
        let bomb = packed(&vec![0; 64 << 20]).unwrap();
        let refused = component(holding(&bomb), &entry()).unwrap_err();
        assert!(
            matches!(&refused, Unusable::Refused(why) if why.contains("more than")),
            "{refused:?}"
        );
        let most = component(holding(&packed(&vec![0; COMPONENT_BYTES_MAX]).unwrap()), &entry());
        assert_eq!(most.unwrap().len(), COMPONENT_BYTES_MAX);
    }

    #[test]
    fn a_cut_or_broken_gzip_file_is_refused() {
        let whole = packed(&[7; 5000]).unwrap();
        for broken in [&whole[..whole.len() - 4], &whole[..8], b"\x1f\x8b"] {
            let refused = component(holding(broken), &entry()).unwrap_err();
            assert!(
                matches!(&refused, Unusable::Refused(why) if why.contains("gzip")),
                "{refused:?}"
            );
        }
        let mut changed = whole;
        let at = changed.len() - 6;
        changed[at] ^= 1;
        assert!(component(holding(&changed), &entry()).is_err(), "its checksum is wrong");
    }

    #[test]
    fn a_missing_key_and_one_under_data_are_told_apart() {
        let missing = component(ConfigMap::default(), &entry());
        assert_eq!(missing, Err(Unusable::KeyMissing));
        let text = ConfigMap {
            data: Some([("gate.wasm".to_owned(), "(component)".to_owned())].into()),
            ..ConfigMap::default()
        };
        let refused = component(text, &entry()).unwrap_err();
        assert!(
            matches!(&refused, Unusable::Refused(why) if why.contains("binaryData")),
            "{refused:?}"
        );
    }
}
