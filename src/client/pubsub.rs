//! Publishing to a topic of Pub/Sub.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

use super::Client;
use super::rest::Transport;
use super::rest::transport::{Api, Request};
use crate::error::{Error, ErrorKind, Result};
use crate::options::EndpointUrl;

/// Limits of one request (<https://cloud.google.com/pubsub/quotas#resource_limits>):
/// 1,000 messages and 10 MB, of which base64 and attributes take a part.
const MAX_MESSAGES: usize = 500;
const MAX_BYTES: usize = 7_000_000;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) data: Vec<u8>,
    pub(crate) attributes: BTreeMap<&'static str, String>,
}

impl Message {
    fn size(&self) -> usize {
        let attributes = self.attributes.iter();
        let attributes: usize = attributes.map(|(key, value)| key.len() + value.len()).sum();
        self.data.len().div_ceil(3) * 4 + attributes
    }
}

/// Publishes to one topic.
#[derive(Debug, Clone)]
pub(crate) struct Publisher {
    transport: Transport,
    project: String,
    topic: String,
}

impl Client {
    /// What publishes to a topic as this client's identity. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] when no connection can be set up.
    pub(crate) fn publisher(
        &self,
        endpoint: &EndpointUrl,
        project: &str,
        topic: &str,
    ) -> Result<Publisher> {
        Ok(Publisher {
            transport: Transport::of_api(
                Api::PUBSUB,
                endpoint.clone(),
                self.0.credentials.clone(),
                std::sync::Arc::clone(&self.0.clock),
            )?,
            project: project.to_string(),
            topic: topic.to_string(),
        })
    }
}

impl Publisher {
    /// That the topic is there.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when it does not exist.
    pub(crate) async fn check_topic(&self) -> Result<()> {
        let path = ["projects", &self.project, "topics", &self.topic];
        match self.transport.get(&path, &[]).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::new(
                ErrorKind::NotFound,
                format!(
                    "topic {} of project {} does not exist: create it first",
                    self.topic, self.project
                ),
            )
            .with_source(error)),
            Err(error) => Err(error),
        }
    }

    /// Publishes messages, at least once, in several requests if they are many.
    ///
    /// # Errors
    /// What no further attempt can cure; some messages may have been published then.
    pub(crate) async fn publish(&self, messages: &[Message]) -> Result<()> {
        let mut rest = messages;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |message: &&Message| {
                bytes += message.size();
                bytes <= MAX_BYTES
            };
            let count = rest.iter().take(MAX_MESSAGES).take_while(fits).count();
            let (now, later) = rest.split_at(count.max(1));
            let messages: Vec<Value> = now
                .iter()
                .map(|message| {
                    json!({
                        "data": BASE64_STANDARD.encode(&message.data),
                        "attributes": message.attributes,
                    })
                })
                .collect();
            let body = json!({"messages": messages});
            let topic = format!("{}:publish", self.topic);
            let path = ["projects", &self.project, "topics", &topic];
            let request = Request::new(Method::POST, &path).with_body(&body);
            self.transport.send(request).await?;
            rest = later;
        }
        Ok(())
    }
}
