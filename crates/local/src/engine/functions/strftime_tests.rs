use super::super::text;
use super::*;

fn f(pattern: &str, at: &str) -> String {
    let local = text::parse_datetime(at).unwrap();
    format(pattern, local, None, Fields::Datetime).unwrap()
}

#[test]
fn formats() {
    assert_eq!(f("%G-W%V-%u", "2024-01-15 12:30:45"), "2024-W03-1");
    assert_eq!(
        f("%A %a %B %b %e %j %y", "2024-03-05"),
        "Tuesday Tue March Mar  5 065 24"
    );
    assert_eq!(f("%I:%M %p %k", "2024-03-05 15:04:00"), "03:04 PM 15");
    assert_eq!(
        f("%H:%M:%E3S %E*S", "2024-03-05 15:04:05.120000"),
        "15:04:05.120 05.12"
    );
    assert_eq!(f("%Q %% %D %F", "2024-07-05"), "3 % 07/05/24 2024-07-05");
    assert_eq!(f("%U %W %w", "2024-01-07"), "01 01 0");
    assert_eq!(f("%Y-%m-%d", "0001-01-01"), "1-01-01");
    assert!(format("%H", 0, None, Fields::Date).is_err());
    let ny = Zone::parse("America/New_York").unwrap();
    let at = text::parse_timestamp("2024-01-15 12:00:00+00", Zone::UTC).unwrap();
    let z = |p| format(p, ny.to_local(at), Some((ny, at)), Fields::Timestamp).unwrap();
    assert_eq!(z("%Y-%m-%d %H:%M:%S %Ez"), "2024-01-15 07:00:00 -05:00");
    assert_eq!(z("%Z %z %s"), "UTC-5 -0500 1705320000");
}

#[test]
fn parses() {
    let p = |pattern, input, fields| {
        parse(pattern, input, Zone::UTC, fields).map(|t| text::datetime_text(t, ' '))
    };
    assert_eq!(
        p("%Y%m%d", "20240305", Fields::Date).unwrap(),
        "2024-03-05 00:00:00"
    );
    assert_eq!(
        p(
            "%Y-%m-%dT%H:%M:%S%Ez",
            "2024-01-15T12:34:56+05:30",
            Fields::Timestamp
        )
        .unwrap(),
        "2024-01-15 07:04:56"
    );
    assert_eq!(
        p("%b %e %Y", "Dec  5 2008", Fields::Date).unwrap(),
        "2008-12-05 00:00:00"
    );
    assert_eq!(
        p("%I:%M %p", "12:05 am", Fields::Time).unwrap(),
        "1970-01-01 00:05:00"
    );
    assert_eq!(
        p("%j %Y", "366 2024", Fields::Date).unwrap(),
        "2024-12-31 00:00:00"
    );
    assert_eq!(p("%y", "68", Fields::Date).unwrap(), "2068-01-01 00:00:00");
    assert_eq!(
        p("%F %E*S", "2024-01-02 03.5", Fields::Datetime).unwrap(),
        "2024-01-02 00:00:03.500"
    );
    let error = p("%Y-%m-%d", "2024-13-01", Fields::Date).unwrap_err();
    assert_eq!(error.message, "Failed to parse input string \"2024-13-01\"");
    assert!(p("%Y-%m-%d", "2024-02-30", Fields::Date).is_err());
    assert!(p("%Y", "2024 x", Fields::Date).is_err());
}
