//! A scenario, ready to be played in this process: templates and regular expressions are parsed.

use super::examine::Examination;
use super::request::StepRequest;
use super::{Data, DataPer, KeepCookies, Scenario};
use crate::options::{Options, OptionsError};
use crate::template::TemplateError;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Names that the users set themselves.
pub(super) const OWN_VARIABLES: [&str; 2] = ["iteration", "user"];

/// A step, ready to be used.
#[derive(Debug)]
pub(crate) struct CompiledStep {
    pub(crate) request: StepRequest,
    pub(crate) examination: Examination,
    pub(crate) think: (Duration, Duration),
    pub(crate) repeat: u32,
    /// The host in lower case, for cookies.
    pub(crate) host: String,
    pub(crate) is_secure: bool,
}

/// A scenario, ready to be used.
#[derive(Debug)]
pub(crate) struct Compiled {
    scenario: Arc<Scenario>,
    /// Of all flows, in order.
    pub(crate) steps: Vec<CompiledStep>,
    /// The steps of each flow.
    pub(crate) flows: Vec<Range<u16>>,
    /// The values of all variables at the start of an iteration.
    pub(crate) variables: Vec<Vec<u8>>,
    own: [Option<usize>; OWN_VARIABLES.len()],
}

impl Compiled {
    pub(crate) fn new(scenario: &Arc<Scenario>, options: &Options) -> Result<Self, OptionsError> {
        let variable = |name: &str| scenario.variables.iter().position(|(known, _)| known == name);
        let mut steps = Vec::new();
        for ((_, step), target) in scenario.steps().zip(&options.targets) {
            let wrong = |problem: String| OptionsError::Step(step.name.clone(), problem);
            let request = StepRequest::new(step, target, options, &variable);
            steps.push(CompiledStep {
                request: request.map_err(|error| wrong(in_words(&error)))?,
                examination: Examination::new(&step.checks, &step.extract, &variable).map_err(wrong)?,
                think: step.think,
                repeat: step.repeat.max(1),
                host: target.url.host.to_ascii_lowercase(),
                is_secure: target.url.tls,
            });
        }
        let mut first = 0;
        let mut range = |count: usize| {
            let range = first..first + count as u16;
            first = range.end;
            range
        };
        let flows = scenario.flows.iter().map(|flow| range(flow.steps.len())).collect();
        let variables = scenario.variables.iter().map(|(_, value)| value.clone().into_bytes()).collect();
        check_rows(scenario, options)?;
        Ok(Self { scenario: Arc::clone(scenario), steps, flows, variables, own: OWN_VARIABLES.map(variable) })
    }

    pub(crate) fn step(&self, target: u16) -> Option<&CompiledStep> {
        self.steps.get(usize::from(target))
    }

    /// The flows as number and weight.
    pub(crate) fn weights(&self) -> impl Iterator<Item = (u16, u32)> {
        self.scenario.flows.iter().enumerate().map(|(at, flow)| (at as u16, flow.weight))
    }

    pub(crate) fn data(&self) -> &[Data] {
        &self.scenario.data
    }

    /// The flow of an iteration, if a list decides.
    pub(crate) fn listed(&self, iteration: u64) -> Option<u16> {
        let order = &self.scenario.order;
        let at = iteration.checked_rem(order.len() as u64)?;
        order.get(at as usize).copied()
    }

    pub(crate) fn cookies(&self) -> KeepCookies {
        self.scenario.cookies
    }

    /// Sets the variables of a new iteration: their start values, and the numbers of iteration and user.
    pub(crate) fn start(&self, variables: &mut Vec<Vec<u8>>, iteration: u64, user: u64) {
        variables.clone_from(&self.variables);
        for (place, number) in self.own.iter().zip([iteration, user]) {
            if let Some(variable) = place.and_then(|place| variables.get_mut(place)) {
                *variable = number.to_string().into_bytes();
            }
        }
    }
}

fn in_words(error: &TemplateError) -> String {
    match error {
        TemplateError::Unknown(_) => format!("{error}, and no variable of the file has this name"),
        _ => error.to_string(),
    }
}

/// Refuses more users than rows, if each user keeps a row of its own.
fn check_rows(scenario: &Scenario, options: &Options) -> Result<(), OptionsError> {
    for data in &scenario.data {
        let each_user = data.per == DataPer::User && data.order == super::DataOrder::Unique;
        if each_user && !options.pace.is_open() && data.rows.len() < options.connections {
            let (name, rows) = (data.name.clone(), data.rows.len());
            return Err(OptionsError::TooFewRows { name, rows, users: options.connections });
        }
    }
    Ok(())
}
