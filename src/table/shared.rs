//! What the tables of one session share.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::client::Client;
use crate::error::Result;
use crate::options::ConnectionOptions;
use crate::scan::Snapshots;

/// The clients and snapshots of a session. Tables that are reached in the same
/// way share one client, and with it connections and tokens.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    clients: Mutex<Vec<(ConnectionOptions, Client)>>,
    pub(crate) snapshots: Arc<Snapshots>,
}

impl Shared {
    /// The client for `connection`. Nothing is sent yet.
    ///
    /// # Errors
    /// When the connection's options make no client.
    pub(crate) fn client(&self, connection: &ConnectionOptions) -> Result<Client> {
        let mut clients = self.clients.lock();
        if let Some((_, client)) = clients.iter().find(|(known, _)| known == connection) {
            return Ok(client.clone());
        }
        let client = Client::new(connection)?;
        clients.push((connection.clone(), client.clone()));
        Ok(client)
    }
}
