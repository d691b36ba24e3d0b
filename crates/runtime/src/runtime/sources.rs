//! The files that say what an agent has, apart from its history: read when it is opened, and again by a reload.

use std::path::PathBuf;

use wolli_home::environment::Environment;
use wolli_home::paths::SharedFolder;

use super::credentials::ModelSources;
use crate::resources::Places;

/// Where everything is read from. Never changes.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) shared: SharedFolder,
    /// The files of `config.toml`, later ones over earlier ones; none if the program brought its configuration along.
    pub(super) configuration: Vec<PathBuf>,
    pub(super) places: Places,
    pub(super) models: ModelSources,
    /// For paths that a person gives.
    pub(super) environment: Environment,
}
