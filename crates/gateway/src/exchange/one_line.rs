//! Values that the configuration puts into response fields. A variable may contain a line end, which would start
//! another field: such a value is sent as one line, and the error log names the variable.

use crate::exchange::Exchange;
use http1::encode::fold;
use http1::outgoing::is_field_value;

impl Exchange {
    /// The value as one line. `what` names the directive, and the variable if it is known.
    pub(crate) fn one_line(&self, value: Vec<u8>, what: impl FnOnce() -> String) -> Vec<u8> {
        if is_field_value(&value) {
            return value;
        }
        self.error_log(&format!("a control character in the value of {}; the value is sent as one line", what()));
        let mut line = Vec::with_capacity(value.len());
        fold(&value, &mut line);
        line
    }
}
