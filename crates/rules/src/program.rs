//! Rewrite programs: `set`, `rewrite`, `if`, `return` and `break`, compiled to a list of instructions and run step by step. The
//! order of all steps, and their effect on captures and arguments, is nginx's. The caller that runs a program (`gateway`) gives
//! it a [`Machine`] to act on, and does what it stops for: answers, redirects, and looking for files.

mod replace;

use crate::pattern::{MatchError, Pattern};
use crate::template::Template;
use crate::user_variables::Surroundings;
use crate::variable::{Slot, Variable};
use replace::{Rewritten, write_escaped};

/// One step, as it was written.
#[derive(Debug, Clone)]
pub enum Step {
    /// `set`
    Set(Slot, Template),
    /// `set $args`
    SetArgs(Template),
    /// `set $limit_rate`
    SetRate(Template),
    /// `rewrite`
    Rewrite(Box<Rewrite>),
    /// `return`; the number is the caller's.
    Return(u32),
    /// `break`
    Break,
    /// `if`
    If {
        /// When.
        condition: Condition,
        /// The caller's number of the settings that hold from then on; `None` where they stay.
        place: Option<u32>,
        /// What is done then.
        steps: Vec<Step>,
    },
}

/// A condition of `if`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The variable is neither empty nor `0`.
    True(Variable),
    /// The variable equals the text.
    Equal(Variable, Template),
    /// It does not.
    NotEqual(Variable, Template),
    /// The variable matches the expression.
    Match(Variable, Pattern),
    /// It does not.
    NoMatch(Variable, Pattern),
    /// The path is there as this.
    File(FileTest, Template),
    /// It is not.
    NoFile(FileTest, Template),
}

/// What a path is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileTest {
    /// `-f`
    Regular,
    /// `-d`
    Directory,
    /// `-e`
    Exists,
    /// `-x`
    Executable,
}

/// A compiled `rewrite`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    /// Compared with the URI.
    pub pattern: Pattern,
    /// The new URI, or the URL that the client is sent to.
    pub uri: Template,
    /// The new arguments; `None` where the replacement has no `?`. Of a redirect they are a part of its URL.
    pub args: Option<Template>,
    /// The request's arguments go behind them.
    pub append_args: bool,
    /// How the program goes on.
    pub then: Then,
}

/// How a program goes on after a rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// With the next step; at the end a location is sought.
    Next,
    /// `last`: a location is sought.
    Last,
    /// `break`: this location's content.
    Break,
    /// The client is sent elsewhere with this status.
    Redirect(u16),
}

/// What an instruction has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did<'a> {
    /// `set`: the value.
    Set(&'a [u8]),
    /// `rewrite`: the URI does not match.
    Missed,
    /// `rewrite`: the machine has the new URI.
    Rewrote,
    /// `rewrite`: the client is sent to a URL.
    Redirected(u16, &'a [u8]),
    /// `return`
    Returned,
    /// `break`
    Stayed,
    /// `if`: whether the condition holds.
    Tested(bool),
    /// `if`: the caller looks for a file.
    Looks,
}

/// What a program acts on.
pub trait Machine: Surroundings {
    /// Whether [`Machine::ran`] is called. A constant, so that programs that are not traced pay nothing for it.
    const TRACED: bool = false;

    /// An instruction has run. They are numbered in the order of the text, those inside an `if` after it.
    fn ran(&mut self, number: u32, did: Did<'_>) {
        let _ = (number, did);
    }
    /// `$uri`
    fn uri(&self) -> &[u8];
    /// `$args`; empty for none.
    fn args(&self) -> &[u8];
    /// Whether the path that the client sent has escapes or plus signs: then captures are escaped where they become
    /// arguments or a redirect.
    fn was_quoted(&self) -> bool;
    /// `set $args`
    fn set_args(&mut self, args: &[u8]);
    /// `set $limit_rate`: a size, or a text that is not a size.
    fn set_rate(&mut self, size: &[u8]);
    /// The request is about another URI from now on. `args` of `None` leaves the arguments; `stays` is `rewrite … break`.
    fn rewrite(&mut self, uri: Vec<u8>, args: Option<Vec<u8>>, stays: bool);
    /// `break`: no location is sought for the URI as it is.
    fn stay(&mut self);
    /// An `if` was true: its settings hold.
    fn enter(&mut self, place: u32);
    /// `rewrite_log`: what was done.
    fn notice(&self, message: &str);
}

/// Where a program goes on; the default is its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Index of the next instruction.
    at: usize,
    /// Whether a `rewrite` has matched in this run: nginx escapes groups only before that.
    rewritten: bool,
}

