//! Cache of compiled machine code: names of entries, and checksums that detect damaged ones.
//!
//! The app decides where entries are stored: it passes a [`Store`], or none.

use std::sync::Arc;

/// A persistent map from names to bytes. Several processes may use one at the same time.
pub trait Store: Send + Sync {
    /// Returns the bytes stored under a name, complete or not at all.
    fn get(&self, name: &str) -> Option<Vec<u8>>;

    /// Stores bytes. A store that cannot (read-only, full) ignores the call: the cache is optional.
    fn put(&self, name: &str, bytes: &[u8]);

    /// Removes an unusable entry.
    fn remove(&self, name: &str);
}

/// Everything that machine code depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    pub source: &'a str,
    pub options: &'a [String],
    pub architecture: u32,
    pub nvrtc: (i32, i32),
}

impl Key<'_> {
    /// Returns the name of the entry: a hash of everything, Clk's own version included.
    pub fn name(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        // Each part is prefixed with its length, so that different lists of parts never hash the same bytes.
        let mut part = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        part(env!("CARGO_PKG_VERSION").as_bytes());
        part(&self.architecture.to_le_bytes());
        part(&self.nvrtc.0.to_le_bytes());
        part(&self.nvrtc.1.to_le_bytes());
        self.options.iter().for_each(|option| part(option.as_bytes()));
        part(self.source.as_bytes());
        hasher.finalize().to_hex().to_string()
    }
}

/// The first bytes of an entry; the number changes with the format.
const MAGIC: &[u8; 8] = b"clkbin1\n";
const HASH: usize = blake3::OUT_LEN;

/// Returns an entry: magic, checksum, machine code.
pub(crate) fn seal(cubin: &[u8]) -> Vec<u8> {
    let mut entry = Vec::with_capacity(MAGIC.len() + HASH + cubin.len());
    entry.extend_from_slice(MAGIC);
    entry.extend_from_slice(blake3::hash(cubin).as_bytes());
    entry.extend_from_slice(cubin);
    entry
}

/// Returns the machine code of an entry, if it is undamaged.
pub(crate) fn open(entry: &[u8]) -> Option<&[u8]> {
    let (hash, cubin) = entry.strip_prefix(MAGIC)?.split_at_checked(HASH)?;
    (blake3::hash(cubin).as_bytes() == hash).then_some(cubin)
}

/// Returns the machine code for a key from the store, or makes and stores it; and whether it was made.
pub(crate) fn fetch<E>(
    store: Option<&Arc<dyn Store>>,
    key: &Key<'_>,
    make: impl FnOnce() -> Result<Vec<u8>, E>,
) -> Result<(Vec<u8>, bool), E> {
    let Some(store) = store else { return Ok((make()?, true)) };
    let name = key.name();
    if let Some(entry) = store.get(&name) {
        match open(&entry) {
            Some(cubin) => return Ok((cubin.to_vec(), false)),
            None => store.remove(&name),
        }
    }
    let cubin = make()?;
    store.put(&name, &seal(&cubin));
    Ok((cubin, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Shelf(Mutex<BTreeMap<String, Vec<u8>>>);

    impl Store for Shelf {
        fn get(&self, name: &str) -> Option<Vec<u8>> {
            self.0.lock().unwrap().get(name).cloned()
        }
        fn put(&self, name: &str, bytes: &[u8]) {
            self.0.lock().unwrap().insert(name.into(), bytes.into());
        }
        fn remove(&self, name: &str) {
            self.0.lock().unwrap().remove(name);
        }
    }

    const KEY: Key<'_> = Key { source: "text", options: &[], architecture: 90, nvrtc: (13, 0) };

    #[test]
    fn everything_is_in_the_name() {
        let fast = ["-G".to_string()];
        let others = [
            Key { source: "text ", ..KEY },
            Key { options: &fast, ..KEY },
            Key { architecture: 89, ..KEY },
            Key { nvrtc: (13, 1), ..KEY },
        ];
        assert_eq!(KEY.name(), KEY.name());
        assert_eq!(KEY.name().len(), 64);
        for other in others {
            assert_ne!(other.name(), KEY.name(), "{other:?}");
        }
    }

    #[test]
    fn what_was_made_once_is_found_and_what_was_damaged_is_made_again() {
        let shelf = Arc::new(Shelf::default());
        let store: Arc<dyn Store> = shelf.clone();
        let get = || fetch::<()>(Some(&store), &KEY, || Ok(b"code".to_vec())).unwrap();
        assert_eq!(get(), (b"code".to_vec(), true));
        assert_eq!(get(), (b"code".to_vec(), false));
        let damages: [fn(&mut Vec<u8>); 4] =
            [|e| e.truncate(20), |e| *e.last_mut().unwrap() ^= 1, |e| e[9] ^= 1, |e| e.clear()];
        for damage in damages {
            shelf.0.lock().unwrap().values_mut().for_each(damage);
            assert_eq!(get(), (b"code".to_vec(), true));
            assert_eq!(get(), (b"code".to_vec(), false));
        }
    }

    #[test]
    fn a_failure_is_not_kept() {
        let shelf = Arc::new(Shelf::default());
        let store: Arc<dyn Store> = shelf.clone();
        assert_eq!(fetch(Some(&store), &KEY, || Err("no")), Err("no"));
        assert!(shelf.0.lock().unwrap().is_empty());
    }
}
