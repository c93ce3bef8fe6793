//! Ingresses become servers and locations.

use crate::assembly::Assembly;

/// Writes all Ingresses of the cluster.
pub(crate) fn write(assembly: &mut Assembly<'_>) {
    let _ = assembly;
}
