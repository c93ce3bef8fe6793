//! The integration tests of `tls`, one module per subject.

mod features;
mod hostile;
mod keys;
mod limits;
mod made_by_openssl;
mod ocsp;
mod openssl;
mod pairs;
mod phrases;
mod raw;
mod sessions;
