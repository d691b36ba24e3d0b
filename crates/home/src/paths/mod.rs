//! Names, folders and files: where everything of an agent is. Pure, but for looking through symbolic links.

mod home;
mod name;
mod service;
mod sessions;
mod socket;

pub use home::{AgentHome, Root, SharedFolder};
pub use name::{AgentName, InvalidAgentName};
pub use service::ServiceName;
pub use sessions::session_folder_name;
pub use socket::{SOCKET_PATH_MAX_BYTES, SocketPathTooLong, socket_path};
