//! Values of Lua's without their state: what goes from one worker's state to another one's, and from process to process. As in wrk those
//! are plain values, tables of them, and addresses.

use super::thread::Address;
use mlua::{IntoLua as _, Lua, Value};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Tables within tables that are copied from one state to another; one that contains itself has no end.
const DEPTH_MAX: usize = 32;
/// Bytes of all globals of a worker that its process sends to the one that calls `done`: a hundred times what a list of all latencies of
/// a minute takes, and less than what would be noticed at the end of a run.
const GLOBALS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A value that can leave its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Plain {
    Boolean(bool),
    Integer(i64),
    /// Its bits: JSON has no words for all numbers.
    Number(u64),
    Text(Vec<u8>),
    Table(Vec<(Plain, Plain)>),
    Address(SocketAddr),
}

/// Names of globals with their values; none is nil.
pub(crate) type Globals = Vec<(String, Option<Plain>)>;

impl Plain {
    /// The value, or `None` of nil; an error of one that belongs to its state.
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

    /// The same value in a state.
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

/// A value or nil in a state.
pub(super) fn to_lua(value: Option<&Plain>, lua: &Lua) -> mlua::Result<Value> {
    value.map_or(Ok(Value::Nil), |value| value.to_lua(lua))
}

/// All globals of a state that can leave it; functions and what Lua itself brings stay.
pub(super) fn globals(lua: &Lua) -> mlua::Result<Globals> {
    let mut room = GLOBALS_BYTES_MAX;
    let mut found = Globals::new();
    for pair in lua.globals().pairs::<Value, Value>() {
        let (Value::String(name), value) = pair? else { continue };
        let before = room;
        match Plain::within(&value, 0, &mut room) {
            Ok(value) => found.push((name.to_string_lossy(), value)),
            // What is left of the room tells a value that is too large from one that cannot leave.
            Err(_) if room == 0 => return Err(too_much()),
            Err(_) => room = before,
        }
    }
    Ok(found)
}

/// Gives a state these globals, and takes away the plain ones that are not among them.
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
    fn reports_what_is_too_large() {
        let lua = Lua::new();
        lua.load("big = string.rep('x', 70 * 1024 * 1024)").exec().unwrap();
        assert!(globals(&lua).unwrap_err().to_string().contains("64 MB"));
    }
}
