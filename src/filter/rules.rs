//! The rules: which predicate may be said to the service, how, and why.
//!
//! This is the one table of them. The translator asks the rules in order and
//! takes the first answer; `docs/filters.md` prints the table; a test runs every
//! example in it. What no rule claims is not pushed.
//!
//! A rule argues over one leaf. AND pushes what it can of its operands, OR needs
//! all of them, and NOT moves inwards first and is taken of a leaf only where
//! the rule for the leaf is [`Equivalent`](super::condition::Equivalent).

mod compare;
mod float;
mod text;

use super::condition::{Condition, Path};
use super::predicate::{Leaf, Operand, Step};
use crate::types::{Field, FieldType, Mode, TableSchema};

/// How much a rule claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// TRUE, FALSE and NULL for the same rows.
    Equivalent,
    /// TRUE for at least the same rows.
    Necessary,
}

/// One rule.
#[cfg_attr(
    not(test),
    expect(
        dead_code,
        reason = "what a rule says about itself is run and printed by tests"
    )
)]
pub(crate) struct Rule {
    /// What it is about, for people.
    pub(crate) expression: &'static str,
    /// A predicate over the sample table, and the restriction it becomes.
    pub(crate) examples: &'static [(&'static str, &'static str)],
    pub(crate) claim: Claim,
    /// Why the claim holds.
    pub(crate) why: &'static str,
    /// The condition, or None where the rule does not apply.
    pub(crate) apply: fn(&TableSchema, &Leaf) -> Option<Condition>,
}

