//! GEOGRAPHY: well-known text and GeoJSON, and the normal form of the former.

use std::fmt::Write;

use serde_json::Value;

use super::civil::is_space;
use super::error::ValueError;
use super::scalar::shortened;

/// Longitude and latitude in degrees.
pub type Position = (f64, f64);

/// A geography.
#[derive(Debug, Clone, PartialEq)]
pub enum Geometry {
    /// One position.
    Point(Position),
    /// At least two positions.
    Line(Vec<Position>),
    /// Rings; the first is the outer one.
    Polygon(Vec<Vec<Position>>),
    /// Points.
    MultiPoint(Vec<Position>),
    /// Lines.
    MultiLine(Vec<Vec<Position>>),
    /// Polygons.
    MultiPolygon(Vec<Vec<Vec<Position>>>),
    /// Any of these; without members, the empty geography.
    Collection(Vec<Geometry>),
}

/// Collections nest at most this deep here.
const MAX_DEPTH: usize = 64;

/// Reads well-known text, or GeoJSON when the text is an object.
pub fn parse_geography(text: &str) -> Result<Geometry, ValueError> {
    let trimmed = text.trim_matches(is_space);
    if trimmed.starts_with('{') {
        return parse_geojson(trimmed);
    }
    let mut parser = Parser { rest: trimmed };
    let geometry = parser.geometry(0)?;
    parser.skip_spaces();
    if !parser.rest.is_empty() {
        return Err(invalid(text));
    }
    Ok(geometry)
}

/// Normalizes well-known text or GeoJSON to well-known text.
pub fn normalize_geography(text: &str) -> Result<String, ValueError> {
    let geometry = parse_geography(text)?;
    let mut out = String::with_capacity(text.len());
    write_wkt(&geometry, &mut out);
    Ok(out)
}

fn invalid(text: &str) -> ValueError {
    ValueError::new(format!("Invalid geography: '{}'", shortened(text)))
}

/// A position, if it is on the globe.
fn position(longitude: f64, latitude: f64) -> Result<Position, ValueError> {
    if !(-90.0..=90.0).contains(&latitude) {
        return Err(ValueError::new(format!(
            "Latitude must be between -90 and 90 degrees, got {latitude}"
        )));
    }
    if !longitude.is_finite() || longitude.abs() > 540.0 {
        return Err(ValueError::new(format!(
            "Longitude must be between -180 and 180 degrees, got {longitude}"
        )));
    }
    let wrapped = if longitude.abs() > 180.0 {
        (longitude + 180.0).rem_euclid(360.0) - 180.0
    } else {
        longitude
    };
    Ok((wrapped, latitude))
}

fn line(positions: Vec<Position>) -> Result<Vec<Position>, ValueError> {
    if positions.len() < 2 {
        return Err(ValueError::new(
            "A linestring must have at least 2 vertices",
        ));
    }
    Ok(positions)
}

fn ring(positions: Vec<Position>) -> Result<Vec<Position>, ValueError> {
    if positions.len() < 4 || positions.first() != positions.last() {
        return Err(ValueError::new(
            "A polygon ring must have at least 4 vertices and its last vertex must equal its first",
        ));
    }
    Ok(positions)
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn error(&self) -> ValueError {
        invalid(if self.rest.is_empty() {
            "unexpected end of text"
        } else {
            self.rest
        })
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches(is_space);
    }

    fn eat(&mut self, c: char) -> bool {
        self.skip_spaces();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, c: char) -> Result<(), ValueError> {
        if self.eat(c) {
            Ok(())
        } else {
            Err(self.error())
        }
    }

    fn word(&mut self) -> String {
        self.skip_spaces();
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_ascii_uppercase()
    }

    fn is_empty(&mut self) -> bool {
        let before = self.rest;
        if self.word() == "EMPTY" {
            return true;
        }
        self.rest = before;
        false
    }

    fn geometry(&mut self, depth: usize) -> Result<Geometry, ValueError> {
        if depth > MAX_DEPTH {
            return Err(ValueError::new(
                "Geography collections are nested too deeply",
            ));
        }
        let kind = self.word();
        if !matches!(
            kind.as_str(),
            "POINT"
                | "LINESTRING"
                | "POLYGON"
                | "MULTIPOINT"
                | "MULTILINESTRING"
                | "MULTIPOLYGON"
                | "GEOMETRYCOLLECTION"
        ) {
            return Err(invalid(&format!("{kind}{}", self.rest)));
        }
        if self.is_empty() {
            return Ok(Geometry::Collection(Vec::new()));
        }
        Ok(match kind.as_str() {
            "POINT" => {
                self.expect('(')?;
                let p = self.position()?;
                self.expect(')')?;
                Geometry::Point(p)
            }
            "LINESTRING" => Geometry::Line(line(self.positions()?)?),
            "POLYGON" => Geometry::Polygon(self.rings()?),
            "MULTIPOINT" => Geometry::MultiPoint(self.list(|p| {
                if !p.eat('(') {
                    return p.position();
                }
                let position = p.position()?;
                p.expect(')')?;
                Ok(position)
            })?),
            "MULTILINESTRING" => Geometry::MultiLine(self.list(|p| line(p.positions()?))?),
            "MULTIPOLYGON" => Geometry::MultiPolygon(self.list(Self::rings)?),
            _ => Geometry::Collection(self.list(|p| p.geometry(depth + 1))?),
        })
    }

    fn rings(&mut self) -> Result<Vec<Vec<Position>>, ValueError> {
        self.list(|p| ring(p.positions()?))
    }

    fn positions(&mut self) -> Result<Vec<Position>, ValueError> {
        self.list(Self::position)
    }

    fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, ValueError>,
    ) -> Result<Vec<T>, ValueError> {
        self.expect('(')?;
        let mut items = vec![one(self)?];
        while self.eat(',') {
            items.push(one(self)?);
        }
        self.expect(')')?;
        Ok(items)
    }

    fn position(&mut self) -> Result<Position, ValueError> {
        let longitude = self.number()?;
        let latitude = self.number()?;
        position(longitude, latitude)
    }

    fn number(&mut self) -> Result<f64, ValueError> {
        self.skip_spaces();
        let end = self
            .rest
            .find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'))
            .unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        let value = digits.parse().map_err(|_| self.error())?;
        self.rest = rest;
        Ok(value)
    }
}

