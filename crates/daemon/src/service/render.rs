//! The texts of units and property lists, from the templates in `systemd/` and `launchd/`. Pure.

use std::fmt::Write as _;

use super::definition::{Definition, OnDemand};
use super::escape;
use crate::VERSION;

const UNIT: &str = include_str!("../../../../systemd/wolli-agent.service");
const SOCKET_UNIT: &str = include_str!("../../../../systemd/wolli-agent.socket");
const PROPERTY_LIST: &str = include_str!("../../../../launchd/com.wolli.agent.plist");

/// systemd's service unit.
#[must_use]
pub fn unit(definition: &Definition) -> String {
    let command: Vec<String> = definition.command(false).iter().map(|word| escape::exec_word(word)).collect();
    let environment: Vec<String> =
        definition.environment.iter().map(|(name, value)| format!("Environment={}", escape::assignment(name, value))).collect();
    let socket = definition.name.socket_unit();
    let (unit_extra, install_extra) = match &definition.on_demand {
        Some(_) => (format!("Requires={socket}\nAfter={socket}"), format!("Also={socket}")),
        None => (String::new(), String::new()),
    };
    let mut text = fill(
        UNIT,
        &[
            ("@VERSION@", VERSION),
            ("@AGENT@", &definition.agent),
            ("@UNIT@", &definition.name.unit()),
            ("@UNIT_EXTRA@", &unit_extra),
            ("@EXEC_START@", &command.join(" ")),
            ("@HOME@", &escape::text(&definition.home.to_string_lossy())),
            ("@ENVIRONMENT@", &environment.join("\n")),
            ("@IDENTIFIER@", definition.name.stem()),
            ("@INSTALL_EXTRA@", &install_extra),
        ],
    );
    if definition.on_demand.is_some() {
        // Its socket is started with the machine, the service when somebody asks.
        text = text.replace("WantedBy=default.target\n", "");
    }
    text
}

/// systemd's socket unit.
#[must_use]
pub fn socket_unit(definition: &Definition, on_demand: &OnDemand) -> String {
    let text = fill(
        SOCKET_UNIT,
        &[
            ("@VERSION@", VERSION),
            ("@AGENT@", &definition.agent),
            ("@ADDRESS@", &on_demand.address.to_string()),
            ("@SOCKET@", &on_demand.socket.as_ref().map(|path| escape::text(&path.to_string_lossy())).unwrap_or_default()),
            ("@UNIT@", &definition.name.unit()),
        ],
    );
    text.replace("ListenStream=\n", "")
}

/// launchd's property list.
#[must_use]
pub fn property_list(definition: &Definition) -> String {
    let strings = |words: &[String]| -> String {
        words.iter().map(|word| format!("\t\t<string>{}</string>", escape::xml(word))).collect::<Vec<_>>().join("\n")
    };
    let environment: Vec<String> = definition
        .environment
        .iter()
        .map(|(name, value)| format!("\t\t<key>{}</key>\n\t\t<string>{}</string>", escape::xml(name), escape::xml(value)))
        .collect();
    fill(
        PROPERTY_LIST,
        &[
            ("@LABEL@", &escape::xml(&definition.name.label())),
            ("@ARGUMENTS@", &strings(&definition.command(true))),
            ("@HOME@", &escape::xml(&definition.home.to_string_lossy())),
            ("@ENVIRONMENT@", &environment.join("\n")),
            ("@RUN_AT_LOAD@", if definition.on_demand.is_some() { "false" } else { "true" }),
            ("@OUTPUT@", &escape::xml(&definition.output.to_string_lossy())),
            ("@SOCKETS@", &definition.on_demand.as_ref().map(launchd_sockets).unwrap_or_default()),
        ],
    )
}

/// Two sockets, by the names under which the daemon asks launchd for them.
fn launchd_sockets(on_demand: &OnDemand) -> String {
    let mut text = format!(
        "\t<key>Sockets</key>\n\t<dict>\n\t\t<key>Listener</key>\n\t\t<dict>\n\t\t\t<key>SockNodeName</key>\n\t\t\t<string>{}</string>\n\
         \t\t\t<key>SockServiceName</key>\n\t\t\t<string>{}</string>\n\t\t</dict>",
        on_demand.address.ip(),
        on_demand.address.port()
    );
    if let Some(path) = &on_demand.socket {
        // Writing into a string does not fail.
        let _ = write!(
            text,
            "\n\t\t<key>Socket</key>\n\t\t<dict>\n\t\t\t<key>SockPathName</key>\n\t\t\t<string>{}</string>\n\
             \t\t\t<key>SockPathMode</key>\n\t\t\t<integer>384</integer>\n\t\t</dict>",
            escape::xml(&path.to_string_lossy())
        );
    }
    text.push_str("\n\t</dict>");
    text
}

/// Puts values into the places of a template; a line that becomes empty by it is left out.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len() * 2);
    for line in template.lines() {
        let mut filled = String::new();
        let mut rest = line;
        // One pass, so that a value which looks like a place stays what it is.
        while let Some((at, (place, value))) = values
            .iter()
            .filter_map(|pair| rest.find(pair.0).map(|at| (at, pair)))
            .min_by_key(|(at, pair)| (*at, usize::MAX - pair.0.len()))
        {
            filled.push_str(&rest[..at]);
            filled.push_str(value);
            rest = &rest[at + place.len()..];
        }
        filled.push_str(rest);
        if filled.is_empty() && !line.is_empty() {
            continue;
        }
        text.push_str(&filled);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