/// Why a program stopped.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// Nothing is left to do.
    End,
    /// `return`, by the caller's number.
    Return(u32),
    /// The client is sent to this URL.
    Redirect(u16, Vec<u8>),
    /// The caller must look for a file; the program continues at `yes` or `no`.
    Look {
        /// What for.
        test: FileTest,
        /// Where.
        path: Vec<u8>,
        /// The condition holds if it is not there.
        negated: bool,
        /// Where to go on if it is there.
        yes: Place,
        /// Where to go on otherwise.
        no: Place,
    },
    /// It cannot go on, for this reason: the answer is 500.
    Failed(String),
}

/// A compiled program.
#[derive(Debug, Clone, Default)]
pub struct Program {
    list: Box<[Instruction]>,
    /// The number of each instruction's directive, in the order of the text.
    numbers: Box<[u32]>,
    /// `rewrite_log`
    logs: bool,
}

#[derive(Debug, Clone)]
enum Instruction {
    Set(Slot, Template),
    SetArgs(Template),
    SetRate(Template),
    Rewrite(Box<Rewrite>),
    Return(u32),
    Break,
    /// Goes on at `otherwise` if the condition does not hold.
    Test(Box<Condition>, usize),
    Enter(u32),
}

impl Program {
    /// Compiles the steps.
    pub fn build(steps: Vec<Step>, logs: bool) -> Self {
        let mut flat =
            Flat { list: Vec::with_capacity(steps.len()), numbers: Vec::with_capacity(steps.len()), next: 0 };
        flat.append(steps);
        Self { list: flat.list.into(), numbers: flat.numbers.into(), logs }
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The URLs that `rewrite` sends clients to, and the arguments of these URLs.
    pub fn redirect_urls(&self) -> impl Iterator<Item = &Template> {
        let redirects = self.list.iter().filter_map(|instruction| match instruction {
            Instruction::Rewrite(rewrite) if matches!(rewrite.then, Then::Redirect(_)) => Some(rewrite),
            _ => None,
        });
        redirects.flat_map(|rewrite| std::iter::once(&rewrite.uri).chain(&rewrite.args))
    }

    /// Runs from `place` on: the beginning at first, then where [`Stop::Look`] said. Instructions only lead forward, so each
    /// is run once at most.
    pub fn run<M: Machine>(&self, place: Place, machine: &mut M) -> Stop {
        let Place { mut at, mut rewritten } = place;
        while let Some(instruction) = self.list.get(at) {
            let this = at;
            at += 1;
            match instruction {
                Instruction::Set(slot, value) => {
                    let text = text_of(value, rewritten, machine);
                    machine.slots().set(*slot, &text);
                    self.trace(machine, this, Did::Set(&text));
                }
                Instruction::SetArgs(value) => {
                    let text = text_of(value, rewritten, machine);
                    machine.set_args(&text);
                    self.trace(machine, this, Did::Set(&text));
                }
                Instruction::SetRate(value) => {
                    let text = text_of(value, rewritten, machine);
                    machine.set_rate(&text);
                    self.trace(machine, this, Did::Set(&text));
                }
                Instruction::Rewrite(rewrite) => match rewrite.run(machine, self.logs) {
                    Ok(Rewritten::Missed) => self.trace(machine, this, Did::Missed),
                    Ok(Rewritten::Matched) => {
                        rewritten = true;
                        self.trace(machine, this, Did::Rewrote);
                    }
                    Ok(Rewritten::Stopped(stop)) => {
                        match &stop {
                            Stop::Redirect(status, url) => self.trace(machine, this, Did::Redirected(*status, url)),
                            _ => self.trace(machine, this, Did::Rewrote),
                        }
                        return stop;
                    }
                    Err(error) => return Stop::Failed(error.message),
                },
                Instruction::Return(number) => {
                    self.trace(machine, this, Did::Returned);
                    return Stop::Return(*number);
                }
                Instruction::Break => {
                    machine.stay();
                    self.trace(machine, this, Did::Stayed);
                    return Stop::End;
                }
                Instruction::Enter(place) => machine.enter(*place),
                Instruction::Test(condition, otherwise) => match condition.test(machine, rewritten, self.logs) {
                    Ok(Tested::Holds(holds)) => {
                        if !holds {
                            at = *otherwise;
                        }
                        self.trace(machine, this, Did::Tested(holds));
                    }
                    Ok(Tested::Look { test, path, negated }) => {
                        self.trace(machine, this, Did::Looks);
                        let (holds, fails) = (Place { at, rewritten }, Place { at: *otherwise, rewritten });
                        let (yes, no) = if negated { (fails, holds) } else { (holds, fails) };
                        return Stop::Look { test, path, negated, yes, no };
                    }
                    Err(error) => return Stop::Failed(error.message),
                },
            }
        }
        Stop::End
    }

    /// Reports an instruction to a machine that traces.
    #[inline]
    fn trace<M: Machine>(&self, machine: &mut M, at: usize, did: Did<'_>) {
        if M::TRACED
            && let Some(number) = self.numbers.get(at)
        {
            machine.ran(*number, did);
        }
    }
}

/// Instructions in line, with the way around each block.
struct Flat {
    list: Vec<Instruction>,
    numbers: Vec<u32>,
    /// The number of the next directive.
    next: u32,
}

impl Flat {
    fn append(&mut self, steps: Vec<Step>) {
        for step in steps {
            let number = self.next;
            self.next += 1;
            match step {
                Step::Set(slot, value) => self.push(number, Instruction::Set(slot, value)),
                Step::SetArgs(value) => self.push(number, Instruction::SetArgs(value)),
                Step::SetRate(value) => self.push(number, Instruction::SetRate(value)),
                Step::Rewrite(rewrite) => self.push(number, Instruction::Rewrite(rewrite)),
                Step::Return(answer) => self.push(number, Instruction::Return(answer)),
                Step::Break => self.push(number, Instruction::Break),
                Step::If { condition, place, steps } => {
                    let test = self.list.len();
                    self.push(number, Instruction::Test(Box::new(condition), test + 1));
                    if let Some(place) = place {
                        self.push(number, Instruction::Enter(place));
                    }
                    self.append(steps);
                    let end = self.list.len();
                    if let Some(Instruction::Test(_, otherwise)) = self.list.get_mut(test) {
                        *otherwise = end;
                    }
                }
            }
        }
    }

