//! What scripts call a thread: a worker's state as seen from `setup`, `done` and its own script; and addresses.

use mlua::{Lua, MetaMethod, Table, UserData, UserDataFields, UserDataMethods, UserDataRef, Value, WeakLua};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Tables within tables that are copied from one state to another.
const DEPTH_MAX: usize = 32;
/// How long `wrk.connect` tries an address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// An address as scripts see it: something that can be printed, and given to a thread.
#[derive(Debug, Clone, Copy)]
struct Address(SocketAddr);

impl UserData for Address {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| Ok(this.0.to_string()));
    }
}

/// A worker's state. Clones are the same.
#[derive(Clone)]
pub(super) struct Thread {
    /// Weak, as the state itself holds one of these.
    lua: WeakLua,
    address: Arc<Mutex<(Option<SocketAddr>, bool)>>,
    stop: Arc<AtomicBool>,
}

impl Thread {
    pub(super) fn new(lua: &Lua, address: Option<SocketAddr>, stop: Arc<AtomicBool>) -> Self {
        Self { lua: lua.weak(), address: Arc::new(Mutex::new((address, false))), stop }
    }

    fn state(&self) -> mlua::Result<Lua> {
        self.lua.try_upgrade().ok_or_else(|| mlua::Error::runtime("the thread has ended"))
    }

    /// The address that `setup` has chosen, if it has.
    pub(super) fn chosen_address(&self) -> Option<SocketAddr> {
        let (address, chosen) = *self.address.lock().unwrap_or_else(PoisonError::into_inner);
        address.filter(|_| chosen)
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
            copy(&value, to, 0)
        });
        methods.add_method("set", |_, this, (name, value): (String, Value)| {
            let state = this.state()?;
            let copied = copy(&value, &state, 0)?;
            state.globals().set(name, copied)
        });
        methods.add_method("stop", |_, this, ()| {
            this.stop.store(true, Ordering::Relaxed);
            Ok(())
        });
    }
}

/// The value in another state. As in wrk only plain values and tables of them can go there, and a thread.
fn copy(value: &Value, to: &Lua, depth: usize) -> mlua::Result<Value> {
    match value {
        Value::Nil | Value::Boolean(_) | Value::Integer(_) | Value::Number(_) => Ok(value.clone()),
        Value::String(text) => Ok(Value::String(to.create_string(text.as_bytes())?)),
        Value::Table(table) if depth < DEPTH_MAX => {
            let copied = to.create_table()?;
            for pair in table.pairs::<Value, Value>() {
                let (key, value) = pair?;
                copied.raw_set(copy(&key, to, depth + 1)?, copy(&value, to, depth + 1)?)?;
            }
            Ok(Value::Table(copied))
        }
        Value::UserData(data) => {
            let address = data.borrow::<Address>()?;
            Ok(Value::UserData(to.create_userdata(*address)?))
        }
        other => Err(mlua::Error::runtime(format!("a {} cannot be given to another thread", other.type_name()))),
    }
}

/// `wrk.lookup` and `wrk.connect`.
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