/// All rules, in the order in which they are asked.
pub(crate) static RULES: &[Rule] = &[
    Rule {
        expression: "a BOOL column",
        examples: &[("flag", "(`flag`)"), ("NOT flag", "(NOT (`flag`))")],
        claim: Claim::Equivalent,
        why: "BOOL has the same three values on both sides.",
        apply: compare::bool_value,
    },
    Rule {
        expression: "a BOOL column `=` or `<>` a literal",
        examples: &[("flag = FALSE", "(NOT (`flag`))")],
        claim: Claim::Equivalent,
        why: "`flag = TRUE` is `flag` and `flag = FALSE` is `NOT flag`, NULL included.",
        apply: compare::bool_compare,
    },
    Rule {
        expression: "`IS NULL`, `IS NOT NULL` of a scalar column",
        examples: &[
            ("n IS NULL", "(`n` IS NULL)"),
            ("s.a IS NOT NULL", "(`s`.`a` IS NOT NULL)"),
        ],
        claim: Claim::Equivalent,
        why: "NULL is read as NULL, and no CAST makes one. STRUCT, ARRAY, RANGE, JSON, GEOGRAPHY \
              and INTERVAL columns are left out: the service refuses some of these tests as too \
              complex.",
        apply: compare::is_null,
    },
    Rule {
        expression: "comparison of an INT64, NUMERIC, BIGNUMERIC, DATE, TIME, DATETIME or \
                     TIMESTAMP column, also under widening casts, `CAST(… AS DATE)`, \
                     `date_trunc` and `date_part('year', …)`",
        examples: &[
            ("n > 5", "(`n` > 5)"),
            ("5 >= n", "(`n` <= 5)"),
            ("NOT (n = 5)", "(`n` != 5)"),
            ("n > CAST(5.5 AS DECIMAL(10, 1))", "(`n` >= 6)"),
            ("n BETWEEN 1 AND 9", "(`n` >= 1) AND (`n` <= 9)"),
            ("amount = 12", "(`amount` = NUMERIC '12')"),
            ("amount > 1.5", "(`amount` > NUMERIC '1.5')"),
            ("d >= '2019-01-01'", "(`d` >= DATE '2019-01-01')"),
            (
                "ts < TIMESTAMP '2024-06-01T00:00:00.0000005Z'",
                "(`ts` < TIMESTAMP '2024-06-01 00:00:00.000000+00:00')",
            ),
            (
                "CAST(ts AS DATE) = DATE '2024-06-01'",
                "(`ts` >= TIMESTAMP '2024-06-01 00:00:00.000000+00:00') AND \
                 (`ts` < TIMESTAMP '2024-06-02 00:00:00.000000+00:00')",
            ),
            (
                "date_trunc('month', dt) = TIMESTAMP '2024-06-01'",
                "(`dt` >= DATETIME '2024-06-01 00:00:00.000000') AND \
                 (`dt` < DATETIME '2024-07-01 00:00:00.000000')",
            ),
            ("extract(year FROM d) >= 2024", "(`d` >= DATE '2024-01-01')"),
        ],
        claim: Claim::Equivalent,
        why: "The values lie on a grid of whole units and the functions are non-decreasing, so \
              each comparison is one or two thresholds on the grid. A literal takes the column's \
              type; one outside the type's domain is not pushed.",
        apply: compare::ordered,
    },
    Rule {
        expression: "`IN`, `NOT IN` of such a column",
        examples: &[
            ("n IN (1, 2, 3, 4)", "(`n` IN (1, 2, 3, 4))"),
            ("n NOT IN (1, 2, 3, 4)", "(`n` NOT IN (1, 2, 3, 4))"),
            (
                "d IN ('2024-01-01', '2024-01-02', '2024-01-03', '2024-01-04')",
                "(`d` IN (DATE '2024-01-01', DATE '2024-01-02', DATE '2024-01-03', DATE '2024-01-04'))",
            ),
        ],
        claim: Claim::Equivalent,
        why: "Each element is a comparison with `=`. An element between grid points equals \
              nothing and is left out. A NULL in the list makes the condition only necessary, \
              so that NOT IN with a NULL is never pushed.",
        apply: compare::ordered_in,
    },
    Rule {
        expression: "an INT64 column compared as FLOAT64",
        examples: &[("n > 2.5", "(`n` >= 3)")],
        claim: Claim::Equivalent,
        why: "Below 2⁵³ every integer is a double, and larger ones stay on their side of the \
              literal. Literals from 2⁵³ on are not pushed.",
        apply: float::integer_as_float,
    },
    Rule {
        expression: "a NUMERIC or BIGNUMERIC column compared as FLOAT64",
        examples: &[(
            "CAST(amount AS DOUBLE) > 1.5",
            "(`amount` >= NUMERIC '1.499999999')",
        )],
        claim: Claim::Necessary,
        why: "The engine rounds each value to a double before it compares. The bound is moved \
              outwards by more than that rounding.",
        apply: float::decimal_as_float,
    },
    Rule {
        expression: "a FLOAT64 column `=` or `<>` a finite literal other than zero",
        examples: &[("f = 1.5", "(`f` = 1.5)"), ("f <> 1.5", "(`f` != 1.5)")],
        claim: Claim::Equivalent,
        why: "Doubles that are neither NaN nor zero are equal where their bits are; NaN differs \
              from them on both sides.",
        apply: float::equal,
    },
    Rule {
        expression: "other comparisons of a FLOAT64 column",
        examples: &[
            ("f > 1.5", "((`f` > 1.5) OR (IS_NAN(`f`)))"),
            ("f < 0.0", "((`f` <= 0.0) OR (IS_NAN(`f`)))"),
            ("f = 0.0", "(`f` = 0.0)"),
        ],
        claim: Claim::Necessary,
        why: "The engine orders NaN beyond the infinities, GoogleSQL compares it with nothing: \
              NaN is let through. Zero has two signs that only the engine may tell apart: bounds \
              at zero are closed.",
        apply: float::compare,
    },
    Rule {
        expression: "`IN`, `NOT IN` of a FLOAT64 column, finite literals other than zero",
        examples: &[("f IN (1.5, 2.5, 3.5, 4.5)", "(`f` IN (1.5, 2.5, 3.5, 4.5))")],
        claim: Claim::Equivalent,
        why: "As `=`.",
        apply: float::in_list,
    },
    Rule {
        expression: "comparison of a STRING or BYTES column, `IN`, `NOT IN`",
        examples: &[
            ("name = 'Looney''s Lane'", r"(`name` = 'Looney\'s Lane')"),
            ("name >= 'a'", "(`name` >= 'a')"),
            (
                "name NOT IN ('a', 'b', 'c', 'd')",
                "(`name` NOT IN ('a', 'b', 'c', 'd'))",
            ),
            ("raw = X'00ff'", r"(`raw` = b'\x00\xff')"),
        ],
        claim: Claim::Equivalent,
        why: "Both sides compare UTF-8 and bytes bytewise. Only for STRING columns without \
              collation.",
        apply: text::plain,
    },
    Rule {
        expression: "`=`, `IN` of a STRING column with collation",
        examples: &[("folded = 'Abc'", "(`folded` = 'Abc')")],
        claim: Claim::Necessary,
        why: "A collation makes more values equal, never fewer. It reorders values, so `<`, `<>` \
              and NOT IN are not pushed.",
        apply: text::collated,
    },
    Rule {
        expression: "`LIKE`, `NOT LIKE`, `starts_with`, `ends_with`, `contains` of a STRING column",
        examples: &[
            ("name LIKE 'a_b%c'", "(`name` LIKE 'a_b%c')"),
            (r"name LIKE '100\%%x'", r"(`name` LIKE '100\\%%x')"),
            ("starts_with(name, '50%_')", r"(`name` LIKE '50\\%\\_%')"),
            ("name NOT LIKE '%x%y'", "(`name` NOT LIKE '%x%y')"),
        ],
        claim: Claim::Equivalent,
        why: "Both sides match whole code points. The pattern is taken apart and written again \
              with GoogleSQL's escapes. Only without collation; ILIKE is not pushed.",
        apply: text::like,
    },
];

/// A scalar column that a leaf is about.
pub(super) struct Subject<'a> {
    pub(super) path: Path,
    pub(super) field: &'a Field,
    pub(super) steps: &'a [Step],
    /// Whether a step can turn a value into NULL.
    pub(super) may_lose_values: bool,
}

impl<'a> Subject<'a> {
    /// The column of `operand`, if the path leads to one that is not inside or
    /// itself an ARRAY.
    pub(super) fn of(schema: &'a TableSchema, operand: &'a Operand) -> Option<Self> {
        let mut names = Vec::new();
        for depth in 1..=operand.path.0.len() {
            let field = schema.field_at(&operand.path.0[..depth])?;
            if field.mode == Mode::Repeated {
                return None;
            }
            names.push(field.name.clone());
        }
        Some(Self {
            path: Path(names),
            field: schema.field_at(&operand.path.0)?,
            steps: &operand.steps,
            may_lose_values: operand
                .steps
                .iter()
                .any(|step| matches!(step, Step::TryCast(_))),
        })
    }

    pub(super) fn field_type(&self) -> &'a FieldType {
        &self.field.field_type
    }

    /// A condition over the subject: TRY_CAST answers NULL where the column has
    /// a value, so under one nothing is equivalent.
    pub(super) fn claim(&self, condition: Condition) -> Condition {
        match self.may_lose_values {
            true => condition.weaken().into(),
            false => condition,
        }
    }
}
