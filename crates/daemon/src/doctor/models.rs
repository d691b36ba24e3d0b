//! Credentials, the model that a new session gets, and whether a server on this machine is there. No key is sent anywhere, and no other
//! machine is asked.

use std::net::IpAddr;

use wolli_home::agent::AgentDocument;
use wolli_protocol::resource::DiagnosticKind;
use wolli_runtime::runtime::{ModelFacts, model_facts};

use super::finding::{Finding, word};
use super::{Patient, configuration, port};

#[derive(Debug)]
pub(super) struct Facts {
    models: ModelFacts,
    /// The server of the model is on this machine, and nobody listens there: host and port.
    silent: Option<(String, u16)>,
}

pub(super) async fn gather(patient: &Patient, document: &AgentDocument, read: &configuration::Facts) -> Facts {
    let demo = read.configuration.values.models.demo;
    let models = model_facts(&patient.home, &patient.shared, &patient.environment, document, demo);
    let mut silent = None;
    if let Some((host, number)) = models.model.as_ref().and_then(|model| local(&model.base_url))
        && !port::takes_connections(&host, number).await
    {
        silent = Some((host, number));
    }
    Facts { models, silent }
}

/// Host and port of an address on this machine.
fn local(base_url: &str) -> Option<(String, u16)> {
    let uri: http::Uri = base_url.parse().ok()?;
    let host = uri.host()?;
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    if host != "localhost" && !address.is_ok_and(|address| address.is_loopback()) {
        return None;
    }
    let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    Some((host.to_owned(), uri.port_u16().unwrap_or(usual)))
}

pub(super) fn findings(patient: &Patient, facts: &Facts, installed: bool) -> Vec<Finding> {
    let name = patient.name();
    let mut found = Vec::new();
    for problem in &facts.models.problems {
        let path = problem.path.clone().unwrap_or_default();
        let place = if path.is_empty() || problem.message.contains(&path) { String::new() } else { format!(" ({path})") };
        let text = format!("{}{place}", problem.message);
        let finding = if problem.kind == DiagnosticKind::Error {
            Finding::error("credentials", "file_unusable", text)
        } else {
            Finding::warning("credentials", "entry_unusable", text)
        };
        let edit = if path.is_empty() { patient.home.config_json() } else { path.into() };
        found.push(
            finding
                .means("What it holds does not count: keys, models or settings may be missing.")
                .fix(format!("\"${{EDITOR:-vi}}\" {}", word(&edit))),
        );
    }
    let choose = format!("wolli {name}   # then /login, and /model");
    match &facts.models.model {
        None => found.push(
            Finding::error("model", "no_model", facts.models.notice.clone().unwrap_or_else(|| "no model can be used".to_owned()))
                .means("Prompts are refused.")
                .fix(choose),
        ),
        Some(model) => {
            if model.stands_in {
                found.push(
                    Finding::warning("model", "demonstration", "no model is configured, so the built-in demonstration answers")
                        .means("It repeats what it is told. There is no key, and no server of your own in models.json.")
                        .fix(choose),
                );
            } else if let Some(notice) = &facts.models.notice {
                found.push(
                    Finding::warning("model", "other_model", notice.clone())
                        .means(format!("New sessions use {}/{} instead.", model.provider, model.id))
                        .fix(choose),
                );
            }
            if let (Some(variable), true) = (&model.variable, installed) {
                found.push(
                    Finding::warning(
                        "credentials",
                        "key_in_shell",
                        format!("the key of {} is in {variable}, which the service does not have", model.provider),
                    )
                    .means("The agent answers while a terminal starts it, and not as a service: definitions hold no secrets.")
                    .fix(format!("wolli {name}   # then /login {}", model.provider)),
                );
            }
            if let Some((host, number)) = &facts.silent {
                found.push(
                    Finding::error(
                        "model",
                        "server_silent",
                        format!("nobody listens on {host}:{number}, where {}/{} is", model.provider, model.id),
                    )
                    .means("Every prompt fails until that server runs. Start it, or correct its address in models.json.")
                    .fix(format!(
                        "curl -sS {}/models; \"${{EDITOR:-vi}}\" {}",
                        model.base_url.trim_end_matches('/'),
                        word(&patient.shared.models())
                    )),
                );
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_asked() {
        for (address, expected) in [
            ("http://127.0.0.1:11434/v1", Some(("127.0.0.1", 11434))),
            ("http://localhost/v1", Some(("localhost", 80))),
            ("https://[::1]:9/", Some(("[::1]", 9))),
            ("https://127.1.2.3", Some(("127.1.2.3", 443))),
            ("https://api.example.com/v1", None),
            ("http://192.168.1.2:80", None),
            ("http://localhost.example.com", None),
            ("http://user@localhost:1/", Some(("localhost", 1))),
            ("not an address", None),
            ("", None),
        ] {
            assert_eq!(local(address), expected.map(|(host, port)| (host.to_owned(), port)), "{address}");
        }
    }
}
