//! Debezium's connector for MySQL.

use super::source::{SourceBlock, missing, number, refused};
use crate::cdc::ChangeSequence;
use crate::error::{Error, Result};

/// Orders changes by their GTID: which server first wrote them, in the order in which
/// servers took over from each other, the transaction's number there, the event's
/// position in the binary log and the row in the event.
///
/// Which server came first cannot be told from the changes, so the UUIDs of the servers
/// are given in that order; new ones are appended, and none is ever taken away or moved.
/// The order holds where no server writes again after another took over.
///
/// Changes of the initial snapshot come before all others: their sequence is zero.
///
/// Source: MySQL's documentation of GTIDs, Debezium's of `source` of the MySQL connector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebeziumMySql {
    /// In lower case.
    uuids: Vec<String>,
}

/// Values of `snapshot` that the initial snapshot has.
const INITIAL: [&str; 5] = [
    "true",
    "first",
    "first_in_data_collection",
    "last_in_data_collection",
    "last",
];

impl DebeziumMySql {
    /// The profile for servers with these UUIDs, in the order in which they took over.
    ///
    /// # Errors
    /// [`Configuration`](crate::ErrorKind::Configuration) when one is no UUID or is
    /// given twice.
    pub fn new<S: AsRef<str>>(uuids: &[S]) -> Result<Self> {
        let mut known = Vec::with_capacity(uuids.len());
        for uuid in uuids {
            let uuid = uuid.as_ref().trim().to_ascii_lowercase();
            if !is_uuid(&uuid) {
                return Err(Error::configuration(format!(
                    "'{uuid}' is no UUID of a MySQL server, such as \
                     24bc7850-2c16-11e6-a073-0242ac110002 (see @@server_uuid)"
                )));
            }
            if known.contains(&uuid) {
                return Err(Error::configuration(format!(
                    "the UUID {uuid} is given twice: a server that writes again after another took \
                     over has no place in the order"
                )));
            }
            known.push(uuid);
        }
        Ok(Self { uuids: known })
    }

    /// The place of a change.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument): another connector, an
    /// incremental snapshot, no GTID or one that is tagged, of several sources or of a
    /// UUID that is not known, no position or row.
    pub fn sequence(&self, source: &SourceBlock) -> Result<ChangeSequence> {
        source.must_be_of("mysql")?;
        match source.text("snapshot")?.as_deref() {
            None | Some("false") => {}
            Some(initial) if INITIAL.contains(&initial) => {
                return ChangeSequence::new(&[0, 0, 0, 0]);
            }
            Some(other) => {
                return Err(refused(format!(
                    "a row of the snapshot '{other}' has no place among the changes around it"
                )));
            }
        }
        let gtid = source.text("gtid")?.ok_or_else(|| missing("gtid"))?;
        let (epoch, transaction) = self.coordinates(gtid.trim())?;
        let (position, row) = (source.needed("pos")?, source.needed("row")?);
        ChangeSequence::new(&[epoch, transaction, position, row])
    }

    fn coordinates(&self, gtid: &str) -> Result<(u64, u64)> {
        if gtid.contains(',') {
            return Err(refused(format!(
                "the GTID '{gtid}' is of several sources, which have no common order"
            )));
        }
        let parts: Vec<&str> = gtid.split(':').collect();
        let [uuid, transaction] = parts.as_slice() else {
            return Err(refused(match parts.len() {
                3 => {
                    format!("the GTID '{gtid}' is tagged; tags number transactions for themselves")
                }
                _ => format!("'{gtid}' is no GTID of one transaction, as uuid:number"),
            }));
        };
        let transaction = number(transaction, "the number of the GTID's transaction")?;
        if transaction == 0 {
            return Err(refused(format!(
                "the GTID '{gtid}' has the number 0, which no transaction has"
            )));
        }
        let uuid = uuid.to_ascii_lowercase();
        let place = self.uuids.iter().position(|known| *known == uuid);
        let place = place.ok_or_else(|| {
            refused(format!(
                "the GTID '{gtid}' is of a server whose place in the order is not known: append its \
                 UUID to the option sink.cdc.debezium_mysql.source_uuids"
            ))
        })?;
        let epoch = u64::try_from(place).unwrap_or(u64::MAX).saturating_add(1);
        Ok((epoch, transaction))
    }
}

