//! Functions over dates and times by name.

use std::sync::Arc;

use arrow::array::{Date32Array, Time64MicrosecondArray, TimestampMicrosecondArray};

use super::ast::{Ast, DatePart, Node};
use super::bind::{Binder, Bound};
use super::call::{Call, Function, text_argument};
use super::coerce::{coerce, type_list};
use super::error::syntax;
use super::expr::{Expr, Kind};
use super::part::Part;
use super::temporal::TemporalFunction;
use super::types::Type;
use crate::value::civil::{DAY_MICROS, days_of};
use crate::value::timestamp::Zone;

/// Types `EXTRACT(part FROM value [AT TIME ZONE zone])`.
pub(super) fn extract(
    binder: &Binder<'_>,
    at: usize,
    part: &DatePart,
    from: &Node,
    zone: Option<&Node>,
) -> Bound<Expr> {
    let mut arguments = vec![binder.bind(from)?];
    let ty = arguments[0].ty.clone();
    let invalid = || {
        syntax(
            at,
            format!(
                "EXTRACT from {ty} does not support the {} date part",
                part.name
            ),
        )
    };
    let part_named = Part::named(&part.name, part.weekday.as_deref()).ok_or_else(|| {
        syntax(
            at,
            format!("A valid date part name is required but found {}", part.name),
        )
    })?;
    let clock = part_named.micros().is_some();
    let whole = matches!(part_named, Part::Date | Part::Time | Part::Datetime);
    let supported = match &ty {
        Type::Date => !clock && !whole,
        Type::Datetime => part_named != Part::Datetime,
        Type::Timestamp => true,
        Type::Time => clock,
        Type::Interval => clock || matches!(part_named, Part::Year | Part::Month | Part::Day),
        _ => false,
    };
    if !supported {
        return Err(invalid());
    }
    if let Some(zone) = zone {
        if ty != Type::Timestamp {
            return Err(syntax(
                at,
                format!("EXTRACT from {ty} does not support AT TIME ZONE"),
            ));
        }
        arguments.push(text_argument(binder.bind(zone)?, at)?);
    }
    let result = match part_named {
        Part::Date => Type::Date,
        Part::Time => Type::Time,
        Part::Datetime => Type::Datetime,
        _ => Type::Int64,
    };
    let function = Function::Temporal(TemporalFunction::Extract(part_named));
    Ok(Expr::new(at, result, Kind::Call(function, arguments)).failing(true))
}

