//! Work that all who ask for the same at the same time share.

use std::collections::HashMap;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{Shared, WeakShared};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What is under way, by what it is for. It goes on for as long as one of those who wait for it does.
pub(crate) struct Flights<K, T: Clone>(Mutex<HashMap<K, WeakShared<Boxed<T>>>>);

impl<K, T: Clone> Default for Flights<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, T: Clone> Flights<K, T> {
    /// Joins what is under way for `key`, or sets off.
    pub(crate) fn join<F>(&self, key: K, set_off: impl FnOnce() -> F) -> Shared<Boxed<T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flight) = flights.get(&key).and_then(WeakShared::upgrade)
            // One that has landed answers what was true then.
            && flight.peek().is_none()
        {
            return flight;
        }
        flights.retain(|_, flight| flight.upgrade().is_some_and(|flight| flight.peek().is_none()));
        let boxed: Boxed<T> = Box::pin(set_off());
        let flight = boxed.shared();
        if let Some(weak) = flight.downgrade() {
            flights.insert(key, weak);
        }
        flight
    }
}
