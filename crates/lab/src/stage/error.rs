//! Why something on the stage could not be done, and which line of the experiment it is about.

use std::fmt;
use std::io;

/// What went wrong, in words for people.
#[derive(Debug)]
pub struct StageError {
    /// Where the part of the experiment is that it is about, as `experiment.toml:14:1`; `None`: the machine, or the run as
    /// a whole.
    pub place: Option<String>,
    /// A sentence, with what the program said below it where there is one.
    pub text: String,
}

impl StageError {
    /// About nothing in particular.
    pub fn new(text: impl Into<String>) -> Self {
        Self { place: None, text: text.into() }
    }

    /// The same about a part of the experiment, unless it is about one already.
    #[must_use]
    pub fn at(mut self, place: &str) -> Self {
        self.place.get_or_insert_with(|| place.to_owned());
        self
    }

    /// The same with words before it.
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
