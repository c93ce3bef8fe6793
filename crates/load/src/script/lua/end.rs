//! `done(summary, latency, requests)`: a run's figures as wrk's scripts expect them, in microseconds.

use super::{Host, ScriptError};
use crate::series::{Row, Sparse};
use crate::summary::Summary;
use crate::tally::{SocketErrors, Tally};
use mlua::{Function, MetaMethod, Table, UserData, UserDataFields, UserDataMethods};

/// The script of a finished run.
#[derive(Debug, Clone)]
pub struct Finished(pub(crate) Host);

/// wrk's statistics object: values with their counts.
#[derive(Debug)]
struct Statistics {
    values: Sparse,
    /// The size of wrk's unit in the unit of `values`.
    unit: f64,
    mean: f64,
    deviation: f64,
}

impl Statistics {
    /// Latencies in nanoseconds; wrk uses microseconds.
    fn latency(whole: &Tally) -> Self {
        let latency = &whole.latency;
        let (mean, deviation) = (latency.mean_ns() / 1e3, latency.deviation_ns() / 1e3);
        Self { values: Sparse::from(latency), unit: 1e3, mean, deviation }
    }

    /// Requests per second and thread, one value per interval.
    fn rates(rows: &[Row], threads: usize) -> Self {
        let rates: Vec<f64> = Row::rates(rows).map(|rate| rate / threads.max(1) as f64).collect();
        let mut values = Sparse::default();
        values.add(&Sparse(rates.iter().map(|rate| (rate.round() as u64, 1)).collect()));
        let count = rates.len().max(1) as f64;
        let mean = rates.iter().sum::<f64>() / count;
        let deviation = (rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count).sqrt();
        Self { values, unit: 1.0, mean, deviation }
    }

    fn at(&self, quantile: f64) -> f64 {
        self.values.quantile(quantile) as f64 / self.unit
    }
}

impl UserData for Statistics {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("min", |_, this| Ok(this.at(0.0)));
        fields.add_field_method_get("max", |_, this| Ok(this.at(1.0)));
        fields.add_field_method_get("mean", |_, this| Ok(this.mean));
        fields.add_field_method_get("stdev", |_, this| Ok(this.deviation));
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("percentile", |_, this, percent: f64| Ok(this.at(percent / 100.0)));
        methods.add_meta_method(MetaMethod::Len, |_, this, ()| Ok(this.values.0.len()));
        // Returns the n-th value and its count; n starts at 1.
        methods.add_meta_method(MetaMethod::Call, |_, this, index: usize| {
            let found = index.checked_sub(1).and_then(|index| this.values.0.get(index));
            Ok(found.map_or((0.0, 0), |(value, count)| (*value as f64 / this.unit, *count)))
        });
    }
}

impl Finished {
    /// Calls the script's `done`, if it has one. Its output goes to standard output.
    pub fn done(&self, summary: &Summary, rows: &[Row]) -> Result<(), ScriptError> {
        let lua = &self.0.lua;
        let Some(done) = lua.globals().get::<Option<Function>>("done")? else { return Ok(()) };
        let whole = summary.record.whole();
        let table = lua.create_table()?;
        table.set("duration", summary.elapsed.as_micros() as u64)?;
        table.set("requests", whole.responses)?;
        table.set("bytes", whole.bytes_received)?;
        table.set("errors", self.errors(&whole)?)?;
        let latency = Statistics::latency(&whole);
        let rates = Statistics::rates(rows, summary.threads);
        done.call::<()>((table, latency, rates))?;
        // Lua buffers its output, and the process may end without closing the Lua state.
        lua.load("io.flush()").exec()?;
        Ok(())
    }

    fn errors(&self, whole: &Tally) -> Result<Table, ScriptError> {
        let SocketErrors { connect, read, timeout } = whole.socket_errors();
        let errors = self.0.lua.create_table()?;
        errors.set("connect", connect)?;
        errors.set("read", read)?;
        errors.set("write", 0)?;
        errors.set("status", whole.with_status(400..=999))?;
        errors.set("timeout", timeout)?;
        Ok(errors)
    }
}
