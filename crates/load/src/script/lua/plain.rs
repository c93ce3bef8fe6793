//! Lua values without their state, to copy them between the states of workers and between processes. As in wrk, these are
//! plain values, tables of them, and addresses.

use super::thread::Address;
use mlua::{IntoLua as _, Lua, Value};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Deepest nesting of tables that is copied; a table that contains itself would never end.
const DEPTH_MAX: usize = 32;
/// Most bytes of all globals of a worker that are sent to the process that calls `done`: a hundred times a list of all
/// latencies of a minute, and little enough not to delay the end of a run.
const GLOBALS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A value that can be copied to another state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ScriptValue {
    Boolean(bool),
    Integer(i64),
    /// The bits of the number: JSON cannot represent all numbers.
    Number(u64),
    Text(Vec<u8>),
    Table(Vec<(ScriptValue, ScriptValue)>),
    Address(SocketAddr),
}

/// Names of globals with their values; `None` is nil.
pub(crate) type Globals = Vec<(String, Option<ScriptValue>)>;

impl ScriptValue {
    /// Copies a value; nil becomes `None`. The error is for values that cannot leave their state.
    pub(super) fn of(value: &Value) -> mlua::Result<Option<Self>> {
        let mut room = usize::MAX;
        Self::within(value, 0, &mut room)
    }

    fn within(value: &Value, depth: usize, room: &mut usize) -> mlua::Result<Option<Self>> {
        let bytes = if let Value::String(text) = value { text.as_bytes().len() } else { 0 } + size_of::<Self>();
        let Some(left) = room.checked_sub(bytes) else {
            *room = 0;
            return Err(too_much());
        };
        *room = left;
        Ok(Some(match value {
            Value::Nil => return Ok(None),
            Value::Boolean(value) => Self::Boolean(*value),
            Value::Integer(value) => Self::Integer(*value),
            Value::Number(value) => Self::Number(value.to_bits()),
            Value::String(text) => Self::Text(text.as_bytes().to_vec()),
            Value::Table(table) if depth < DEPTH_MAX => {
                let mut pairs = Vec::new();
                for pair in table.pairs::<Value, Value>() {
                    let (key, value) = pair?;
                    let (key, value) = (Self::within(&key, depth + 1, room)?, Self::within(&value, depth + 1, room)?);
                    pairs.extend(key.zip(value));
                }
                Self::Table(pairs)
            }
            Value::UserData(data) => Self::Address(data.borrow::<Address>()?.0),
            other => {
                return Err(mlua::Error::runtime(format!("a {} cannot be given to another thread", other.type_name())));
            }
        }))
    }

    /// Creates the value in a state.
    pub(super) fn to_lua(&self, lua: &Lua) -> mlua::Result<Value> {
        Ok(match self {
            Self::Boolean(value) => Value::Boolean(*value),
            Self::Integer(value) => value.into_lua(lua)?,
            Self::Number(bits) => Value::Number(f64::from_bits(*bits)),
            Self::Text(text) => Value::String(lua.create_string(text)?),
            Self::Table(pairs) => {
                let table = lua.create_table()?;
                for (key, value) in pairs {
                    table.raw_set(key.to_lua(lua)?, value.to_lua(lua)?)?;
                }
                Value::Table(table)
            }
            Self::Address(address) => Value::UserData(lua.create_userdata(Address(*address))?),
        })
    }
}

fn too_much() -> mlua::Error {
    mlua::Error::runtime("the script's globals are more than another process takes (64 MB for each thread)")
}

/// Creates the value, or nil, in a state.
pub(super) fn to_lua(value: Option<&ScriptValue>, lua: &Lua) -> mlua::Result<Value> {
    value.map_or(Ok(Value::Nil), |value| value.to_lua(lua))
}

/// All globals that can be copied; functions and Lua's own globals are left out.
pub(super) fn globals(lua: &Lua) -> mlua::Result<Globals> {
    let mut room = GLOBALS_BYTES_MAX;
    let mut found = Globals::new();
    for pair in lua.globals().pairs::<Value, Value>() {
        let (Value::String(name), value) = pair? else { continue };
        let before = room;
        match ScriptValue::within(&value, 0, &mut room) {
            Ok(value) => found.push((name.to_string_lossy(), value)),
            // An empty budget means that the value is too large; otherwise it cannot be copied.
            Err(_) if room == 0 => return Err(too_much()),
            Err(_) => room = before,
        }
    }
    Ok(found)
}

/// Sets these globals in a state, and removes plain globals that are not among them.
pub(super) fn restore(lua: &Lua, values: &Globals) -> mlua::Result<()> {
    let all = lua.globals();
    for (name, _) in globals(lua)?.iter().filter(|(name, _)| !values.iter().any(|(other, _)| other == name)) {
        all.set(name.as_str(), Value::Nil)?;
    }
    values.iter().try_for_each(|(name, value)| all.set(name.as_str(), to_lua(value.as_ref(), lua)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_values_go_over_and_functions_stay() {
        let (from, to) = (Lua::new(), Lua::new());
        from.load(
            "n, s, b, f = 1.5, 'a\\0\\255', true, function() end\n\
             nested = {1, 2, {x = -3}}\nwith = {f}\ncyclic = {}\ncyclic.self = cyclic\nhuge = 1/0",
        )
        .exec()
        .unwrap();
        to.load("n = 7; gone = 'old'").exec().unwrap();
        let sent = globals(&from).unwrap();
        let text = serde_json::to_string(&sent).unwrap();
        let read: Globals = serde_json::from_str(&text).unwrap();
        assert_eq!(read, sent);
        restore(&to, &read).unwrap();
        to.load(
            "assert(n == 1.5 and s == 'a\\0\\255' and b == true and f == nil and nested[3].x == -3 and huge == 1/0)\n\
             assert(gone == nil and with == nil and cyclic == nil and type(print) == 'function' and #nested == 3)",
        )
        .exec()
        .unwrap();
    }

    #[test]
    fn refuses_oversized_input() {
        let lua = Lua::new();
        lua.load("big = string.rep('x', 70 * 1024 * 1024)").exec().unwrap();
        assert!(globals(&lua).unwrap_err().to_string().contains("64 MB"));
    }
}
