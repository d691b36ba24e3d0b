//! Lingering: whether the services of a user go on when the last session of that user ends.
//!
//! Without it a service that was installed over SSH works, and dies some seconds after the logout.

use std::path::Path;

use rustix::process::getuid;
use wolli_home::environment::Environment;

use super::error::ServiceError;
use super::programs::{Programs, SHORT};

/// Where the login manager notes who lingers; looked at for users that it does not know at the moment.
const NOTES: &str = "/var/lib/systemd/linger";

/// The user whose services these are: the name if it is known, else the number, which the login manager takes as well.
pub(super) fn user(environment: &Environment) -> String {
    let name = environment.variable("USER").or_else(|| environment.variable("LOGNAME"));
    name.map_or_else(|| getuid().as_raw().to_string(), str::to_owned)
}

/// Whether the user lingers; `None` if nobody can say.
pub(super) async fn is_on(programs: &Programs, user: &str, agent: &str) -> Option<bool> {
    let arguments = ["show-user", "--no-pager", "--property=Linger", "--value", "--", user];
    match programs.call("loginctl", &arguments, agent, SHORT).await {
        Ok(said) if said.success => match said.output.trim() {
            "yes" => return Some(true),
            "no" => return Some(false),
            _ => {}
        },
        // It knows only users with a session, or who linger.
        Ok(said) if said.problem().contains("not logged in or lingering") => return Some(false),
        Ok(_) | Err(_) => {}
    }
    Path::new(NOTES).is_dir().then(|| Path::new(NOTES).join(user).exists())
}

/// Turns it on if it is off. Gives what to tell a person if it stays off.
pub(super) async fn ensure(programs: &Programs, user: &str, agent: &str) -> Option<String> {
    if is_on(programs, user, agent).await == Some(true) {
        return None;
    }
    let enabled = programs.order("loginctl", &["--no-ask-password", "enable-linger", "--", user], agent, SHORT).await;
    if enabled.is_ok() && is_on(programs, user, agent).await != Some(false) {
        return None;
    }
    let problem = match enabled {
        Ok(_) => "it stays off".to_owned(),
        Err(ServiceError::Refused { problem, .. }) => problem,
        Err(error) => error.to_string(),
    };
    Some(format!(
        "the service ends when you log out, and does not start with the machine: lingering is off and could not be turned on ({problem}). \
         Turn it on with: sudo loginctl enable-linger {user}"
    ))
}
