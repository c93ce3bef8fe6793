//! The values of user-defined variables during one exchange. Each is made when it is first asked for and kept, as in nginx;
//! `user_variables` says how it is made. Asking goes through a shared reference, because templates are written from borrowed
//! views: the cells are borrowed for the length of a copy and never while another value is made.

use crate::captures::Captures;
use crate::pattern::Pattern;
use crate::variable::Slot;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Variables that are made of variables, one inside the other, at most; as in nginx more are a mistake. Each level is a
/// call of the one before.
const DEPTH_MAX: u32 = 100;

/// All slots of an exchange; empty, and without memory, until one has a value.
#[derive(Debug, Default)]
pub struct VarSlots {
    /// `None`: no slot has a value, and no other exchange shares them.
    values: RefCell<Option<Rc<RefCell<Vec<Value>>>>>,
    depth: Cell<u32>,
}

impl Clone for VarSlots {
    /// A copy of its own, also of shared slots.
    fn clone(&self) -> Self {
        let values = self.values.borrow().as_ref().map(|values| Rc::new(RefCell::clone(values)));
        Self { values: values.into(), depth: self.depth.clone() }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Value {
    #[default]
    Unset,
    /// It is being made: a caller that asks for it now is what it is made of.
    InTheMaking,
    Known(Box<[u8]>),
}

/// The result of asking for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Its value was appended.
    Written,
    /// It has to be made; [`VarSlots::begin`] marks it.
    Unset,
    /// It is made of itself.
    Cycle,
}

impl VarSlots {
    /// Appends the value of a slot, if it is there.
    pub fn read(&self, slot: Slot, out: &mut Vec<u8>) -> Asked {
        let Some(values) = &*self.values.borrow() else { return Asked::Unset };
        match values.borrow().get(usize::from(slot.0)) {
            None | Some(Value::Unset) => Asked::Unset,
            Some(Value::InTheMaking) => Asked::Cycle,
            Some(Value::Known(bytes)) => {
                out.extend_from_slice(bytes);
                Asked::Written
            }
        }
    }

    /// The same slots once more: what one exchange sets, the other one reads.
    #[must_use]
    pub fn share(&self) -> Self {
        let values = Rc::clone(self.values.borrow_mut().get_or_insert_default());
        Self { values: Some(values).into(), depth: Cell::new(0) }
    }

    /// Gives a slot its value.
    pub fn set(&self, slot: Slot, value: &[u8]) {
        self.put(slot, Value::Known(value.into()));
    }

    /// Stores the named groups of an expression that matched in their variables; one that took no part is empty.
    pub fn store_groups(&self, pattern: &Pattern, captures: &Captures) {
        for (group, slot) in pattern.named() {
            self.set(*slot, captures.group(usize::from(*group)).unwrap_or_default());
        }
    }

    /// Marks a slot before its value is made. `false`: values are nested too deeply.
    pub(crate) fn begin(&self, slot: Slot) -> bool {
        if self.depth.get() >= DEPTH_MAX {
            return false;
        }
        self.depth.set(self.depth.get() + 1);
        self.put(slot, Value::InTheMaking);
        true
    }

    /// Ends what [`Self::begin`] began. `None`: the value is not kept.
    pub(crate) fn end(&self, slot: Slot, value: Option<&[u8]>) {
        self.depth.set(self.depth.get().saturating_sub(1));
        self.put(slot, value.map_or(Value::Unset, |value| Value::Known(value.into())));
    }

    fn put(&self, slot: Slot, value: Value) {
        let mut all = self.values.borrow_mut();
        let mut values = all.get_or_insert_default().borrow_mut();
        let index = usize::from(slot.0);
        if index >= values.len() {
            values.resize(index + 1, Value::Unset);
        }
        values[index] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_slots_change_for_both_and_copies_for_one() {
        let read = |slots: &VarSlots| {
            let mut out = Vec::new();
            (slots.read(Slot(1), &mut out), out)
        };
        let first = VarSlots::default();
        let (shared, copy) = (first.share(), first.clone());
        shared.set(Slot(1), b"x");
        assert_eq!(read(&first), (Asked::Written, b"x".to_vec()));
        assert_eq!(read(&copy), (Asked::Unset, Vec::new()));
        let copy = first.clone();
        copy.set(Slot(1), b"y");
        assert_eq!(read(&shared), (Asked::Written, b"x".to_vec()));
    }
}
