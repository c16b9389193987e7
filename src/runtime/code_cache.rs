//! Cache of the machine code that a device's compiler generates: names of cache entries, and checksums that detect
//! damaged entries. The app decides where entries are stored by passing a [`CacheStore`]; without one, nothing is
//! cached.

use std::sync::Arc;

/// A persistent map from names to bytes. Several processes may use the same store concurrently.
pub trait CacheStore: Send + Sync {
    /// Returns the bytes stored under a name. Never returns an incompletely written entry.
    fn get(&self, name: &str) -> Option<Vec<u8>>;

    /// Stores bytes. A store that is read-only or full ignores the call: the cache is optional.
    fn put(&self, name: &str, bytes: &[u8]);

    /// Removes an unusable entry.
    fn remove(&self, name: &str);
}

/// Key of a cache entry: a hash of everything that the machine code depends on, and of Clk's version.
#[derive(Clone, Debug)]
pub struct CacheKey(blake3::Hasher);

impl Default for CacheKey {
    fn default() -> CacheKey {
        CacheKey::new()
    }
}

impl CacheKey {
    /// Creates a key that depends only on Clk's version.
    pub fn new() -> CacheKey {
        CacheKey(blake3::Hasher::new()).part(env!("CARGO_PKG_VERSION").as_bytes())
    }

    /// Adds a part, such as the source text, a compiler option or the compiler's version. The order of parts matters.
    pub fn part(mut self, bytes: &[u8]) -> CacheKey {
        // Prefix each part with its length, so that different keys never hash the same bytes.
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    /// Returns the name of the cache entry.
    pub fn name(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}

/// The first bytes of a cache entry. The number is the version of the format.
const MAGIC: &[u8; 8] = b"clkbin1\n";
const HASH: usize = blake3::OUT_LEN;

/// Returns the contents of a cache entry: magic number, checksum, machine code.
fn seal(code: &[u8]) -> Vec<u8> {
    let mut entry = Vec::with_capacity(MAGIC.len() + HASH + code.len());
    entry.extend_from_slice(MAGIC);
    entry.extend_from_slice(blake3::hash(code).as_bytes());
    entry.extend_from_slice(code);
    entry
}

/// Returns the machine code of a cache entry, or `None` if the entry is damaged.
fn open(entry: &[u8]) -> Option<&[u8]> {
    let (hash, code) = entry.strip_prefix(MAGIC)?.split_at_checked(HASH)?;
    (blake3::hash(code).as_bytes() == hash).then_some(code)
}

/// Returns the machine code for a key from the store, or compiles and stores it. Also returns whether it was compiled.
pub fn fetch<E>(
    store: Option<&Arc<dyn CacheStore>>,
    key: impl FnOnce() -> CacheKey,
    make: impl FnOnce() -> Result<Vec<u8>, E>,
) -> Result<(Vec<u8>, bool), E> {
    let Some(store) = store else { return Ok((make()?, true)) };
    let name = key().name();
    if let Some(entry) = store.get(&name) {
        match open(&entry) {
            Some(code) => return Ok((code.to_vec(), false)),
            None => store.remove(&name),
        }
    }
    let code = make()?;
    store.put(&name, &seal(&code));
    Ok((code, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    #[derive(Default)]
    struct MemoryStore(Mutex<BTreeMap<String, Vec<u8>>>);

    impl CacheStore for MemoryStore {
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

    fn key() -> CacheKey {
        CacheKey::new().part(b"text").part(b"option")
    }

    #[test]
    fn entry_names_depend_on_all_parts() {
        let others = [
            CacheKey::new(),
            CacheKey::new().part(b"text"),
            CacheKey::new().part(b"option").part(b"text"),
            CacheKey::new().part(b"texto").part(b"ption"),
            key().part(b""),
        ];
        assert_eq!(key().name(), key().name());
        assert_eq!(key().name().len(), 64);
        for other in others {
            assert_ne!(other.name(), key().name());
        }
    }

    #[test]
    fn entries_are_reused_and_damaged_ones_rebuilt() {
        let memory_store = Arc::new(MemoryStore::default());
        let store: Arc<dyn CacheStore> = memory_store.clone();
        let get = || fetch::<()>(Some(&store), key, || Ok(b"code".to_vec())).unwrap();
        assert_eq!(get(), (b"code".to_vec(), true));
        assert_eq!(get(), (b"code".to_vec(), false));
        let damages: [fn(&mut Vec<u8>); 4] =
            [|e| e.truncate(20), |e| *e.last_mut().unwrap() ^= 1, |e| e[9] ^= 1, |e| e.clear()];
        for damage in damages {
            memory_store.0.lock().unwrap().values_mut().for_each(damage);
            assert_eq!(get(), (b"code".to_vec(), true));
            assert_eq!(get(), (b"code".to_vec(), false));
        }
    }

    #[test]
    fn failures_are_not_cached() {
        let memory_store = Arc::new(MemoryStore::default());
        let store: Arc<dyn CacheStore> = memory_store.clone();
        assert_eq!(fetch(Some(&store), key, || Err("no")), Err("no"));
        assert!(memory_store.0.lock().unwrap().is_empty());
    }
}
