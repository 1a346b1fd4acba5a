//! Restriction texts, from SQL through DataFusion's own planner and optimizer.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field as ArrowField, Schema, TimeUnit};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, TableProviderFilterPushDown, TableType, cast};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionContext, col, lit};

use super::condition::Condition;
use super::restriction::{Admission, MAX_RESTRICTION_BYTES, Restriction};
use super::rules::{Claim, RULES};
use super::shape::predicate;
use super::translate::{may_fail, translate};
use super::user::UserRestriction;
use crate::types::{Field, FieldType, Mode, TableSchema, TimestampDigits};

/// A column of every kind.
pub(super) fn sample() -> TableSchema {
    let field = |name: &str, field_type| Field::new(name, field_type, Mode::Nullable);
    let mut folded = field("folded", FieldType::String);
    folded.collation = Some("und:ci".to_string());
    TableSchema {
        fields: vec![
            field("flag", FieldType::Bool),
            field("n", FieldType::Int64),
            field("f", FieldType::Float64),
            field("name", FieldType::String),
            folded,
            field("raw", FieldType::Bytes),
            field("d", FieldType::Date),
            field("t", FieldType::Time),
            field("dt", FieldType::DateTime),
            field("ts", FieldType::Timestamp(TimestampDigits::Six)),
            field("amount", FieldType::Numeric(None)),
            field("big", FieldType::BigNumeric(None)),
            field("doc", FieldType::Json),
            Field::new("tags", FieldType::String, Mode::Repeated),
            field(
                "s",
                FieldType::Struct(vec![
                    field("a", FieldType::Int64),
                    field("order", FieldType::String),
                ]),
            ),
        ],
    }
}

/// The sample as the scan presents it to the engine.
pub(super) fn arrow(schema: &TableSchema) -> Schema {
    fn data_type(field: &Field) -> DataType {
        let scalar = match &field.field_type {
            FieldType::Int64 => DataType::Int64,
            FieldType::Float64 => DataType::Float64,
            FieldType::Bool => DataType::Boolean,
            FieldType::String | FieldType::Json => DataType::Utf8,
            FieldType::Bytes => DataType::Binary,
            FieldType::Date => DataType::Date32,
            FieldType::Time => DataType::Time64(TimeUnit::Microsecond),
            FieldType::DateTime => DataType::Timestamp(TimeUnit::Microsecond, None),
            FieldType::Timestamp(_) => {
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
            }
            FieldType::Numeric(_) => DataType::Decimal128(38, 9),
            FieldType::BigNumeric(_) => DataType::Decimal256(76, 38),
            FieldType::Struct(fields) => DataType::Struct(fields.iter().map(arrow_field).collect()),
            other => panic!("the sample has no {other}"),
        };
        match field.mode {
            Mode::Repeated => DataType::new_list(scalar, true),
            Mode::Nullable | Mode::Required => scalar,
        }
    }
    fn arrow_field(field: &Field) -> ArrowField {
        ArrowField::new(&field.name, data_type(field), true)
    }
    Schema::new(schema.fields.iter().map(arrow_field).collect::<Vec<_>>())
}

/// Says that it takes every filter, so that the plan shows what was offered.
#[derive(Debug)]
struct Offered(Arc<Schema>);

#[async_trait::async_trait]
impl TableProvider for Offered {
    fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.0)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        unreachable!("the tests stop at the logical plan")
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }
}

/// The filters that DataFusion offers for a WHERE clause over the sample.
pub(super) async fn offered(predicate: &str) -> Vec<Expr> {
    offered_by(Arc::new(arrow(&sample())), predicate).await
}

/// The filters that DataFusion offers for a WHERE clause over a table.
pub(super) async fn offered_by(schema: Arc<Schema>, predicate: &str) -> Vec<Expr> {
    let context = SessionContext::new();
    let table = Arc::new(Offered(schema));
    context.register_table("sample", table).unwrap();
    let plan = context
        .sql(&format!("SELECT * FROM sample WHERE {predicate}"))
        .await
        .unwrap()
        .into_optimized_plan()
        .unwrap();
    let mut filters = Vec::new();
    plan.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            filters.extend(scan.filters.clone());
        }
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    })
    .unwrap();
    filters
}