fn is_uuid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FIRST: &str = "24bc7850-2c16-11e6-a073-0242ac110002";
    const SECOND: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn of(json: &str) -> Result<String> {
        let profile = DebeziumMySql::new(&[FIRST, SECOND]).unwrap();
        let source = SourceBlock::read(json)?;
        Ok(profile.sequence(&source)?.to_string())
    }

    fn streamed(gtid: &str, position: u64, row: u64) -> Result<String> {
        of(&format!(
            r#"{{"connector":"mysql","snapshot":"false","gtid":"{gtid}","pos":{position},"row":{row},"ts_ms":1}}"#
        ))
    }

    #[test]
    fn all_coordinates_are_kept() {
        assert_eq!(
            streamed(&format!("{FIRST}:16"), 1081, 2).unwrap(),
            "0000000000000001/0000000000000010/0000000000000439/0000000000000002"
        );
        assert_eq!(
            streamed(&format!("{}:16", SECOND.to_uppercase()), 0, 0).unwrap(),
            "0000000000000002/0000000000000010/0000000000000000/0000000000000000"
        );
        for snapshot in INITIAL {
            assert_eq!(
                of(&format!(
                    r#"{{"connector":"mysql","snapshot":"{snapshot}","pos":154,"row":0}}"#
                ))
                .unwrap(),
                "0000000000000000/0000000000000000/0000000000000000/0000000000000000"
            );
        }
    }

    #[test]
    fn what_has_no_order_is_refused() {
        let other = "11111111-2222-3333-4444-555555555555";
        for (gtid, why) in [
            (format!("{FIRST}:tag:16"), "tagged"),
            (format!("{FIRST}:16,{SECOND}:3"), "several sources"),
            (format!("{other}:16"), "is not known"),
            (format!("{FIRST}:1-16"), "whole number"),
            (format!("{FIRST}:0"), "number 0"),
            (format!("{FIRST}:-1"), "whole number"),
            (FIRST.to_string(), "no GTID"),
            (String::new(), "no GTID"),
        ] {
            let error = streamed(&gtid, 4, 0).unwrap_err();
            assert!(error.to_string().contains(why), "{gtid}: {error}");
        }
        for (source, why) in [
            (r#"{"connector":"postgresql"}"#.to_string(), "connector is"),
            (
                r#"{"connector":"mysql","ts_ms":5,"pos":4,"row":0}"#.to_string(),
                "no 'gtid'",
            ),
            (
                format!(r#"{{"connector":"mysql","gtid":"{FIRST}:16","row":0}}"#),
                "no 'pos'",
            ),
            (
                format!(r#"{{"connector":"mysql","gtid":"{FIRST}:16","pos":4}}"#),
                "no 'row'",
            ),
            (
                format!(r#"{{"connector":"mysql","gtid":"{FIRST}:16","pos":4,"row":-1}}"#),
                "'row'",
            ),
            (
                r#"{"connector":"mysql","snapshot":"incremental"}"#.to_string(),
                "'incremental'",
            ),
        ] {
            let error = of(&source).unwrap_err();
            assert!(error.to_string().contains(why), "{source}: {error}");
        }
        assert!(DebeziumMySql::new(&["not-a-uuid"]).is_err());
        assert!(DebeziumMySql::new(&[FIRST, SECOND, FIRST]).is_err());
    }

    proptest! {
        /// Places in the history of servers and sequences are ordered alike, and a
        /// server that is appended changes none of them.
        #[test]
        fn the_order_is_the_histories(
            one in (0..2usize, 1..=u64::MAX, any::<u64>(), any::<u64>()),
            other in (0..2usize, 1..=u64::MAX, any::<u64>(), any::<u64>()),
        ) {
            let sequence = |(server, transaction, position, row)| {
                let uuid: &str = [FIRST, SECOND][server];
                streamed(&format!("{uuid}:{transaction}"), position, row).unwrap()
            };
            prop_assert_eq!(sequence(one).cmp(&sequence(other)), one.cmp(&other));
            let zero = of(r#"{"connector":"mysql","snapshot":"last"}"#).unwrap();
            prop_assert!(zero < sequence(one));
        }
    }
}
