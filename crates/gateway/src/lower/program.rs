//! Rewrite programs: lowers the written instructions to programs of `rules`. As in nginx, an `if` in a location is a
//! location of its own that only its program leads to: it has the location's settings and content with the changes of
//! the block, but neither its `try_files` nor its `limit_except`.

use crate::lower::Lowering;
use crate::plan::location::LocationId;
use crate::plan::program::{ProgramPlan, ReturnPlan};
use conf::diagnostic::Diagnostic;
use conf::model::{self, If, Instruction, LocationSettings, Program, RewriteFlag};
use conf::source::Span;
use rules::program::{Condition, FileTest, Rewrite, Step, Then};
use rules::variable::{Assignable, Variable};
use std::sync::Arc;

/// The meaning of a program's numbers.
#[derive(Default)]
struct Numbers {
    answers: Vec<ReturnPlan>,
    places: Vec<LocationId>,
    spans: Vec<Span>,
}

impl Lowering<'_> {
    /// A program that does not begin with `return`; `None` if there is nothing to do. `name` is the location's; `None`
    /// for a server, where an `if` has no settings.
    pub(super) fn program(
        &mut self,
        program: &Program,
        settings: &Arc<LocationSettings>,
        name: Option<&[u8]>,
    ) -> Option<Box<ProgramPlan>> {
        if program.is_empty() || matches!(program.first(), Some(Instruction::Return(_))) {
            return None;
        }
        let mut numbers = Numbers::default();
        let steps = self.steps(program, settings, name, &mut numbers);
        let program = rules::program::Program::build(steps, settings.log.rewrite);
        let Numbers { answers, places, spans } = numbers;
        Some(Box::new(ProgramPlan { program, answers, places, spans }))
    }

    fn steps(
        &mut self,
        program: &Program,
        settings: &Arc<LocationSettings>,
        name: Option<&[u8]>,
        numbers: &mut Numbers,
    ) -> Vec<Step> {
        let mut steps = Vec::with_capacity(program.len());
        for instruction in program {
            numbers.spans.push(instruction.span());
            steps.extend(match instruction {
                Instruction::Break(_) => Some(Step::Break),
                Instruction::Return(answer) => {
                    let plan = self.return_plan(answer, settings);
                    numbers.answers.push(plan);
                    Some(Step::Return(numbers.answers.len() as u32 - 1))
                }
                Instruction::Set { variable, value, .. } => {
                    let value = self.template(value);
                    match self.users.declare_assignable(variable) {
                        Ok(Assignable::Slot(slot)) => Some(Step::Set(slot, value)),
                        Ok(Assignable::Args) => Some(Step::SetArgs(value)),
                        Ok(Assignable::LimitRate) => Some(Step::SetRate(value)),
                        // Declaring the variable has reported the error.
                        Err(_) => None,
                    }
                }
                Instruction::Rewrite(rewrite) => self.rewrite(rewrite).map(|rewrite| Step::Rewrite(Box::new(rewrite))),
                Instruction::If(block) => self.step_if(block, name, numbers),
            });
        }
        steps
    }

    fn rewrite(&mut self, written: &model::Rewrite) -> Option<Rewrite> {
        Some(Rewrite {
            pattern: self.pattern(&written.regex)?,
            uri: self.template(&written.uri),
            args: written.args.as_ref().map(|args| self.template(args)),
            append_args: written.append_args,
            then: match written.flag {
                RewriteFlag::None => Then::Next,
                RewriteFlag::Last => Then::Last,
                RewriteFlag::Break => Then::Break,
                RewriteFlag::Redirect(status) => Then::Redirect(status),
            },
        })
    }

    fn step_if(&mut self, block: &If, name: Option<&[u8]>, numbers: &mut Numbers) -> Option<Step> {
        let condition = self.condition(&block.condition, block.span)?;
        let place = name.map(|name| {
            let content = self.content(block.content.as_ref(), &Program::default(), &block.settings, name);
            numbers.places.push(self.add((name, block.span), &block.settings, content, None));
            numbers.places.len() as u32 - 1
        });
        let steps = self.steps(&block.program, &block.settings, name, numbers);
        Some(Step::If { condition, place, steps })
    }

    fn condition(&mut self, written: &model::Condition, span: Span) -> Option<Condition> {
        let file = |test, negated, path| {
            if negated { Condition::NoFile(test, path) } else { Condition::File(test, path) }
        };
        Some(match written {
            model::Condition::True(variable) => Condition::True(self.variable(variable, span)?),
            model::Condition::Equal { variable, value, negated } => {
                let (variable, value) = (self.variable(variable, span)?, self.template(value));
                if *negated { Condition::NotEqual(variable, value) } else { Condition::Equal(variable, value) }
            }
            model::Condition::Match { variable, regex, negated } => {
                let (variable, pattern) = (self.variable(variable, span)?, self.pattern(regex)?);
                if *negated { Condition::NoMatch(variable, pattern) } else { Condition::Match(variable, pattern) }
            }
            model::Condition::File { path, negated } => file(FileTest::Regular, *negated, self.template(path)),
            model::Condition::Directory { path, negated } => file(FileTest::Directory, *negated, self.template(path)),
            model::Condition::Exists { path, negated } => file(FileTest::Exists, *negated, self.template(path)),
            model::Condition::Executable { path, negated } => file(FileTest::Executable, *negated, self.template(path)),
        })
    }

    /// A variable outside of a template.
    pub(super) fn variable(&mut self, name: &str, span: Span) -> Option<Variable> {
        let Some(variable) = Variable::resolve(name, &self.users) else {
            let (message, hint) = Variable::explain_unknown(name, &self.users);
            let error = Diagnostic::error(span, message);
            self.found.push(match hint {
                Some(hint) => error.with_hint(hint),
                None => error,
            });
            return None;
        };
        self.note_wanted(std::iter::once(&variable), span);
        Some(variable)
    }
}
