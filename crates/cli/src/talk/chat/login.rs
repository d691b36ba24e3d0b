//! What `/login` and `/logout` do. Keys are asked for by a question of the daemon, as in every client; they are not seen here.

use wolli_client::{ClientError, SessionHandle};
use wolli_protocol::command::AuthType;
use wolli_protocol::resource::AuthSelectorProvider;

/// Stores a key for the provider, which is asked for by a question of the daemon; or lists the providers.
pub(super) async fn login(session: &SessionHandle, wanted: Option<String>) -> Result<String, ClientError> {
    match wanted {
        Some(provider) => {
            session.login(&provider, AuthType::ApiKey).await?;
            Ok(format!("The key for {provider} is stored. /model lists the models, /model <p/id> uses one.\n"))
        }
        None => Ok(list(&session.login_providers(Some(AuthType::ApiKey)).await?)),
    }
}

/// Removes what is stored for the provider, or lists what is stored.
pub(super) async fn logout(session: &SessionHandle, wanted: Option<String>) -> Result<String, ClientError> {
    match wanted {
        Some(provider) => {
            session.logout(&provider).await?;
            Ok(format!("Nothing is stored for {provider} any more.\n"))
        }
        None => Ok(list(&session.logout_providers().await?)),
    }
}

fn list(providers: &[AuthSelectorProvider]) -> String {
    if providers.is_empty() {
        return "(none)\n".to_owned();
    }
    providers.iter().map(|provider| format!("{}  {}\n", provider.id, provider.name)).collect()
}
