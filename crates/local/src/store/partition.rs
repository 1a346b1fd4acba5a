//! Partitions: where they begin, what they are called, and which specifications
//! a table may have.

use super::table::TableMeta;
use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, Mode};
use crate::value::civil::{DAY_MICROS, date_from_ymd, days_of, ymd_from_date};

/// Most partitions of a table.
const MAX_PARTITIONS: i128 = 10_000;

/// The width of a time partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// One hour.
    Hour,
    /// One day.
    Day,
    /// One calendar month.
    Month,
    /// One calendar year.
    Year,
}

impl Granularity {
    /// Reads `HOUR`, `DAY`, `MONTH` or `YEAR`.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text.to_ascii_uppercase().as_str() {
            "HOUR" => Self::Hour,
            "DAY" => Self::Day,
            "MONTH" => Self::Month,
            "YEAR" => Self::Year,
            _ => return None,
        })
    }

    /// The start of the partition that holds `micros` (since the epoch).
    pub fn start(self, micros: i64) -> i64 {
        let day = days_of(micros);
        let (year, month, _) = ymd_from_date(day);
        let first = |y, m| date_from_ymd(y, m, 1).unwrap_or(day);
        match self {
            Self::Hour => micros - micros.rem_euclid(DAY_MICROS / 24),
            Self::Day => i64::from(day) * DAY_MICROS,
            Self::Month => i64::from(first(year, month)) * DAY_MICROS,
            Self::Year => i64::from(first(year, 1)) * DAY_MICROS,
        }
    }

    /// The id of the partition that holds `micros`: `20240131`, `2024013123`,
    /// `202401`, `2024`.
    pub fn id(self, micros: i64) -> String {
        let (year, month, day) = ymd_from_date(days_of(micros));
        let hour = micros.rem_euclid(DAY_MICROS) / (DAY_MICROS / 24);
        match self {
            Self::Hour => format!("{year:04}{month:02}{day:02}{hour:02}"),
            Self::Day => format!("{year:04}{month:02}{day:02}"),
            Self::Month => format!("{year:04}{month:02}"),
            Self::Year => format!("{year:04}"),
        }
    }

    /// The start of the partition called `id`.
    pub fn parse_id(self, id: &str) -> Option<i64> {
        let length = match self {
            Self::Hour => 10,
            Self::Day => 8,
            Self::Month => 6,
            Self::Year => 4,
        };
        if id.len() != length || !id.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let part = |range: std::ops::Range<usize>, absent: u32| match id.get(range) {
            Some(digits) => digits.parse().ok(),
            None => Some(absent),
        };
        let year = id.get(..4)?.parse().ok()?;
        let days = date_from_ymd(year, part(4..6, 1)?, part(6..8, 1)?)?;
        let hour = part(8..10, 0)?;
        (hour < 24).then(|| i64::from(days) * DAY_MICROS + i64::from(hour) * (DAY_MICROS / 24))
    }
}

/// How a table is partitioned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Partitioning<'a> {
    /// Not at all.
    None,
    /// By the time of arrival.
    Ingestion(Granularity),
    /// By a DATE, DATETIME or TIMESTAMP column.
    Time(&'a Field, Granularity),
    /// By an INT64 column: start, end and interval.
    Range(&'a Field, i64, i64, i64),
}

/// One partition of a table, as a decorator names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Partition {
    /// Starts at microseconds since the epoch (a date counts from midnight).
    Time(i64),
    /// Starts at an integer.
    Range(i64),
    /// `__NULL__`: rows whose partitioning column is NULL.
    Null,
    /// `__UNPARTITIONED__`: rows that no partition holds (outside of the range, or
    /// still in a buffer).
    Unpartitioned,
}

