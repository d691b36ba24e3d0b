//! `wolli prompt`: gives an agent something to do, from a script. The prompt is on disk when this says so; waiting for the answer is
//! a choice.

use std::io::IsTerminal;

use wolli_home::environment::Environment;

use crate::agents;
use crate::arguments::requests::Prompt;
use crate::console::Console;
use crate::failure::Failure;
use crate::talk::connect::{self, Which};
use crate::talk::print::{self, Job};
use crate::talk::questions::Questions;
use crate::talk::{read_file, read_stdin, runtime};

pub(crate) fn run(prompt: Prompt, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let agent = agents::connectable(environment, &prompt.agent, console)?;
    let message = match &prompt.file {
        Some(file) => read_file(file)?,
        None if prompt.message == ["-"] => read_stdin()?,
        None if prompt.message.is_empty() && std::io::stdin().is_terminal() => return Err(Failure::WhatToSay(prompt.agent)),
        None if prompt.message.is_empty() => read_stdin()?,
        None => prompt.message.join(" "),
    };
    if message.trim().is_empty() {
        return Err(Failure::EmptyMessage);
    }
    let which = Which::of(prompt.session, prompt.new);
    let job = Job { message, json: prompt.json, limit: prompt.timeout, questions: Questions::Leave };
    runtime()?.block_on(async {
        if prompt.wait || prompt.json || prompt.timeout.is_some() {
            return print::run(&agent, which, &job, console).await;
        }
        let session = connect::open(&agent, which).await?;
        session.prompt(wolli_client::Prompt::from(job.message).or_follow_up()).await?;
        Ok(console.line(session.id().as_str())?)
    })
}
