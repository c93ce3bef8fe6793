//! Errors of the stage, with the line of the experiment that they concern.

use std::fmt;
use std::io;

/// An error, in words for the user.
#[derive(Debug)]
pub struct StageError {
    /// The place of the part of the experiment that the error concerns, such as `experiment.toml:14:1`. `None` if it
    /// concerns the machine, or the whole run.
    pub place: Option<String>,
    /// A sentence, followed by the program's output if there is any.
    pub text: String,
}

impl StageError {
    /// An error without a place.
    pub fn new(text: impl Into<String>) -> Self {
        Self { place: None, text: text.into() }
    }

    /// Adds the place of a part of the experiment, unless the error has one.
    #[must_use]
    pub fn at(mut self, place: &str) -> Self {
        self.place.get_or_insert_with(|| place.to_owned());
        self
    }

    /// Adds words at the beginning.
    #[must_use]
    pub fn within(mut self, what: &str) -> Self {
        self.text = format!("{what}: {}", self.text);
        self
    }
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl std::error::Error for StageError {}

impl From<io::Error> for StageError {
    fn from(error: io::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<sockdiag::Error> for StageError {
    fn from(error: sockdiag::Error) -> Self {
        Self::new(error.to_string())
    }
}