impl TableMeta {
    /// How the table is partitioned.
    pub fn partitioning(&self) -> Partitioning<'_> {
        if let Some(time) = &self.time_partitioning {
            let granularity = Granularity::parse(&time.granularity).unwrap_or(Granularity::Day);
            return match time.field.as_deref().and_then(|f| self.schema.field(f)) {
                Some(field) => Partitioning::Time(field, granularity),
                None => Partitioning::Ingestion(granularity),
            };
        }
        if let Some(range) = &self.range_partitioning
            && let Some(field) = self.schema.field(&range.field)
        {
            return Partitioning::Range(field, range.start, range.end, range.interval);
        }
        Partitioning::None
    }

    /// Start of the ingestion-time partition that rows arriving at `micros` fall
    /// into; `None` for tables that are not partitioned by arrival.
    pub fn ingestion_partition(&self, micros: i64) -> Option<i64> {
        match self.partitioning() {
            Partitioning::Ingestion(granularity) => Some(granularity.start(micros)),
            _ => None,
        }
    }

    /// The partition that a `$` decorator names.
    pub fn partition(&self, id: &str) -> Result<Partition> {
        let found = match (self.partitioning(), id) {
            (Partitioning::None, _) => {
                return Err(ServiceError::invalid(format!(
                    "Cannot use the partition decorator ${id} on a table that is not partitioned"
                )));
            }
            (_, "__NULL__") => Some(Partition::Null),
            (_, "__UNPARTITIONED__") => Some(Partition::Unpartitioned),
            (Partitioning::Ingestion(g) | Partitioning::Time(_, g), id) => {
                g.parse_id(id).map(Partition::Time)
            }
            (Partitioning::Range(_, start, end, interval), id) => id
                .parse::<i64>()
                .ok()
                .filter(|v| (start..end).contains(v))
                .filter(|v| (i128::from(*v) - i128::from(start)) % i128::from(interval) == 0)
                .map(Partition::Range),
        };
        found.ok_or_else(|| {
            ServiceError::invalid(format!(
                "Invalid partition id ${id} for this table's partitioning"
            ))
        })
    }

    /// Refuses partitioning, clustering and keys that the columns do not carry.
    pub fn validate_layout(&self) -> Result<()> {
        self.validate_time_partitioning()?;
        self.validate_range_partitioning()?;
        if self.time_partitioning.is_some() && self.range_partitioning.is_some() {
            return Err(ServiceError::invalid(
                "Only one of timePartitioning and rangePartitioning can be specified.",
            ));
        }
        if self.require_partition_filter && matches!(self.partitioning(), Partitioning::None) {
            return Err(ServiceError::invalid(
                "requirePartitionFilter can only be set on a partitioned table.",
            ));
        }
        self.validate_clustering()?;
        self.validate_primary_key()
    }

    fn partitioning_column(&self, name: &str, kind: &str) -> Result<&Field> {
        let field = self.schema.field(name).ok_or_else(|| {
            ServiceError::invalid(
                "The field specified for partitioning cannot be found in the schema.",
            )
        })?;
        if field.mode() == Mode::Repeated {
            return Err(ServiceError::invalid(format!(
                "The field specified for {kind} partitioning cannot be REPEATED: {name}"
            )));
        }
        Ok(field)
    }

    fn validate_time_partitioning(&self) -> Result<()> {
        let Some(time) = &self.time_partitioning else {
            return Ok(());
        };
        let granularity = Granularity::parse(&time.granularity).ok_or_else(|| {
            ServiceError::invalid(format!(
                "Invalid value for timePartitioning.type: {} is not a valid value",
                time.granularity
            ))
        })?;
        if let Some(ms) = &time.expiration_ms
            && !ms.parse::<i64>().is_ok_and(|ms| ms > 0)
        {
            return Err(ServiceError::invalid(format!(
                "Invalid value for timePartitioning.expirationMs: {ms} is not a positive integer"
            )));
        }
        let Some(name) = &time.field else {
            return Ok(());
        };
        let field = self.partitioning_column(name, "time")?;
        match field.field_type {
            FieldType::Date if granularity == Granularity::Hour => Err(ServiceError::invalid(
                format!("The DATE field {name} cannot be partitioned by HOUR."),
            )),
            FieldType::Date | FieldType::Timestamp | FieldType::Datetime => Ok(()),
            _ => Err(ServiceError::invalid(format!(
                "The field specified for time partitioning can only be of type TIMESTAMP, DATE or DATETIME. The type found is: {}.",
                field.field_type.rest_name()
            ))),
        }
    }

    fn validate_range_partitioning(&self) -> Result<()> {
        let Some(range) = &self.range_partitioning else {
            return Ok(());
        };
        let field = self.partitioning_column(&range.field, "range")?;
        if field.field_type != FieldType::Int64 {
            return Err(ServiceError::invalid(format!(
                "The field specified for range partitioning can only be of type INTEGER. The type found is: {}.",
                field.field_type.rest_name()
            )));
        }
        if range.interval < 1 || range.start >= range.end {
            return Err(ServiceError::invalid(format!(
                "Invalid range partitioning: start {} must be below end {}, and interval {} at least 1.",
                range.start, range.end, range.interval
            )));
        }
        let width = i128::from(range.end) - i128::from(range.start);
        let count = (width + i128::from(range.interval) - 1) / i128::from(range.interval);
        if count > MAX_PARTITIONS {
            return Err(ServiceError::invalid(format!(
                "The range partitioning makes {count} partitions; a table may have at most {MAX_PARTITIONS}."
            )));
        }
        Ok(())
    }

    fn validate_clustering(&self) -> Result<()> {
        let Some(clustering) = &self.clustering else {
            return Ok(());
        };
        if clustering.fields.is_empty() || clustering.fields.len() > 4 {
            return Err(ServiceError::invalid(format!(
                "A table can be clustered by 1 to 4 fields, not {}.",
                clustering.fields.len()
            )));
        }
        for (i, name) in clustering.fields.iter().enumerate() {
            let field = self.schema.field(name).ok_or_else(|| {
                ServiceError::invalid(format!(
                    "The field specified for clustering cannot be found in the schema. Invalid field: {name}"
                ))
            })?;
            if clustering.fields[..i]
                .iter()
                .any(|n| n.eq_ignore_ascii_case(name))
            {
                return Err(ServiceError::invalid(format!(
                    "Field {name} is specified more than once for clustering."
                )));
            }
            let allowed = match field.field_type {
                FieldType::Int64
                | FieldType::Bool
                | FieldType::String
                | FieldType::Numeric
                | FieldType::Bignumeric
                | FieldType::Date
                | FieldType::Datetime
                | FieldType::Timestamp
                | FieldType::Geography
                | FieldType::Range(_) => field.mode() != Mode::Repeated,
                FieldType::Float64
                | FieldType::Bytes
                | FieldType::Time
                | FieldType::Json
                | FieldType::Interval
                | FieldType::Struct(_) => false,
            };
            if !allowed {
                return Err(ServiceError::invalid(format!(
                    "Field {name} of type {} cannot be used for clustering.",
                    field.sql_type()
                )));
            }
        }
        Ok(())
    }

    fn validate_primary_key(&self) -> Result<()> {
        if self.primary_key.len() > 16 {
            return Err(ServiceError::invalid(format!(
                "A primary key can have at most 16 columns, not {}.",
                self.primary_key.len()
            )));
        }
        for (i, name) in self.primary_key.iter().enumerate() {
            let field = self.schema.field(name).ok_or_else(|| {
                ServiceError::invalid(format!(
                    "Primary key column {name} cannot be found in the schema."
                ))
            })?;
            if self.primary_key[..i]
                .iter()
                .any(|n| n.eq_ignore_ascii_case(name))
            {
                return Err(ServiceError::invalid(format!(
                    "Primary key column {name} is specified more than once."
                )));
            }
            let allowed = match field.field_type {
                FieldType::Int64
                | FieldType::Bool
                | FieldType::String
                | FieldType::Bytes
                | FieldType::Numeric
                | FieldType::Bignumeric
                | FieldType::Date
                | FieldType::Datetime
                | FieldType::Timestamp => field.mode() != Mode::Repeated,
                FieldType::Float64
                | FieldType::Time
                | FieldType::Json
                | FieldType::Geography
                | FieldType::Interval
                | FieldType::Range(_)
                | FieldType::Struct(_) => false,
            };
            if !allowed {
                return Err(ServiceError::invalid(format!(
                    "Column {name} of type {} cannot be part of a primary key.",
                    field.sql_type()
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::TableSchema;
    use crate::store::{ClusteringSpec, Dataset, RangePartitioning, TableKind, TimePartitioning};
    use std::sync::Arc;

    fn meta() -> TableMeta {
        let fields = vec![
            Field::new("d", FieldType::Date),
            Field::new("ts", FieldType::Timestamp),
            Field::new("i", FieldType::Int64),
            Field::new("s", FieldType::String),
            Field::new("f", FieldType::Float64),
            Field::new("l", FieldType::Int64).with_mode(Mode::Repeated),
        ];
        let dataset = Dataset::new("US", 0);
        TableMeta::new(
            &dataset,
            TableKind::Table,
            Arc::new(TableSchema::new(fields)),
            0,
        )
    }

    fn by_time(granularity: &str, field: Option<&str>) -> TableMeta {
        let mut meta = meta();
        meta.time_partitioning = Some(TimePartitioning {
            granularity: granularity.into(),
            field: field.map(Into::into),
            expiration_ms: None,
        });
        meta
    }

    fn by_range(field: &str, start: i64, end: i64, interval: i64) -> TableMeta {
        let mut meta = meta();
        meta.range_partitioning = Some(RangePartitioning {
            field: field.into(),
            start,
            end,
            interval,
        });
        meta
    }

    #[test]
    fn ids_and_starts() {
        let micros = 1_709_210_096_789_012; // 2024-02-29 12:34:56.789012
        for (granularity, id, start) in [
            (Granularity::Hour, "2024022912", 1_709_208_000_000_000),
            (Granularity::Day, "20240229", 1_709_164_800_000_000),
            (Granularity::Month, "202402", 1_706_745_600_000_000),
            (Granularity::Year, "2024", 1_704_067_200_000_000),
        ] {
            assert_eq!(granularity.id(micros), id);
            assert_eq!(granularity.start(micros), start);
            assert_eq!(granularity.parse_id(id), Some(start));
        }
        for bad in ["20240230", "2024022", "2024-2-9", "202402291"] {
            assert_eq!(Granularity::Day.parse_id(bad), None, "{bad}");
        }
        assert_eq!(Granularity::Hour.parse_id("2024022924"), None);
        assert_eq!(Granularity::Day.start(-1), -DAY_MICROS);
    }

    #[test]
    fn decorators() {
        assert_eq!(
            by_time("DAY", None).partition("19700102"),
            Ok(Partition::Time(DAY_MICROS))
        );
        assert_eq!(
            by_time("DAY", Some("d")).partition("__NULL__"),
            Ok(Partition::Null)
        );
        assert_eq!(
            by_range("i", 0, 100, 10).partition("20"),
            Ok(Partition::Range(20))
        );
        assert!(by_range("i", 0, 100, 10).partition("25").is_err());
        assert!(by_range("i", 0, 100, 10).partition("100").is_err());
        assert!(by_time("DAY", None).partition("1970").is_err());
        assert!(meta().partition("19700102").is_err());
    }

    #[test]
    fn layouts() {
        for good in [
            meta(),
            by_time("DAY", None),
            by_time("HOUR", Some("TS")),
            by_time("MONTH", Some("d")),
            by_range("i", -5, 5, 1),
        ] {
            good.validate_layout().unwrap();
        }
        for (bad, words) in [
            (by_time("WEEK", None), "is not a valid value"),
            (
                by_time("DAY", Some("nope")),
                "The field specified for partitioning cannot be found in the schema.",
            ),
            (
                by_time("DAY", Some("s")),
                "can only be of type TIMESTAMP, DATE or DATETIME. The type found is: STRING.",
            ),
            (by_time("HOUR", Some("d")), "cannot be partitioned by HOUR"),
            (by_time("DAY", Some("l")), "cannot be REPEATED"),
            (by_range("s", 0, 10, 1), "can only be of type INTEGER"),
            (by_range("i", 0, 10_001, 1), "10001 partitions"),
            (by_range("i", i64::MIN, i64::MAX, 1), "partitions"),
            (by_range("i", 0, 10, 0), "interval 0"),
        ] {
            let message = bad.validate_layout().unwrap_err().message;
            assert!(message.contains(words), "{message}");
        }
        let mut both = by_time("DAY", None);
        both.range_partitioning = by_range("i", 0, 10, 1).range_partitioning;
        assert!(both.validate_layout().is_err());
        let clustered = |fields: &[&str]| {
            let mut meta = meta();
            meta.clustering = Some(ClusteringSpec {
                fields: fields.iter().map(|f| (*f).to_string()).collect(),
            });
            meta.validate_layout()
        };
        assert!(clustered(&["s", "D"]).is_ok());
        for bad in [
            &["f"][..],
            &["l"],
            &["nope"],
            &[],
            &["s", "S"],
            &["d", "ts", "i", "s", "d"],
        ] {
            assert!(clustered(bad).is_err(), "{bad:?}");
        }
        let keyed = |fields: &[&str]| {
            let mut meta = meta();
            meta.primary_key = fields.iter().map(|f| (*f).to_string()).collect();
            meta.validate_layout()
        };
        assert!(keyed(&["i", "s"]).is_ok());
        assert!(keyed(&["f"]).is_err());
        assert!(keyed(&["i", "I"]).is_err());
        let mut filtered = meta();
        filtered.require_partition_filter = true;
        assert!(filtered.validate_layout().is_err());
    }
}
