//! Dead letters as messages of a topic of Pub/Sub.

use async_trait::async_trait;

use super::{DeadLetter, Outlet};
use crate::client::pubsub::{Message, Publisher};
use crate::error::Result;

/// An attribute holds no more
/// (<https://cloud.google.com/pubsub/quotas#resource_limits>).
const MAX_ATTRIBUTE_BYTES: usize = 1_024;

/// Publishes each letter as a message with the row as its data.
#[derive(Debug)]
pub(super) struct TopicOutlet {
    publisher: Publisher,
}

impl TopicOutlet {
    pub(super) fn new(publisher: Publisher) -> Self {
        Self { publisher }
    }
}

fn message(letter: &DeadLetter) -> Message {
    let error = match &letter.column {
        Some(column) => format!("column '{column}': {}", letter.error),
        None => letter.error.clone(),
    };
    let attributes = [
        ("dlq-connector", "datafusion-bigquery".to_string()),
        ("dlq-destination", cut(&letter.destination).to_string()),
        ("dlq-error", cut(&error).to_string()),
        ("dlq-timestamp", letter.timestamp()),
        ("dlq-subtask", letter.subtask.to_string()),
    ];
    Message {
        data: letter.payload.clone().into_bytes(),
        attributes: attributes.into_iter().collect(),
    }
}

/// The text, cut between two characters where it is too long for an attribute.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_ATTRIBUTE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[async_trait]
impl Outlet for TopicOutlet {
    async fn check(&mut self) -> Result<()> {
        self.publisher.check_topic().await
    }

    async fn deliver(&mut self, letters: &[DeadLetter]) -> Result<()> {
        let messages: Vec<_> = letters.iter().map(message).collect();
        self.publisher.publish(&messages).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_errors_are_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        let long = "é".repeat(600);
        assert_eq!(cut(&long).len(), 1_024);
        let odd = format!("x{long}");
        assert_eq!(cut(&odd).len(), 1_023);
    }
}
