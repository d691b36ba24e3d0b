//! `wolli completions`: a script that teaches a shell our words.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::console::Console;
use crate::failure::Failure;

pub(crate) fn run(shell: Shell, console: &Console) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "wolli", &mut script);
    Ok(console.print(&String::from_utf8_lossy(&script))?)
}
