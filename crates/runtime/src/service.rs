//! The port through which a deployed agent becomes a service of the operating system.
//!
//! The runtime decides when (see `Runtime::deploy`); what a unit looks like and which program installs it is the matter of
//! whoever implements the port.

use std::fmt;

/// Why a service cannot be installed or removed. The text goes to the client as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ServiceError(pub String);

/// Installs the agent as a service. All methods are blocking, and are called on threads for blocking work.
pub trait ServiceManager: Send + Sync {
    /// Finds out whether an installation would work, and changes nothing.
    ///
    /// # Errors
    /// It would not.
    fn check(&self) -> Result<(), ServiceError>;

    /// Installs the service, so that the agent is started with the machine. Again is fine: the newest definition counts.
    /// True if nothing was installed before.
    ///
    /// # Errors
    /// It is not installed; what was there before still is.
    fn install(&self) -> Result<bool, ServiceError>;

    /// Takes the service away again. One that is not installed is fine.
    ///
    /// # Errors
    /// It may still be there.
    fn uninstall(&self) -> Result<(), ServiceError>;
}

impl fmt::Debug for dyn ServiceManager {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ServiceManager")
    }
}

/// The backend `none`: agents are started by hand, or when a client needs them.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoServiceManager;

impl ServiceManager for NoServiceManager {
    fn check(&self) -> Result<(), ServiceError> {
        Ok(())
    }

    fn install(&self) -> Result<bool, ServiceError> {
        Ok(false)
    }

    fn uninstall(&self) -> Result<(), ServiceError> {
        Ok(())
    }
}
