//! The objects that are read from the API server, with the fields that matter here. Unknown fields are ignored, and
//! missing ones have their defaults, so that older and newer API servers can be read.

pub mod core;
pub mod gateway;
pub mod networking;
pub mod routes;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What all objects have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// Its name.
    pub name: String,
    /// Its namespace; empty for cluster-wide kinds.
    pub namespace: String,
    /// Its identity: another one means that the object was deleted and made again.
    pub uid: String,
    /// Changes with each write.
    pub resource_version: String,
    /// Changes with each write of the specification.
    pub generation: i64,
    /// RFC 3339. The older object wins a conflict.
    pub creation_timestamp: String,
    /// RFC 3339; present while it is being deleted.
    pub deletion_timestamp: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

impl Metadata {
    /// The name of the object.
    pub fn key(&self) -> crate::Name {
        crate::Name::new(self.namespace.as_str(), self.name.as_str())
    }
}

/// Removes the fields with the value null: they mean the same as fields that are not there. The API server writes
/// `endpoints: null` into a slice of a Service without Pods.
pub fn without_nulls(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// An object that has [`Metadata`].
pub trait Object {
    /// The kind, for messages.
    const KIND: crate::Kind;
    /// Its metadata.
    fn metadata(&self) -> &Metadata;
}

/// Implements [`Object`] for a struct with a field `metadata`.
macro_rules! object {
    ($type:ty, $kind:ident) => {
        impl $crate::objects::Object for $type {
            const KIND: $crate::Kind = $crate::Kind::$kind;
            fn metadata(&self) -> &$crate::objects::Metadata {
                &self.metadata
            }
        }
    };
}
pub(crate) use object;