impl Call<'_> {
    /// Functions over dates and times; `None` for any other.
    pub(super) fn over_time(&self) -> Bound<Option<Expr>> {
        use TemporalFunction as F;
        let unix = |function, from, to| -> Bound<Option<Expr>> {
            self.count(1..=1)?;
            let all = self.typed(&[from])?;
            Ok(Some(self.finish(
                to,
                Function::Temporal(function),
                all,
                true,
            )))
        };
        match self.name {
            "CURRENT_DATE" | "CURRENT_DATETIME" | "CURRENT_TIME" | "CURRENT_TIMESTAMP" => {
                self.current().map(Some)
            }
            "DATE" | "DATETIME" | "TIME" | "TIMESTAMP" => self.constructor().map(Some),
            "DATE_TRUNC" | "DATETIME_TRUNC" | "TIMESTAMP_TRUNC" | "TIME_TRUNC" => {
                self.truncation().map(Some)
            }
            "DATE_ADD" | "DATETIME_ADD" | "TIMESTAMP_ADD" | "TIME_ADD" => {
                self.shift(F::Add).map(Some)
            }
            "DATE_SUB" | "DATETIME_SUB" | "TIMESTAMP_SUB" | "TIME_SUB" => {
                self.shift(F::Subtract).map(Some)
            }
            "DATE_DIFF" | "DATETIME_DIFF" | "TIMESTAMP_DIFF" | "TIME_DIFF" => {
                self.difference().map(Some)
            }
            "LAST_DAY" => self.last_day().map(Some),
            "UNIX_DATE" => unix(F::UnixDate, Type::Date, Type::Int64),
            "DATE_FROM_UNIX_DATE" => unix(F::DateFromUnix, Type::Int64, Type::Date),
            "UNIX_SECONDS" => unix(F::ToUnix(1_000_000), Type::Timestamp, Type::Int64),
            "UNIX_MILLIS" => unix(F::ToUnix(1_000), Type::Timestamp, Type::Int64),
            "UNIX_MICROS" => unix(F::ToUnix(1), Type::Timestamp, Type::Int64),
            "TIMESTAMP_SECONDS" => unix(F::FromUnix(1_000_000), Type::Int64, Type::Timestamp),
            "TIMESTAMP_MILLIS" => unix(F::FromUnix(1_000), Type::Int64, Type::Timestamp),
            "TIMESTAMP_MICROS" => unix(F::FromUnix(1), Type::Int64, Type::Timestamp),
            _ => Ok(None),
        }
    }

    /// The instant of the session, the same for every row.
    fn current(&self) -> Bound<Expr> {
        self.count(0..=1)?;
        let zone = match self.nodes.first() {
            None => Zone::UTC,
            Some(node) => match &node.ast {
                Ast::Text(name) if self.name != "CURRENT_TIMESTAMP" => {
                    Zone::parse(name).map_err(|e| syntax(node.at, e.to_string()))?
                }
                _ => {
                    return Err(syntax(
                        node.at,
                        format!("{} takes a time zone's name at most", self.name),
                    ));
                }
            },
        };
        let now = self.binder.now;
        let local = zone
            .to_local(now)
            .ok_or_else(|| syntax(self.at, "the present time is out of range"))?;
        let micros = |v| Arc::new(TimestampMicrosecondArray::from(vec![v]));
        Ok(match self.name {
            "CURRENT_DATE" => Expr::literal(
                self.at,
                Type::Date,
                Arc::new(Date32Array::from(vec![days_of(local)])),
            ),
            "CURRENT_DATETIME" => Expr::literal(self.at, Type::Datetime, micros(local)),
            "CURRENT_TIME" => Expr::literal(
                self.at,
                Type::Time,
                Arc::new(Time64MicrosecondArray::from(vec![
                    local.rem_euclid(DAY_MICROS),
                ])),
            ),
            _ => Expr::literal(self.at, Type::Timestamp, micros(now)),
        })
    }

    /// DATE(…), DATETIME(…), TIME(…) and TIMESTAMP(…).
    fn constructor(&self) -> Bound<Expr> {
        use TemporalFunction as F;
        let to = match self.name {
            "DATE" => Type::Date,
            "DATETIME" => Type::Datetime,
            "TIME" => Type::Time,
            _ => Type::Timestamp,
        };
        self.count(1..=6)?;
        let all = self.all()?;
        let given = type_list(&all);
        let parts = match (&to, all.len()) {
            (Type::Date, 3) => Some(F::MakeDate),
            (Type::Time, 3) => Some(F::MakeTime),
            (Type::Datetime, 6) => Some(F::MakeDatetime),
            _ => None,
        };
        if let Some(function) = parts {
            let types = vec![Type::Int64; all.len()];
            let all = self.typed(&types)?;
            return Ok(self.finish(to, Function::Temporal(function), all, true));
        }
        if to == Type::Datetime && all.len() == 2 && all[0].ty == Type::Date {
            let all = self.typed(&[Type::Date, Type::Time])?;
            return Ok(self.finish(to, Function::Temporal(F::DatetimeOf), all, false));
        }
        let from = all[0].ty.clone();
        let zoned = match (&to, &from) {
            (Type::Timestamp, Type::Text | Type::Date | Type::Datetime)
            | (Type::Date | Type::Datetime | Type::Time, Type::Timestamp) => true,
            (Type::Timestamp, Type::Timestamp)
            | (Type::Date, Type::Date | Type::Datetime | Type::Text)
            | (Type::Datetime, Type::Datetime | Type::Date | Type::Text)
            | (Type::Time, Type::Time | Type::Datetime | Type::Text) => false,
            _ => return Err(self.mismatch(&given)),
        };
        let mut all = all.into_iter();
        let value = all.next().expect("there is one argument at least");
        match (all.next(), all.next()) {
            (None, None) => super::cast::bind(self.at, value, &to, self.safe),
            (Some(zone), None) if zoned => {
                let zone = text_argument(zone, self.at)?;
                let function = Function::Temporal(F::Zoned);
                Ok(self.finish(to, function, vec![value, zone], true))
            }
            _ => Err(self.mismatch(&given)),
        }
    }

    /// The type that a function's name begins with.
    fn subject(&self) -> Type {
        match self.name.split('_').next() {
            Some("DATE") => Type::Date,
            Some("DATETIME") => Type::Datetime,
            Some("TIME") => Type::Time,
            _ => Type::Timestamp,
        }
    }

    /// An argument that is a date part: a bare name, or `WEEK(MONDAY)`.
    fn part(&self, node: &Node) -> Bound<Part> {
        let part = match &node.ast {
            Ast::Path(segments) => match &segments[..] {
                [name] => Part::named(name, None),
                _ => None,
            },
            Ast::Call {
                name, arguments, ..
            } => match &arguments[..] {
                [
                    Node {
                        ast: Ast::Path(day),
                        ..
                    },
                ] => day.first().and_then(|day| Part::named(name, Some(day))),
                _ => None,
            },
            _ => None,
        };
        part.ok_or_else(|| syntax(node.at, "A valid date part name is required"))
    }

    fn unsupported_part(&self, at: usize, part: Part) -> super::error::SyntaxError {
        syntax(
            at,
            format!("{} does not support the {part} date part", self.name),
        )
    }

    /// The first argument: the function's own type, or for the functions over
    /// dates any of the three kinds of date.
    fn civil_argument(&self, node: &Node) -> Bound<Expr> {
        let value = self.binder.bind(node)?;
        let subject = self.subject();
        let any = matches!(
            self.name,
            "DATE_TRUNC" | "DATETIME_TRUNC" | "TIMESTAMP_TRUNC"
        );
        if any && matches!(value.ty, Type::Date | Type::Datetime | Type::Timestamp) {
            return Ok(value);
        }
        let ty = value.ty.clone();
        coerce(value, &subject).unwrap_or_else(|| Err(self.mismatch(&ty.to_string())))
    }

    fn truncation(&self) -> Bound<Expr> {
        self.count(2..=3)?;
        let value = self.civil_argument(&self.nodes[0])?;
        let part = self.part(&self.nodes[1])?;
        if !part.divides(&value.ty) {
            return Err(self.unsupported_part(self.nodes[1].at, part));
        }
        let ty = value.ty.clone();
        let mut all = vec![value];
        if let Some(zone) = self.nodes.get(2) {
            if ty != Type::Timestamp {
                return Err(self.mismatch(&format!("{ty}, DATE_TIME_PART, STRING")));
            }
            all.push(text_argument(self.binder.bind(zone)?, zone.at)?);
        }
        let function = Function::Temporal(TemporalFunction::Truncate(part));
        Ok(self.finish(ty, function, all, true))
    }

    fn shift(&self, make: fn(Part) -> TemporalFunction) -> Bound<Expr> {
        self.count(2..=2)?;
        let value = self.civil_argument(&self.nodes[0])?;
        let Ast::Interval(number, part) = &self.nodes[1].ast else {
            return Err(syntax(
                self.nodes[1].at,
                format!("{} needs INTERVAL n part", self.name),
            ));
        };
        let at = self.nodes[1].at;
        let part = Part::named(part, None)
            .filter(|p| p.is_duration())
            .ok_or_else(|| syntax(at, "A valid date part name is required"))?;
        let supported = match value.ty {
            Type::Date => part.micros().is_none(),
            Type::Time => part.micros().is_some(),
            Type::Timestamp => part.micros().is_some() || part == Part::Day,
            _ => true,
        };
        if !supported {
            return Err(self.unsupported_part(at, part));
        }
        let number = self.binder.bind(number)?;
        let ty = number.ty.clone();
        let number = coerce(number, &Type::Int64)
            .unwrap_or_else(|| Err(self.mismatch(&format!("INTERVAL {ty}"))))?;
        let function = Function::Temporal(make(part));
        Ok(self.finish(value.ty.clone(), function, vec![value, number], true))
    }

    fn difference(&self) -> Bound<Expr> {
        self.count(3..=3)?;
        let (a, b) = (
            self.binder.bind(&self.nodes[0])?,
            self.binder.bind(&self.nodes[1])?,
        );
        let part = self.part(&self.nodes[2])?;
        let given = format!("{}, {}", a.ty, b.ty);
        let subject = self.subject();
        let both = match (coerce(a, &subject), coerce(b, &subject)) {
            (Some(a), Some(b)) => vec![a?, b?],
            _ => return Err(self.mismatch(&given)),
        };
        let day_at_most =
            subject != Type::Timestamp || part.micros().is_some() || part == Part::Day;
        if !part.divides(&subject) || !day_at_most {
            return Err(self.unsupported_part(self.nodes[2].at, part));
        }
        let function = Function::Temporal(TemporalFunction::Difference(part));
        Ok(self.finish(Type::Int64, function, both, true))
    }

    fn last_day(&self) -> Bound<Expr> {
        self.count(1..=2)?;
        let value = self.binder.bind(&self.nodes[0])?;
        let ty = value.ty.clone();
        let value = if ty == Type::Datetime {
            value
        } else {
            coerce(value, &Type::Date).unwrap_or_else(|| Err(self.mismatch(&ty.to_string())))?
        };
        let part = match self.nodes.get(1) {
            None => Part::Month,
            Some(node) => self.part(node)?,
        };
        if !part.divides(&Type::Date) || part == Part::Day {
            return Err(self.unsupported_part(self.at, part));
        }
        let function = Function::Temporal(TemporalFunction::LastDay(part));
        Ok(self.finish(Type::Date, function, vec![value], true))
    }
}
