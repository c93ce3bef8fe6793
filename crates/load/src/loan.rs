//! A record that a worker lends to the merging thread and gets back. A new record for each interval would be half a
//! megabyte of fresh pages, and the worker would wait for them while requests are due.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, TryLockError};

/// Spare records of a worker; more exist only after the merging thread has stalled.
const SPARE_MAX: usize = 4;

/// The place to which a worker's records return.
#[derive(Debug)]
pub(crate) struct Home<R> {
    spare: Mutex<Vec<Box<R>>>,
    /// Clears a record and keeps its memory.
    clear: fn(&mut R),
}

impl<R> Home<R> {
    /// Starts with these empty records.
    pub(crate) fn new(spare: Vec<Box<R>>, clear: fn(&mut R)) -> Arc<Self> {
        Arc::new(Self { spare: Mutex::new(spare), clear })
    }

    /// An empty used record, if there is one. The worker does not wait for one.
    pub(crate) fn take(&self) -> Option<Box<R>> {
        match self.spare.try_lock() {
            Ok(mut spare) => spare.pop(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().pop(),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A lent record. Dropping it clears it and returns it to its worker.
#[derive(Debug)]
pub(crate) struct Loan<R> {
    /// `None` only while it is being dropped.
    record: Option<Box<R>>,
    home: Option<Arc<Home<R>>>,
}

impl<R> Loan<R> {
    /// Wraps a record that is not returned.
    pub(crate) fn of(record: R) -> Self {
        Self { record: Some(Box::new(record)), home: None }
    }

    pub(crate) fn from_home(record: Box<R>, home: &Arc<Home<R>>) -> Self {
        Self { record: Some(record), home: Some(Arc::clone(home)) }
    }
}

impl<R> Deref for Loan<R> {
    type Target = R;

    fn deref(&self) -> &R {
        self.record.as_ref().expect("it is there until it is dropped")
    }
}

impl<R> DerefMut for Loan<R> {
    fn deref_mut(&mut self) -> &mut R {
        self.record.as_mut().expect("it is there until it is dropped")
    }
}

impl<R> Drop for Loan<R> {
    fn drop(&mut self) {
        let (Some(mut record), Some(home)) = (self.record.take(), &self.home) else { return };
        (home.clear)(&mut record);
        if let Ok(mut spare) = home.spare.lock()
            && spare.len() < SPARE_MAX
        {
            spare.push(record);
        }
    }
}

impl<R: Serialize> Serialize for Loan<R> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        R::serialize(self, out)
    }
}

impl<'de, R: Deserialize<'de>> Deserialize<'de> for Loan<R> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        R::deserialize(from).map(Self::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_empty_and_with_its_memory() {
        let home = Home::new(vec![Box::new(Vec::with_capacity(100))], Vec::clear);
        let mut record = home.take().expect("the one it began with");
        assert!(home.take().is_none());
        record.extend_from_slice(&[1, 2, 3]);
        let loan = Loan::from_home(record, &home);
        assert_eq!(loan.len(), 3);
        drop(loan);
        let record = home.take().expect("it has come back");
        assert!(record.is_empty() && record.capacity() >= 100);
    }

    #[test]
    fn no_more_are_kept_than_are_used() {
        let home = Home::new(Vec::new(), |_: &mut u32| {});
        (0..10).for_each(|_| drop(Loan::from_home(Box::new(1), &home)));
        assert_eq!(std::iter::from_fn(|| home.take()).count(), SPARE_MAX);
    }
}