/// Reads a GeoJSON geometry.
pub fn parse_geojson(text: &str) -> Result<Geometry, ValueError> {
    let value: Value = serde_json::from_str(text).map_err(|_| invalid(text))?;
    from_geojson(&value).ok_or_else(|| invalid(text))?
}

fn from_geojson(value: &Value) -> Option<Result<Geometry, ValueError>> {
    let object = value.as_object()?;
    let kind = object.get("type")?.as_str()?;
    if kind == "GeometryCollection" {
        let members = object.get("geometries")?.as_array()?;
        let mut out = Vec::with_capacity(members.len());
        for member in members {
            match from_geojson(member)? {
                Ok(geometry) => out.push(geometry),
                Err(e) => return Some(Err(e)),
            }
        }
        return Some(Ok(Geometry::Collection(out)));
    }
    let coordinates = object.get("coordinates")?;
    coordinates_of(kind, coordinates)
}

fn coordinates_of(kind: &str, value: &Value) -> Option<Result<Geometry, ValueError>> {
    // The outer Option is "not this shape", the inner Result is "off the globe".
    fn one(value: &Value) -> Option<Result<Position, ValueError>> {
        let pair = value.as_array()?;
        Some(position(pair.first()?.as_f64()?, pair.get(1)?.as_f64()?))
    }
    fn many<T>(
        value: &Value,
        each: impl Fn(&Value) -> Option<Result<T, ValueError>>,
    ) -> Option<Result<Vec<T>, ValueError>> {
        value.as_array()?.iter().map(each).collect()
    }
    fn path(value: &Value) -> Option<Result<Vec<Position>, ValueError>> {
        Some(many(value, one)?.and_then(line))
    }
    fn closed(value: &Value) -> Option<Result<Vec<Position>, ValueError>> {
        Some(many(value, one)?.and_then(ring))
    }
    if value.as_array()?.is_empty() {
        return Some(Ok(Geometry::Collection(Vec::new())));
    }
    Some(match kind {
        "Point" => one(value)?.map(Geometry::Point),
        "LineString" => path(value)?.map(Geometry::Line),
        "Polygon" => many(value, closed)?.map(Geometry::Polygon),
        "MultiPoint" => many(value, one)?.map(Geometry::MultiPoint),
        "MultiLineString" => many(value, path)?.map(Geometry::MultiLine),
        "MultiPolygon" => many(value, |v| many(v, closed))?.map(Geometry::MultiPolygon),
        _ => return None,
    })
}

/// Writes well-known text: `POINT(-122.35 47.62)`, `LINESTRING(1 1, 2 2)`.
pub fn write_wkt(geometry: &Geometry, out: &mut String) {
    match geometry {
        Geometry::Point(p) => {
            out.push_str("POINT(");
            write_position(p, out);
            out.push(')');
        }
        Geometry::Line(l) => {
            out.push_str("LINESTRING");
            write_list(l, out, write_position);
        }
        Geometry::Polygon(rings) => {
            out.push_str("POLYGON");
            write_list(rings, out, |ring, out| {
                write_list(ring, out, write_position)
            });
        }
        Geometry::MultiPoint(points) => {
            out.push_str("MULTIPOINT");
            write_list(points, out, write_position);
        }
        Geometry::MultiLine(lines) => {
            out.push_str("MULTILINESTRING");
            write_list(lines, out, |l, out| write_list(l, out, write_position));
        }
        Geometry::MultiPolygon(polygons) => {
            out.push_str("MULTIPOLYGON");
            write_list(polygons, out, |polygon, out| {
                write_list(polygon, out, |ring, out| {
                    write_list(ring, out, write_position)
                });
            });
        }
        Geometry::Collection(members) if members.is_empty() => {
            out.push_str("GEOMETRYCOLLECTION EMPTY");
        }
        Geometry::Collection(members) => {
            out.push_str("GEOMETRYCOLLECTION");
            write_list(members, out, write_wkt);
        }
    }
}

