//! What the tables of one session share.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::client::{Client, background};
use crate::error::Result;
use crate::options::ConnectionOptions;
use crate::query::SharedRuns;
use crate::scan::Snapshots;

/// The clients, snapshots and query runs of a session. Tables that are reached in
/// the same way share one client, and with it connections and tokens.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    clients: Mutex<Vec<(ConnectionOptions, Client)>>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) runs: Arc<SharedRuns>,
    /// The catalogs of projects, by name.
    catalogs: Mutex<Vec<(String, String)>>,
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

    /// A client whose connections work while this thread waits.
    ///
    /// # Errors
    /// As [`client`](Self::client).
    pub(crate) fn client_to_wait_for(&self, connection: &ConnectionOptions) -> Result<Client> {
        match background::waiting_stops_others() {
            true => Client::new(connection),
            false => self.client(connection),
        }
    }

    /// Keeps in mind that the catalog `name` is `project`.
    pub(crate) fn has_catalog(&self, name: &str, project: &str) {
        let mut catalogs = self.catalogs.lock();
        catalogs.retain(|(known, _)| known != name);
        catalogs.push((name.to_string(), project.to_string()));
    }

    /// The catalog of `project`, if there is one.
    pub(crate) fn catalog_of(&self, project: &str) -> Option<String> {
        let catalogs = self.catalogs.lock();
        let found = catalogs.iter().find(|(_, known)| known == project);
        found.map(|(name, _)| name.clone())
    }
}
