use super::*;

fn c(s: &str, to: SqlType) -> String {
    match string_to(s, &to, Zone::UTC) {
        Ok(v) => value_to_string(&v, &to, Zone::UTC).unwrap(),
        Err(e) => e.message,
    }
}

#[test]
fn text_to_everything() {
    assert_eq!(c("1.5", SqlType::Int64), "Bad int64 value: 1.5");
    assert_eq!(c("0x1F", SqlType::Int64), "31");
    assert_eq!(c("TRUE", SqlType::Bool), "true");
    assert_eq!(c("yes", SqlType::Bool), "Bad bool value: yes");
    assert_eq!(c("not-a-date", SqlType::Date), "Invalid date: 'not-a-date'");
    assert_eq!(
        c("2024-01-02 03:04:05", SqlType::Date),
        "Invalid date: '2024-01-02 03:04:05'"
    );
    assert_eq!(c("1e30", SqlType::Numeric), "Invalid NUMERIC value: 1e30");
    let r = SqlType::Range(Box::new(SqlType::Date));
    assert_eq!(
        c("[unbounded, 2024-01-31)", r.clone()),
        "[UNBOUNDED, 2024-01-31)"
    );
    assert!(c("[2024-02-01, 2024-01-31)", r).contains("must be smaller"));
}

#[test]
fn numbers_round_half_away_from_zero() {
    let n = |v, to: SqlType| match number_to(&v, &to) {
        Ok(v) => value_to_string(&v, &to, Zone::UTC).unwrap(),
        Err(e) => e.message,
    };
    assert_eq!(n(Value::Float64(2.5), SqlType::Int64), "3");
    assert_eq!(n(Value::Float64(-2.5), SqlType::Int64), "-3");
    assert_eq!(
        n(Value::Float64(1e20), SqlType::Int64),
        "int64 out of range: 1e+20"
    );
    assert_eq!(n(Value::Numeric(-1_500_000_000), SqlType::Int64), "-2");
    assert_eq!(n(Value::Numeric(100_000_000), SqlType::Float64), "0.1");
    assert_eq!(
        n(Value::Int64(i64::MIN), SqlType::BigNumeric),
        "-9223372036854775808"
    );
}

#[test]
fn parameters_round_and_refuse() {
    let v = |u| apply_parameters(Value::Numeric(u), Some(TypeParameters::Decimal(3, 1)));
    assert_eq!(v(12_350_000_000).unwrap(), Value::Numeric(12_400_000_000));
    assert!(v(100_000_000_000).is_err());
    let s = apply_parameters(Value::text("äöü"), Some(TypeParameters::MaxLength(2)));
    assert_eq!(
        s.unwrap_err().message,
        "STRING has maximum length of 2 but got a value with length of 3"
    );
}

#[test]
fn what_cannot_be_cast() {
    assert_eq!(
        check_cast(&SqlType::Date, &SqlType::Int64)
            .unwrap_err()
            .message,
        "Invalid cast from DATE to INT64"
    );
    assert!(check_cast(&SqlType::Bool, &SqlType::Float64).is_err());
}
