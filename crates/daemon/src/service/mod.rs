//! Agents as services of the operating system: what is installed, and how service managers are asked to.
//!
//! | module | owns |
//! |---|---|
//! | `definition` | what is to run, with which environment |
//! | `render` | the texts of units and property lists |
//! | `search_path` | the `PATH` of the service |
//! | `escape` | values in those texts |

mod definition;
mod escape;
mod render;
mod search_path;

pub use definition::{DEFAULT_IDLE, Definition, OnDemand};
pub use render::{property_list, socket_unit, unit};
pub use search_path::{SearchPath, search_path};
