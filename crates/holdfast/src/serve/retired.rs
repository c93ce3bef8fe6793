//! Keeps earlier generations until the workers have left them, so that no worker frees one: a large configuration has
//! millions of parts, and the connections of a worker would wait meanwhile.

use std::sync::Arc;

/// Earlier values that other threads may still use. As many as generations with open exchanges: no more memory than these hold
/// in any case.
#[derive(Debug)]
pub(super) struct Retired<T>(Vec<Arc<T>>);

impl<T> Default for Retired<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Retired<T> {
    /// Keeps a value until only this list holds it.
    pub(super) fn keep(&mut self, value: Arc<T>) {
        self.0.push(value);
    }

    /// Frees what only this list holds, in this thread.
    pub(super) fn free_unused(&mut self) {
        self.0.retain(|value| Arc::strong_count(value) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread::ThreadId;

    /// Tells which thread frees it.
    struct Witness(std::sync::mpsc::Sender<ThreadId>);

    impl Drop for Witness {
        fn drop(&mut self) {
            let _ = self.0.send(std::thread::current().id());
        }
    }

    #[test]
    fn list_thread_frees_values_last_used_elsewhere() {
        let (tell, told) = channel();
        let value = Arc::new(Witness(tell));
        let mut retired = Retired::default();
        let (go, gone) = channel::<()>();
        let used = Arc::clone(&value);
        let worker = std::thread::spawn(move || {
            let _ = gone.recv();
            drop(used);
        });
        retired.keep(value);
        retired.free_unused();
        assert!(told.try_recv().is_err(), "a worker uses it");
        drop(go);
        worker.join().expect("the worker ends");
        assert!(told.try_recv().is_err(), "the worker does not free it");
        retired.free_unused();
        assert_eq!(told.try_recv(), Ok(std::thread::current().id()));
    }
}