    fn push(&mut self, number: u32, instruction: Instruction) {
        self.list.push(instruction);
        self.numbers.push(number);
    }
}

/// The result of a condition.
enum Tested {
    Holds(bool),
    Look { test: FileTest, path: Vec<u8>, negated: bool },
}

impl Condition {
    fn test<M: Machine>(&self, machine: &M, rewritten: bool, logs: bool) -> Result<Tested, MatchError> {
        let value = |variable: &Variable| value_of(variable, machine);
        let other = |text: &Template| text_of(text, rewritten, machine);
        Ok(match self {
            Self::True(variable) => {
                let value = value(variable);
                Tested::Holds(!value.is_empty() && value != b"0")
            }
            Self::Equal(variable, text) => Tested::Holds(value(variable) == other(text)),
            Self::NotEqual(variable, text) => Tested::Holds(value(variable) != other(text)),
            Self::Match(variable, pattern) => Tested::Holds(matches(pattern, &value(variable), machine, logs)?),
            Self::NoMatch(variable, pattern) => Tested::Holds(!matches(pattern, &value(variable), machine, logs)?),
            Self::File(test, path) => Tested::Look { test: *test, path: other(path), negated: false },
            Self::NoFile(test, path) => Tested::Look { test: *test, path: other(path), negated: true },
        })
    }
}

/// The text of a `set` or of a condition. As in nginx its groups are escaped as arguments are, if the client's path had
/// escapes that they have lost; but no more once a `rewrite` has matched, which has made a path of them.
fn text_of<M: Machine>(template: &Template, rewritten: bool, machine: &M) -> Vec<u8> {
    let mut text = Vec::new();
    if rewritten {
        template.write(machine, &mut text);
    } else {
        write_escaped(template, machine, &mut text);
    }
    text
}

fn value_of<M: Machine>(variable: &Variable, machine: &M) -> Vec<u8> {
    let mut out = Vec::new();
    machine.write(variable, &mut out);
    out
}

/// Tries an expression. Its groups replace those of the exchange; a miss leaves none, as in nginx.
fn matches<M: Machine>(pattern: &Pattern, subject: &[u8], machine: &M, logs: bool) -> Result<bool, MatchError> {
    let mut captures = machine.captures().borrow_mut();
    let found = pattern.captures(subject, &mut captures)?;
    if found {
        machine.slots().store_groups(pattern, &captures);
    } else {
        captures.clear();
    }
    drop(captures);
    if logs {
        let verb = if found { "matches" } else { "does not match" };
        machine.notice(&format!("\"{}\" {verb} \"{}\"", pattern.source(), subject.escape_ascii()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
