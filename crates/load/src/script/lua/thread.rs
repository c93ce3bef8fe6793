//! The thread object of wrk's scripts: a worker's state for `setup`, `done` and its own script; and addresses.

use super::ScriptStart;
use super::plain::{self, Globals, ScriptValue};
use mlua::{Lua, MetaMethod, Table, UserData, UserDataFields, UserDataMethods, UserDataRef, Value, WeakLua};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long `wrk.connect` tries an address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// An address for scripts: they can print it and assign it to a thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Address(pub(super) SocketAddr);

impl UserData for Address {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| Ok(this.0.to_string()));
    }
}

/// A worker's state. Clones refer to the same state.
#[derive(Clone)]
pub(super) struct Thread {
    /// Weak, because the state itself holds such a reference.
    lua: WeakLua,
    address: Arc<Mutex<(Option<SocketAddr>, bool)>>,
    /// Values set with `thread:set`, in order.
    given: Arc<Mutex<Globals>>,
    stop: Arc<AtomicBool>,
}

impl Thread {
    pub(super) fn new(lua: &Lua, address: Option<SocketAddr>, stop: Arc<AtomicBool>) -> Self {
        Self { lua: lua.weak(), address: Arc::new(Mutex::new((address, false))), given: Arc::default(), stop }
    }

    fn state(&self) -> mlua::Result<Lua> {
        self.lua.try_upgrade().ok_or_else(|| mlua::Error::runtime("the thread has ended"))
    }

    /// The address that `setup` chose, if any.
    pub(super) fn chosen_address(&self) -> Option<SocketAddr> {
        let (address, chosen) = *self.address.lock().unwrap_or_else(PoisonError::into_inner);
        address.filter(|_| chosen)
    }
}

impl Thread {
    /// The values that `setup` has set, for the worker's process.
    pub(super) fn start(&self) -> ScriptStart {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ScriptStart { given, address: self.chosen_address() }
    }
}

impl UserData for Thread {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("addr", |_, this| {
            Ok(this.address.lock().unwrap_or_else(PoisonError::into_inner).0.map(Address))
        });
        fields.add_field_method_set("addr", |_, this, address: UserDataRef<Address>| {
            *this.address.lock().unwrap_or_else(PoisonError::into_inner) = (Some(address.0), true);
            Ok(())
        });
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get", |to, this, name: String| {
            let value: Value = this.state()?.globals().get(name)?;
            plain::to_lua(ScriptValue::of(&value)?.as_ref(), to)
        });
        methods.add_method("set", |_, this, (name, value): (String, Value)| {
            let state = this.state()?;
            let value = ScriptValue::of(&value)?;
            state.globals().set(name.as_str(), plain::to_lua(value.as_ref(), &state)?)?;
            this.given.lock().unwrap_or_else(PoisonError::into_inner).push((name, value));
            Ok(())
        });
        methods.add_method("stop", |_, this, ()| {
            this.stop.store(true, Ordering::Relaxed);
            Ok(())
        });
    }
}

/// Adds `wrk.lookup` and `wrk.connect`.
pub(super) fn add_addresses(lua: &Lua, wrk: &Table) -> mlua::Result<()> {
    let lookup = |_: &Lua, (host, service): (String, Value)| {
        let port = match &service {
            Value::String(text) => text.to_string_lossy().parse().unwrap_or(80),
            other => other.as_i64().and_then(|port| u16::try_from(port).ok()).unwrap_or(80),
        };
        let found = (host.as_str(), port).to_socket_addrs().map_err(mlua::Error::external)?;
        Ok(found.map(Address).collect::<Vec<_>>())
    };
    let connect =
        |_: &Lua, address: UserDataRef<Address>| Ok(TcpStream::connect_timeout(&address.0, CONNECT_TIMEOUT).is_ok());
    wrk.set("lookup", lua.create_function(lookup)?)?;
    wrk.set("connect", lua.create_function(connect)?)
}