async fn conditions(predicate: &str) -> Vec<Condition> {
    offered(predicate)
        .await
        .iter()
        .filter_map(|filter| translate(&sample(), filter))
        .collect()
}

async fn text(predicate: &str) -> String {
    let mut restriction = Restriction::of_user(None);
    for condition in conditions(predicate).await {
        assert_eq!(restriction.admit(&condition), Admission::Whole);
    }
    restriction.text()
}

#[tokio::test]
async fn every_rule_does_what_its_examples_say() {
    let mut wrong = Vec::new();
    for rule in RULES {
        for (predicate, expected) in rule.examples {
            let found = text(predicate).await;
            let claims = conditions(predicate).await;
            let claim = claims.iter().all(|c| matches!(c, Condition::Equivalent(_)));
            if found != *expected || claim != (rule.claim == Claim::Equivalent) {
                wrong.push(format!(
                    "{predicate}\n  expected {expected}\n  found    {found} ({claims:?})\n  offered  {:?}",
                    offered(predicate).await
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a01_quotes_in_literals() {
    assert_eq!(
        text("name = 'Looney''s Lane'").await,
        r"(`name` = 'Looney\'s Lane')"
    );
}

#[tokio::test]
async fn a02_backslashes_and_line_ends_in_literals() {
    assert_eq!(
        text("name IN ('a\\b', 'line1\nline2')").await,
        r"((`name` = 'a\\b') OR (`name` = 'line1\nline2'))"
    );
}

#[tokio::test]
async fn a03_injected_text_stays_text() {
    assert_eq!(
        text("name = 'x'' OR TRUE --'").await,
        r"(`name` = 'x\' OR TRUE --')"
    );
    assert_eq!(
        text("name LIKE 'foo''bar%'").await,
        r"(`name` LIKE 'foo\'bar%')"
    );
}

#[tokio::test]
async fn a05_a_text_literal_takes_the_columns_type() {
    assert_eq!(
        text("d >= '2019-01-01'").await,
        "(`d` >= DATE '2019-01-01')"
    );
}

#[tokio::test]
async fn a06_dates_and_timestamps_are_typed() {
    assert_eq!(
        text("d > DATE '2000-06-30' AND ts <= TIMESTAMP '2000-09-27T12:00:00Z'").await,
        "(`d` > DATE '2000-06-30') AND (`ts` <= TIMESTAMP '2000-09-27 12:00:00.000000+00:00')"
    );
}

#[tokio::test]
async fn a07_a_datetime_of_year_one() {
    assert_eq!(
        text("dt = arrow_cast('0001-01-01T00:00:00.999', 'Timestamp(Microsecond, None)')").await,
        "(`dt` = DATETIME '0001-01-01 00:00:00.999000')"
    );
}

#[tokio::test]
async fn a09_every_temporal_literal_is_typed() {
    for unit in ["Second", "Millisecond", "Microsecond", "Nanosecond"] {
        assert_eq!(
            text(&format!(
                "dt = arrow_cast('2024-02-29T01:02:03', 'Timestamp({unit}, None)')"
            ))
            .await,
            "(`dt` = DATETIME '2024-02-29 01:02:03.000000')"
        );
        assert_eq!(
            text(&format!(
                "ts = arrow_cast('2024-02-29T01:02:03Z', 'Timestamp({unit}, Some(\"+00:00\"))')"
            ))
            .await,
            "(`ts` = TIMESTAMP '2024-02-29 01:02:03.000000+00:00')"
        );
    }
    assert_eq!(
        text("t = '01:02:03.5'").await,
        "(`t` = TIME '01:02:03.500000')"
    );
    assert_eq!(
        text("d = arrow_cast('2024-02-29', 'Date64')").await,
        "(`d` = DATE '2024-02-29')"
    );
}

#[tokio::test]
async fn a10_an_offset_is_not_dropped() {
    assert_eq!(
        text("ts >= '2016-08-06 22:05:00+02:00'").await,
        "(`ts` >= TIMESTAMP '2016-08-06 20:05:00.000000+00:00')"
    );
}

#[tokio::test]
async fn a11_six_fractional_digits_always() {
    assert_eq!(
        text("ts > '2024-01-01T00:00:00.1Z'").await,
        "(`ts` > TIMESTAMP '2024-01-01 00:00:00.100000+00:00')"
    );
}

#[tokio::test]
async fn a13_a_timestamp_column_never_meets_a_datetime_literal() {
    assert_eq!(
        text("ts >= TIMESTAMP '2024-01-01T00:00:00'").await,
        "(`ts` >= TIMESTAMP '2024-01-01 00:00:00.000000+00:00')"
    );
}

#[tokio::test]
async fn a14_a_datetime_column_against_a_date() {
    assert_eq!(
        text("dt > DATE '2020-05-05'").await,
        "(`dt` > DATETIME '2020-05-05 00:00:00.000000')"
    );
}

#[tokio::test]
async fn a15_the_last_year_does_not_overflow() {
    for comparison in ["<", "<=", "=", ">", ">=", "!="] {
        let predicate = format!(
            "ts {comparison} arrow_cast('9999-12-31T00:00:00Z', 'Timestamp(Microsecond, Some(\"UTC\"))')"
        );
        assert_eq!(
            text(&predicate).await,
            format!("(`ts` {comparison} TIMESTAMP '9999-12-31 00:00:00.000000+00:00')")
        );
    }
}

#[tokio::test]
async fn a17_conjuncts_stand_in_brackets() {
    let mut restriction = Restriction::of_user(UserRestriction::parse("a = 1 OR b = 2").unwrap());
    for condition in conditions("n = 3 OR n IS NULL").await {
        restriction.admit(&condition);
    }
    assert_eq!(
        restriction.text(),
        "(a = 1 OR b = 2) AND ((`n` = 3) OR (`n` IS NULL))"
    );
    assert_eq!(
        restriction.text_without_generated().as_deref(),
        Some("a = 1 OR b = 2")
    );
}

#[tokio::test]
async fn a18_like_reaches_the_restriction() {
    assert_eq!(text("name LIKE 'foo%'").await, "(`name` LIKE 'foo%')");
    assert_eq!(text("name LIKE '%foo'").await, "(`name` LIKE '%foo')");
    assert_eq!(text("name LIKE '%f_o%'").await, "(`name` LIKE '%f_o%')");
}

#[tokio::test]
async fn b01_no_tests_of_nested_columns() {
    for predicate in [
        "s IS NOT NULL",
        "tags IS NULL",
        "doc IS NOT NULL",
        "doc = '1'",
    ] {
        assert_eq!(text(predicate).await, "", "{predicate}");
    }
}

#[tokio::test]
async fn b03_functions_are_folded_or_stay_here() {
    assert_eq!(text("n = abs(-3)").await, "(`n` = 3)");
    assert_eq!(text("abs(n) = 3").await, "");
    assert_eq!(text("upper(name) = 'A' AND n = 1").await, "(`n` = 1)");
}

#[tokio::test]
async fn b04_a_conjunct_that_does_not_fit_stays_here() {
    let list = (0..200_000).map(|n| n.to_string()).collect::<Vec<_>>();
    let long = format!("n IN ({})", list.join(", "));
    let mut restriction = Restriction::of_user(None);
    let mut parts = 0;
    for condition in conditions(&format!("{long} AND name = 'x'")).await {
        if restriction.admit(&condition) == Admission::Part {
            parts += 1;
        }
    }
    assert_eq!(parts, 1);
    assert_eq!(restriction.text(), "(`name` = 'x')");

    let fits = format!("n IN ({})", list[..10_000].join(", "));
    let found = text(&fits).await;
    assert!(found.starts_with("(`n` IN (0, 1, 2, "), "{}", &found[..40]);
}

#[test]
fn b04_the_limit_is_exact() {
    use super::condition::{Comparison, Path, Test};
    use super::literal::Literal;
    let condition = |length: usize| {
        Condition::equivalent(Test::Compare(
            Path(vec!["s".to_string()]),
            Comparison::Equal,
            Literal::string("é".repeat(length / 2)),
        ))
    };
    // ("`s` = '…'") takes 10 bytes beside the text.
    let overhead = "(`s` = '')".len();
    let room = MAX_RESTRICTION_BYTES - overhead;
    let mut fits = Restriction::of_user(None);
    assert_eq!(fits.admit(&condition(room)), Admission::Whole);
    assert_eq!(fits.text().len(), MAX_RESTRICTION_BYTES);
    let mut with_user = Restriction::of_user(UserRestriction::parse("TRUE").unwrap());
    assert_eq!(with_user.admit(&condition(room)), Admission::Part);
    let less = room - "(TRUE) AND ".len() - 1;
    assert_eq!(with_user.admit(&condition(less)), Admission::Whole);
    assert!(with_user.text().len() <= MAX_RESTRICTION_BYTES);
}

#[tokio::test]
async fn b05_both_bounds_of_between() {
    assert_eq!(
        text("d BETWEEN '2019-09-10' AND '2019-09-11'").await,
        "(`d` >= DATE '2019-09-10') AND (`d` <= DATE '2019-09-11')"
    );
}

#[tokio::test]
async fn b09_nested_names_are_quoted_segment_by_segment() {
    assert_eq!(
        text("s['order'] = '202102'").await,
        "(`s`.`order` = '202102')"
    );
    assert_eq!(text("s['a'] > 5").await, "(`s`.`a` > 5)");
}

#[tokio::test]
async fn b11_what_can_be_pushed_is_pushed() {
    assert_eq!(
        text("n = 1 AND abs(n) = 1 AND name = 'a'").await,
        "(`n` = 1) AND (`name` = 'a')"
    );
    assert_eq!(text("n = 1 OR abs(n) = 1").await, "");
    assert_eq!(
        text("(n = 1 AND abs(n) = 1) OR name = 'a'").await,
        "((`n` = 1) OR (`name` = 'a'))"
    );
}

#[tokio::test]
async fn b12_engine_functions_stay_here() {
    assert_eq!(text("md5(name) = 'x'").await, "");
    assert_eq!(text("name ILIKE 'a%'").await, "");
    assert_eq!(text("name ~ 'a+'").await, "");
}

#[tokio::test]
async fn u02_null_in_lists() {
    assert_eq!(
        text("n IN (1, 2, 3, 4, NULL)").await,
        "(`n` IN (1, 2, 3, 4))"
    );
    assert_eq!(text("NOT (n IN (1, 2, 3, 4, n))").await, "");
    assert_eq!(text("NOT (n = 1)").await, "(`n` != 1)");
}

#[tokio::test]
async fn u04_literals_outside_the_calendar_stay_here() {
    assert_eq!(text("d < arrow_cast(2932897, 'Date32')").await, "");
    assert_eq!(text("d > arrow_cast(-719163, 'Date32')").await, "");
    assert_eq!(
        text("ts > arrow_cast(253402300800000000, 'Timestamp(Microsecond, Some(\"UTC\"))')").await,
        ""
    );
}

#[tokio::test]
async fn u06_patterns() {
    assert_eq!(
        text(r"name LIKE '100\%%a'").await,
        r"(`name` LIKE '100\\%%a')"
    );
    assert_eq!(text("name LIKE 'a_b'").await, "(`name` LIKE 'a_b')");
    assert_eq!(text("name NOT LIKE 'a%b'").await, "(`name` NOT LIKE 'a%b')");
    assert_eq!(text("name LIKE 'a\n%b'").await, r"(`name` LIKE 'a\n%b')");
}

#[tokio::test]
async fn u07_collated_columns_take_equality_only() {
    assert_eq!(text("folded = 'a'").await, "(`folded` = 'a')");
    for predicate in [
        "folded <> 'a'",
        "folded < 'a'",
        "folded LIKE 'a%b'",
        "folded NOT IN ('a', 'b', 'c', 'd')",
        "NOT (folded = 'a')",
    ] {
        assert_eq!(text(predicate).await, "", "{predicate}");
    }
}

#[tokio::test]
async fn truth_tests() {
    assert_eq!(text("flag IS TRUE").await, "(`flag`)");
    assert_eq!(text("flag IS FALSE").await, "(NOT (`flag`))");
    assert_eq!(
        text("flag IS NOT TRUE").await,
        "((NOT (`flag`)) OR (`flag` IS NULL))"
    );
    assert_eq!(
        text("(n > 5) IS NOT TRUE").await,
        "((`n` <= 5) OR (`n` IS NULL))"
    );
    assert_eq!(text("flag IS UNKNOWN").await, "(`flag` IS NULL)");
}

#[tokio::test]
async fn unknown_conditions() {
    assert_eq!(text("(n > 5) IS UNKNOWN").await, "(`n` IS NULL)");
    assert_eq!(text("(n > 5) IS NOT UNKNOWN").await, "(`n` IS NOT NULL)");
    assert_eq!(text("(n > 5 OR flag) IS UNKNOWN").await, "");
}

#[tokio::test]
async fn branches_of_case_are_alternatives() {
    let case = "CASE n WHEN 1 THEN name = 'a' WHEN 2 THEN flag ELSE d > DATE '2024-01-01' END";
    assert_eq!(
        text(case).await,
        "(((`n` = 1) AND (`name` = 'a')) OR ((`n` = 2) AND (`flag`)) OR \
         (`d` > DATE '2024-01-01'))"
    );
    assert_eq!(text(&format!("NOT ({case})")).await, "");
    assert_eq!(
        text("CASE n WHEN 1 THEN name = 'a' WHEN 2 THEN abs(n) = 1 END").await,
        "(((`n` = 1) AND (`name` = 'a')) OR (`n` = 2))"
    );
    // What cannot be said of a branch leaves what it comes to.
    assert_eq!(
        text("CASE abs(n) WHEN 1 THEN name = 'a' WHEN 2 THEN flag END").await,
        "((`name` = 'a') OR (`flag`))"
    );
}

/// What the engine may fail on stays with it, beside what it is said with.
#[test]
fn casts_without_room_are_told() {
    let schema = sample();
    let cast = |column: &str, to: DataType| cast(col(column), to).gt(lit(1_i64));
    for (filter, fails) in [
        (col("n").gt(lit(1_i64)), false),
        (cast("n", DataType::Int64), false),
        (cast("n", DataType::Int32), true),
        (cast("n", DataType::Float64), false),
        (cast("n", DataType::Decimal128(20, 0)), false),
        (cast("n", DataType::Decimal128(20, 2)), true),
        (cast("amount", DataType::Decimal128(38, 9)), false),
        (cast("amount", DataType::Decimal128(38, 10)), true),
        (cast("d", DataType::Date64), false),
        (cast("n", DataType::Int32).and(col("flag")), true),
    ] {
        assert_eq!(may_fail(&schema, &predicate(&filter)), fails, "{filter}");
    }
}

#[tokio::test]
async fn years_are_ranges() {
    let year = |year: i32| {
        format!(
            "((`d` >= DATE '{year}-01-01') AND (`d` < DATE '{}-01-01'))",
            year + 1
        )
    };
    let years = [2021, 2022, 2023, 2024].map(year).join(" OR ");
    assert_eq!(
        text("date_part('year', d) IN (2021, 2022, 2023, 2024)").await,
        format!("({years})")
    );
    assert_eq!(
        text("extract(year FROM dt) < 1").await,
        "(`dt` < DATETIME '0001-01-01 00:00:00.000000')"
    );
    assert_eq!(text("extract(year FROM dt) < 20000").await, "");
}

#[tokio::test]
async fn distinctness() {
    assert_eq!(text("n IS NOT DISTINCT FROM 5").await, "(`n` = 5)");
    assert_eq!(
        text("n IS DISTINCT FROM 5").await,
        "((`n` != 5) OR (`n` IS NULL))"
    );
    assert_eq!(text("n IS DISTINCT FROM NULL").await, "(`n` IS NOT NULL)");
}

#[tokio::test]
async fn not_of_what_is_only_necessary_is_not_pushed() {
    assert_eq!(
        text("NOT (f > 1.5)").await,
        "((`f` <= 1.5) OR (IS_NAN(`f`)))"
    );
    assert_eq!(text("NOT (CAST(amount AS DOUBLE) = 1.5)").await, "");
}

#[tokio::test]
async fn decimals_take_the_columns_scale() {
    assert_eq!(text("big > 12").await, "(`big` > BIGNUMERIC '12')");
    assert_eq!(
        text("amount >= CAST('1.25' AS DECIMAL(10, 2))").await,
        "(`amount` >= NUMERIC '1.25')"
    );
}

#[tokio::test]
async fn dates_as_timestamps() {
    assert_eq!(
        text("CAST(d AS TIMESTAMP) > TIMESTAMP '2024-03-01T12:00:00'").await,
        "(`d` >= DATE '2024-03-02')"
    );
    assert_eq!(
        text("date_part('year', d) = 2024").await,
        "(`d` >= DATE '2024-01-01') AND (`d` < DATE '2025-01-01')"
    );
}

/// The rule table as docs/filters.md prints it.
fn document() -> String {
    let mut text = String::from(
        "# Filters\n\n\
         Which predicates travel to BigQuery, as what, and why that changes no result. A\n\
         restriction accepts every row that the predicate accepts. An *equivalent* restriction is\n\
         TRUE, FALSE and NULL for the same rows: BigQuery alone evaluates it, and a column that\n\
         only such predicates name is not read. A *necessary* one is TRUE for at least the same\n\
         rows, and the engine evaluates the predicate again above the scan. NOT is only taken of\n\
         equivalent ones.\n\n\
         Should the service refuse a restriction that was made here, the session opens once more\n\
         without it; the scan then reads the columns of the predicates too and evaluates them\n\
         itself. `EXPLAIN` shows under `local_filters` what the restriction does not say. What a\n\
         query job reads (views, external tables, wildcards, `bigquery_query`) the engine filters\n\
         again in any case.\n\n\
         A column that only BigQuery looks at could change its type or collation between the plan\n\
         and the session without anything being noticed. Where what is known of the table is older\n\
         than two seconds (a declared table, a prepared statement, a session view), `tables.get` is\n\
         asked while the session opens, and a change is an error that names the column.\n\n\
         - AND: what can be said of its operands is said.\n\
         - OR: said if all of its operands can be.\n\
         - NOT: moves inwards first.\n\
         - `IS [NOT] TRUE`, `IS [NOT] FALSE`, `IS [NOT] UNKNOWN`, `IS [NOT] DISTINCT FROM`: as\n  \
           the comparisons and NULL tests that they stand for.\n\
         - CASE: TRUE comes out of one of its branches, so these are said as alternatives, and\n  \
           that is necessary only.\n\
         - Filters that joins complete while the query runs: by the same rules, necessary only.\n\
         - A cast without room for every value of its column that the planner leaves there (`CAST(n\n  \
           AS INT) IS NULL`): said, and evaluated by the engine again, which fails on some values.\n\
         - The engine turns dates before 1677 or after 2262 into no nanoseconds: a comparison under\n  \
           a cast to them is left to BigQuery alone, also where it refuses the rest, and\n  \
           `date_trunc` of such a date fails where it is evaluated here.\n\
         - Literals are folded before, and take the column's type.\n\
         - A conjunct that would take the restriction over 1,048,576 bytes is evaluated here.\n\
         - Fields of STRUCT columns are columns here; ARRAY columns and what is inside them are\n  \
           not filtered by BigQuery.\n\n\
         This table is printed from the rules themselves (`src/filter/rules.rs`) by a test that\n\
         runs every example; `UPDATE_DOCS=1 cargo test --lib filter` writes it again.\n\n\
         | predicate | examples | pushed as | claim | why |\n|---|---|---|---|---|\n",
    );
    let cell = |text: &str| text.replace('|', "\\|");
    let code = |text: &str| format!("<code>{}</code>", cell(text).replace('<', "&lt;"));
    for rule in RULES {
        let column = |pick: fn(&(&str, &str)) -> String| {
            let cells: Vec<_> = rule
                .examples
                .iter()
                .map(pick)
                .map(|text| code(&text))
                .collect();
            cells.join("<br>")
        };
        let claim = match rule.claim {
            Claim::Equivalent => "equivalent",
            Claim::Necessary => "necessary",
        };
        text.push_str(&format!(
            "| {} | {} | {} | {claim} | {} |\n",
            cell(rule.expression),
            column(|(predicate, _)| predicate.to_string()),
            column(|(_, restriction)| restriction.to_string()),
            cell(rule.why)
        ));
    }
    text
}

#[test]
fn the_document_prints_the_rules() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/filters.md");
    let wanted = document();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/filters.md is not what the rules say: run with UPDATE_DOCS=1"
    );
}
