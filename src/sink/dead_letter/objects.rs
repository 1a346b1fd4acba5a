//! Dead letters in objects of Cloud Storage, a line of JSON each.

use async_trait::async_trait;

use super::{DeadLetter, Outlet};
use crate::client::staging::Staging;
use crate::error::Result;

/// An object ends with the letter that makes it larger than this.
const OBJECT_BYTES: usize = 16 << 20;

/// Writes each delivery to objects of its own. Those of one sink lie in a folder that no
/// other sink has, so that statements and processes side by side do not meet.
#[derive(Debug)]
pub(super) struct ObjectOutlet {
    place: Staging,
    folder: String,
    /// The number of the next object. It stays until a whole delivery has succeeded: one
    /// that is repeated writes the same objects again.
    next: usize,
}

impl ObjectOutlet {
    pub(super) fn new(place: Staging) -> Self {
        Self {
            place,
            folder: format!("datafusion-{:032x}", rand::random::<u128>()),
            next: 0,
        }
    }

    fn name(&self, number: usize) -> String {
        format!("{}/{number:06}.json", self.folder)
    }
}

/// The lines of letters, cut into objects.
fn objects(letters: &[DeadLetter], most: usize) -> Vec<String> {
    let mut objects: Vec<String> = Vec::new();
    for letter in letters {
        let line = letter.line();
        match objects.last_mut() {
            Some(open) if open.len() <= most => open.push_str(&line),
            _ => objects.push(line),
        }
    }
    objects
}

#[async_trait]
impl Outlet for ObjectOutlet {
    /// That there is a bucket. Whether objects may be written shows with the first one.
    async fn check(&mut self) -> Result<()> {
        self.place.check_bucket(&self.name(self.next)).await
    }

    async fn deliver(&mut self, letters: &[DeadLetter]) -> Result<()> {
        let mut number = self.next;
        for lines in objects(letters, OBJECT_BYTES) {
            self.place.put(&self.name(number), lines.into()).await?;
            number += 1;
        }
        self.next = number;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::failure::FailedRow;

    #[test]
    fn every_letter_is_in_one_object() {
        let letters: Vec<_> = (1..=5)
            .map(|row| {
                let failed = FailedRow {
                    row,
                    column: None,
                    message: "too fine".into(),
                    content: None,
                };
                DeadLetter::new("p.d.t", 0, &failed)
            })
            .collect();
        let line = letters[0].line().len();
        let cut = objects(&letters, line);
        let lines: Vec<_> = cut.iter().map(|object| object.lines().count()).collect();
        assert_eq!(lines, [2, 2, 1]);
        let whole: String = letters.iter().map(DeadLetter::line).collect();
        assert_eq!(cut.concat(), whole);
        assert_eq!(objects(&letters, usize::MAX), [whole]);
        assert_eq!(objects(&letters[..0], line), Vec::<String>::new());
    }
}