fn write_list<T>(items: &[T], out: &mut String, mut one: impl FnMut(&T, &mut String)) {
    out.push('(');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        one(item, out);
    }
    out.push(')');
}

fn write_position((longitude, latitude): &Position, out: &mut String) {
    write_degrees(*longitude, out);
    out.push(' ');
    write_degrees(*latitude, out);
}

/// Writes degrees with 15 significant digits, without trailing zeros.
pub fn write_degrees(value: f64, out: &mut String) {
    let rounded = format!("{value:.14e}");
    let (mantissa, exponent) = rounded.split_once('e').expect("the exponent form has an e");
    let exponent: i32 = exponent.parse().expect("the exponent is an integer");
    if value == 0.0 {
        out.push('0');
    } else if (-4..15).contains(&exponent) {
        let decimals = usize::try_from(14 - exponent).expect("the exponent is at most 14");
        let text = format!("{value:.decimals$}");
        out.push_str(if text.contains('.') {
            trimmed(&text)
        } else {
            &text
        });
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(
            out,
            "{}e{sign}{:02}",
            trimmed(mantissa),
            exponent.unsigned_abs()
        )
        .expect("writing to a String does not fail");
    }
}

fn trimmed(decimal: &str) -> &str {
    decimal.trim_end_matches('0').trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_text() {
        for (from, to) in [
            ("POINT(-122.35 47.62)", "POINT(-122.35 47.62)"),
            (" point ( -122.350  47.62 ) ", "POINT(-122.35 47.62)"),
            ("LINESTRING (1 1,2 2)", "LINESTRING(1 1, 2 2)"),
            (
                "POLYGON((0 0,0 1,1 1,0 0))",
                "POLYGON((0 0, 0 1, 1 1, 0 0))",
            ),
            ("MULTIPOINT((0 0),(1 1))", "MULTIPOINT(0 0, 1 1)"),
            ("MULTIPOINT(0 0, 1 1)", "MULTIPOINT(0 0, 1 1)"),
            (
                "MULTILINESTRING((0 0,1 1),(2 2,3 3))",
                "MULTILINESTRING((0 0, 1 1), (2 2, 3 3))",
            ),
            (
                "MULTIPOLYGON(((0 0,0 1,1 1,0 0)))",
                "MULTIPOLYGON(((0 0, 0 1, 1 1, 0 0)))",
            ),
            (
                "GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(1 2,3 4))",
                "GEOMETRYCOLLECTION(POINT(1 2), LINESTRING(1 2, 3 4))",
            ),
            ("POINT EMPTY", "GEOMETRYCOLLECTION EMPTY"),
            ("POINT(1e-7 0.00009)", "POINT(1e-07 9e-05)"),
            ("POINT(0.1 -0.30000000000000004)", "POINT(0.1 -0.3)"),
            ("POINT(190 0)", "POINT(-170 0)"),
            (
                r#"{"type":"Point","coordinates":[-122.35,47.62]}"#,
                "POINT(-122.35 47.62)",
            ),
            (
                r#"{"type":"LineString","coordinates":[[1,2],[3,4]]}"#,
                "LINESTRING(1 2, 3 4)",
            ),
            (
                r#"{"type":"GeometryCollection","geometries":[{"type":"MultiPoint","coordinates":[[1,2],[3,4]]}]}"#,
                "GEOMETRYCOLLECTION(MULTIPOINT(1 2, 3 4))",
            ),
        ] {
            assert_eq!(normalize_geography(from).as_deref(), Ok(to), "{from}");
        }
        for bad in [
            "",
            "POINT",
            "POINT(1)",
            "POINT(1 91)",
            "POINT(1 2",
            "POINT(1 2))",
            "LINESTRING(1 2)",
            "POLYGON((0 0,0 1,1 1))",
            "CIRCLE(1 2)",
            "POINT(x y)",
            "{}",
            r#"{"type":"Point"}"#,
            r#"{"type":"Point","coordinates":[1,100]}"#,
            "POINT(NaN 1)",
            "pöint(1 2)",
        ] {
            assert!(normalize_geography(bad).is_err(), "{bad}");
        }
        let deep = "GEOMETRYCOLLECTION(".repeat(10_000);
        assert!(normalize_geography(&deep).is_err());
    }
}
