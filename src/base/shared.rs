//! Copy-on-write sharing.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A value shared by its clones. Mutable access copies it first unless it is the only reference.
#[derive(Debug, Default)]
pub struct CopyOnWrite<T>(Arc<T>);

impl<T> Clone for CopyOnWrite<T> {
    fn clone(&self) -> Self {
        CopyOnWrite(self.0.clone())
    }
}

impl<T> Deref for CopyOnWrite<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for CopyOnWrite<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_are_independent_once_one_changes() {
        let mut a = CopyOnWrite(Arc::new(vec![1, 2]));
        let b = a.clone();
        assert!(std::ptr::eq(&raw const *a, &raw const *b));
        a.push(3);
        assert_eq!((a.as_slice(), b.as_slice()), ([1, 2, 3].as_slice(), [1, 2].as_slice()));
        let place = a.as_ptr();
        a[0] = 7;
        assert_eq!(a.as_ptr(), place, "a unique value changes in place");
    }
}
