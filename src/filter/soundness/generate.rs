//! Random predicates in SQL over a table of values that go wrong: comparisons,
//! tests, connectives, CASE, casts, arithmetic, functions and nested fields.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::values::{DATES, INTS, MICROS, TEXTS, TIMES};

/// What an expression is, as far as comparing goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int,
    Float,
    Text,
    Bytes,
    Date,
    DateTime,
    Instant,
    Time,
    Decimal,
}

const KINDS: [Kind; 9] = [
    Kind::Int,
    Kind::Float,
    Kind::Text,
    Kind::Bytes,
    Kind::Date,
    Kind::DateTime,
    Kind::Instant,
    Kind::Time,
    Kind::Decimal,
];

const UNITS: [&str; 10] = [
    "microsecond",
    "millisecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
];

/// A predicate with so many levels of connectives at most.
pub(crate) fn predicate(random: &mut StdRng, depth: usize) -> String {
    Generator { random }.boolean(depth)
}

struct Generator<'a> {
    random: &'a mut StdRng,
}

impl Generator<'_> {
    fn pick<'b>(&mut self, pool: &[&'b str]) -> &'b str {
        pool.choose(self.random).expect("no pool is empty")
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.random.random_ratio(1, n)
    }

    fn boolean(&mut self, depth: usize) -> String {
        if depth == 0 || self.one_in(4) {
            return self.atom(depth);
        }
        let left = self.boolean(depth - 1);
        match self.random.random_range(0..20) {
            0 | 1 => format!("NOT ({left})"),
            2 => format!("({left}) IS TRUE"),
            3 => format!("({left}) IS NOT TRUE"),
            4 => format!("({left}) IS FALSE"),
            5 => format!("({left}) IS NOT FALSE"),
            6 => format!("({left}) IS UNKNOWN"),
            7 => format!("({left}) IS NOT UNKNOWN"),
            8 => {
                let (when, other) = (self.boolean(depth - 1), self.boolean(depth - 1));
                format!("CASE WHEN {when} THEN {left} ELSE {other} END")
            }
            9 => {
                let value = self.value(Kind::Int, 0);
                let other = self.boolean(depth - 1);
                format!("CASE {value} WHEN 1 THEN {left} WHEN 2 THEN {other} END")
            }
            10 => {
                let other = self.boolean(depth - 1);
                let operator = self.pick(&["=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]);
                format!("({left}) {operator} ({other})")
            }
            11 => {
                let default = self.pick(&["TRUE", "FALSE"]);
                format!("coalesce({left}, {default})")
            }
            12..=15 => format!("({left}) OR ({})", self.boolean(depth - 1)),
            _ => format!("({left}) AND ({})", self.boolean(depth - 1)),
        }
    }

    fn atom(&mut self, depth: usize) -> String {
        if self.one_in(7) {
            let flag = self.pick(&["flag", "s['ok']"]);
            let test = self.pick(&[
                "",
                "= TRUE",
                "= FALSE",
                "<> TRUE",
                "IS UNKNOWN",
                "IS TRUE",
                "IS NOT FALSE",
                "IS DISTINCT FROM TRUE",
                "IN (TRUE)",
                "> FALSE",
                "IS NULL",
            ]);
            return format!("{flag} {test}");
        }
        if self.one_in(25) {
            return self
                .pick(&[
                    "TRUE",
                    "FALSE",
                    "CAST(NULL AS BOOLEAN)",
                    "s IS NULL",
                    "s['deep'] IS NOT NULL",
                    "tags IS NOT NULL",
                    "array_has(tags, 'a')",
                    "doc IS NULL",
                    "doc = 'a'",
                    "fine IS NOT NULL",
                    "fine > now()",
                    "cardinality(tags) > 1",
                ])
                .to_string();
        }
        if self.one_in(6) {
            return self.text_test();
        }
        let kind = *KINDS.choose(self.random).expect("there are kinds");
        let value = self.value(kind, 1 + depth.min(1));
        if self.one_in(12) {
            let other = self.value(kind, 1);
            let operator = self.pick(&["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"]);
            return format!("{value} {operator} {other}");
        }
        let (a, b) = (self.literal(kind), self.literal(kind));
        let operator = self.pick(&["=", "<>", "<", "<=", ">", ">="]);
        match self.random.random_range(0..16) {
            0 => format!("{value} IN ({})", self.list(kind)),
            1 => format!("{value} NOT IN ({})", self.list(kind)),
            2 => format!("{value} IN ({}, NULL)", self.list(kind)),
            3 => format!("{value} NOT IN ({}, NULL)", self.list(kind)),
            4 => format!("{value} BETWEEN {a} AND {b}"),
            5 => format!("{value} NOT BETWEEN {a} AND {b}"),
            6 => format!("{value} IS NULL"),
            7 => format!("{value} IS NOT NULL"),
            8 => format!("{value} IS DISTINCT FROM {a}"),
            9 => format!("{value} IS NOT DISTINCT FROM {a}"),
            10 => format!("{a} {operator} {value}"),
            11 => format!("{value} IS DISTINCT FROM NULL"),
            _ => format!("{value} {operator} {a}"),
        }
    }

    fn text_test(&mut self) -> String {
        let value = match self.one_in(4) {
            true => self.value(Kind::Text, 1),
            false => self.pick(&["name", "s['name']", "folded"]).to_string(),
        };
        let pattern = quoted(self.pick(&[
            "a%", "%b", "%a%", "a_b", "a\\_b", "50\\%%", "%\\\\%", "_", "__", "%'%", "é_🦀",
            "%\n%", "a%b", "\\", "", "%", "%%", "_%_",
        ]));
        let text = quoted(TEXTS.choose(self.random).expect("there are texts"));
        match self.random.random_range(0..12) {
            0 => format!("{value} NOT LIKE {pattern}"),
            1 => format!("starts_with({value}, {text})"),
            2 => format!("ends_with({value}, {text})"),
            3 => format!("contains({value}, {text})"),
            4 => format!("NOT starts_with({value}, {text})"),
            5 => format!("{value} ILIKE {pattern}"),
            6 => format!("{value} ~ '^a'"),
            7 => format!("strpos({value}, {text}) > 0"),
            _ => format!("{value} LIKE {pattern}"),
        }
    }

    fn list(&mut self, kind: Kind) -> String {
        let length = self.random.random_range(1..7);
        let list: Vec<_> = (0..length).map(|_| self.literal(kind)).collect();
        list.join(", ")
    }

    fn column(&mut self, kind: Kind) -> &'static str {
        self.pick(match kind {
            Kind::Int => &["n", "n", "req", "s['a']"],
            Kind::Float => &["f", "f", "s['deep']['x']"],
            Kind::Text => &["name", "name", "folded", "s['name']"],
            Kind::Bytes => &["raw"],
            Kind::Date => &["d"],
            Kind::DateTime => &["dt", "dt", "s['at']"],
            Kind::Instant => &["ts"],
            Kind::Time => &["t"],
            Kind::Decimal => &["num", "cents", "big", "s['deep']['num']"],
        })
    }

    /// A column, or something made of columns.
    fn value(&mut self, kind: Kind, depth: usize) -> String {
        if depth == 0 || !self.one_in(3) {
            return self.column(kind).to_string();
        }
        if self.one_in(8) {
            let (when, value) = (self.boolean(0), self.value(kind, depth - 1));
            let literal = self.literal(kind);
            return match self.random.random_range(0..4) {
                0 => format!("coalesce({value}, {literal})"),
                1 => format!("nullif({value}, {literal})"),
                2 => format!("greatest({value}, {literal})"),
                _ => format!("CASE WHEN {when} THEN {value} ELSE {literal} END"),
            };
        }
        let inner = |generator: &mut Self, kind| generator.value(kind, depth - 1);
        match kind {
            Kind::Int => {
                let n = inner(self, Kind::Int);
                let text = inner(self, Kind::Text);
                let day = self.calendar(depth);
                match self.random.random_range(0..14) {
                    0 => format!("{n} + 1"),
                    1 => format!("{n} * 2"),
                    2 => format!("{n} % 3"),
                    3 => format!("abs({n})"),
                    4 => format!("TRY_CAST({n} AS INT)"),
                    5 => format!("CAST({n} AS INT)"),
                    6 => format!("TRY_CAST({text} AS BIGINT)"),
                    7 => format!("character_length({text})"),
                    8 | 9 => format!("date_part('year', {day})"),
                    10 => format!("extract(month FROM {day})"),
                    11 => "CAST(flag AS INT)".to_string(),
                    12 => format!("CAST({} AS BIGINT)", inner(self, Kind::Decimal)),
                    _ => format!("-({n})"),
                }
            }
            Kind::Float => {
                let f = inner(self, Kind::Float);
                match self.random.random_range(0..9) {
                    0 | 1 => format!("CAST({} AS DOUBLE)", inner(self, Kind::Int)),
                    2 | 3 => format!("CAST({} AS DOUBLE)", inner(self, Kind::Decimal)),
                    4 => format!("CAST({f} AS REAL)"),
                    5 => format!("abs({f})"),
                    6 => format!("floor({f})"),
                    7 => format!("{f} * 0.5"),
                    _ => format!("sqrt(abs({f}))"),
                }
            }
            Kind::Text => {
                let text = inner(self, Kind::Text);
                match self.random.random_range(0..10) {
                    0 => format!("upper({text})"),
                    1 => format!("lower({text})"),
                    2 => format!("{text} || 'b'"),
                    3 => format!("substr({text}, 1, 2)"),
                    4 => format!("trim({text})"),
                    5 => format!("CAST({} AS VARCHAR)", inner(self, Kind::Int)),
                    6 => format!("arrow_cast({text}, 'LargeUtf8')"),
                    7 => format!("arrow_cast({text}, 'Utf8View')"),
                    8 => format!("CAST({} AS VARCHAR)", inner(self, Kind::Date)),
                    _ => format!("replace({text}, 'a', 'b')"),
                }
            }
            Kind::Bytes => {
                let bytes = inner(self, Kind::Bytes);
                let to = self.pick(&["LargeBinary", "BinaryView", "Binary"]);
                format!("arrow_cast({bytes}, '{to}')")
            }
            Kind::Date => {
                let date = inner(self, Kind::Date);
                match self.random.random_range(0..7) {
                    0 | 1 => format!("CAST({} AS DATE)", inner(self, Kind::Instant)),
                    2 | 3 => format!("CAST({} AS DATE)", inner(self, Kind::DateTime)),
                    4 => format!("{date} + INTERVAL '1 day'"),
                    5 => format!("TRY_CAST({} AS DATE)", inner(self, Kind::Text)),
                    _ => format!("arrow_cast({date}, 'Date64')"),
                }
            }
            Kind::DateTime => {
                let time = inner(self, Kind::DateTime);
                let unit = self.pick(&UNITS);
                match self.random.random_range(0..9) {
                    0..=2 => format!("date_trunc('{unit}', {time})"),
                    3 => format!("CAST({} AS TIMESTAMP)", inner(self, Kind::Date)),
                    4 => format!("date_trunc('{unit}', {})", inner(self, Kind::Date)),
                    5 => format!("date_bin(INTERVAL '15 minutes', {time})"),
                    6 => format!("{time} + INTERVAL '1 hour'"),
                    _ => {
                        let unit = self.pick(&["Second", "Millisecond", "Nanosecond"]);
                        format!("arrow_cast({time}, 'Timestamp({unit}, None)')")
                    }
                }
            }
            Kind::Instant => {
                let time = inner(self, Kind::Instant);
                let unit = self.pick(&UNITS);
                match self.random.random_range(0..6) {
                    0..=2 => format!("date_trunc('{unit}', {time})"),
                    3 => format!("arrow_cast({time}, 'Timestamp(Microsecond, Some(\"+02:00\"))')"),
                    4 => format!("{time} - INTERVAL '1 day'"),
                    _ => {
                        let unit = self.pick(&["Second", "Millisecond", "Nanosecond"]);
                        format!("arrow_cast({time}, 'Timestamp({unit}, Some(\"UTC\"))')")
                    }
                }
            }
            Kind::Time => match self.random.random_range(0..3) {
                0 => format!("CAST({} AS TIME)", inner(self, Kind::DateTime)),
                _ => {
                    let time = inner(self, Kind::Time);
                    let to = self.pick(&[
                        "Time64(Nanosecond)",
                        "Time32(Second)",
                        "Time32(Millisecond)",
                    ]);
                    format!("arrow_cast({time}, '{to}')")
                }
            },
            Kind::Decimal => {
                let decimal = inner(self, Kind::Decimal);
                match self.random.random_range(0..7) {
                    0 | 1 => format!("CAST({} AS DECIMAL(30, 3))", inner(self, Kind::Int)),
                    2 => format!("CAST({decimal} AS DECIMAL(38, 2))"),
                    3 => format!("arrow_cast({decimal}, 'Decimal256(76, 40)')"),
                    4 => format!("{decimal} + 1"),
                    5 => format!("abs({decimal})"),
                    _ => format!("TRY_CAST({decimal} AS DECIMAL(12, 1))"),
                }
            }
        }
    }

    /// A date or a time with one.
    fn calendar(&mut self, depth: usize) -> String {
        let kind = *[Kind::Date, Kind::DateTime, Kind::Instant]
            .choose(self.random)
            .expect("there are three");
        self.value(kind, depth - 1)
    }

    fn literal(&mut self, kind: Kind) -> String {
        match kind {
            Kind::Int => match self.one_in(4) {
                true => self
                    .pick(&["2.5", "-0.5", "1e3", "3.0", "2024", "1 + 1", "'5'"])
                    .into(),
                false => self.choose(&INTS[..10]).to_string(),
            },
            Kind::Float => self
                .pick(&[
                    "0.0",
                    "-0.0",
                    "1.5",
                    "-1.5",
                    "1e300",
                    "CAST('NaN' AS DOUBLE)",
                    "CAST('inf' AS DOUBLE)",
                    "CAST('-inf' AS DOUBLE)",
                    "2",
                    "5e-324",
                    "0.1",
                    "1e20",
                    "9007199254740992.0",
                    "12.345678901",
                ])
                .into(),
            Kind::Text => quoted(TEXTS.choose(self.random).expect("there are texts")),
            Kind::Bytes => self
                .pick(&["X''", "X'00'", "X'275c'", "X'ff00'", "X'61'"])
                .into(),
            Kind::Date => match self.one_in(3) {
                true => self
                    .pick(&["'2024-03-01'", "DATE '1970-01-01'", "'0001-01-01'"])
                    .into(),
                false => format!("arrow_cast({}, 'Date32')", self.choose(&DATES)),
            },
            Kind::DateTime => self.instant("None"),
            Kind::Instant => self.instant("Some(\"UTC\")"),
            Kind::Time => match self.one_in(4) {
                true => "TIME '01:02:03.5'".to_string(),
                false => format!("arrow_cast({}, 'Time64(Microsecond)')", self.choose(&TIMES)),
            },
            Kind::Decimal => self
                .pick(&[
                    "0",
                    "1.5",
                    "-1.5",
                    "12",
                    "12.345678901",
                    "CAST('0.0000000005' AS DECIMAL(20, 10))",
                    "CAST('1.5' AS DECIMAL(20, 10))",
                    "0.1",
                    "-1",
                    "arrow_cast('99999999999999999999999999999.999999999', 'Decimal128(38, 9)')",
                    "arrow_cast('99999999999999999999999999999999999999', 'Decimal256(76, 38)')",
                ])
                .into(),
        }
    }

    fn choose<T: Copy>(&mut self, pool: &[T]) -> T {
        *pool.choose(self.random).expect("no pool is empty")
    }

    /// A literal of a time zone, in some unit.
    fn instant(&mut self, zone: &str) -> String {
        let micros = self.choose(&MICROS);
        match self.random.random_range(0..6) {
            0 => format!(
                "arrow_cast({}, 'Timestamp(Nanosecond, {zone})')",
                micros * 1_000 + 1
            ),
            1 => format!(
                "arrow_cast({}, 'Timestamp(Millisecond, {zone})')",
                micros / 1_000
            ),
            2 => format!(
                "arrow_cast({}, 'Timestamp(Second, {zone})')",
                micros / 1_000_000
            ),
            3 => "TIMESTAMP '2024-03-01T00:00:00'".to_string(),
            _ => format!("arrow_cast({micros}, 'Timestamp(Microsecond, {zone})')"),
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
