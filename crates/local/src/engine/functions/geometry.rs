//! Geographies: well-known text and the shapes it holds.

use super::text::general;
use super::value::fail;
use crate::error::{Result, ServiceError};

/// Longitude and latitude in degrees.
pub(crate) type Point = (f64, f64);

/// A geography.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Geometry {
    /// One point.
    Point(Point),
    /// A line through points.
    LineString(Vec<Point>),
    /// A shell and its holes, closed rings.
    Polygon(Vec<Vec<Point>>),
    /// Points.
    MultiPoint(Vec<Point>),
    /// Lines.
    MultiLineString(Vec<Vec<Point>>),
    /// Polygons.
    MultiPolygon(Vec<Vec<Vec<Point>>>),
    /// Anything; empty, the empty geography.
    Collection(Vec<Geometry>),
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn invalid<T>(&self) -> Result<T> {
        fail(format!(
            "ST_GeogFromText failed: Invalid WKT syntax near position {} of '{}'",
            self.text.len() - self.rest.len(),
            self.text
        ))
    }

    fn eat(&mut self, c: char) -> bool {
        self.spaces();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> &'a str {
        self.spaces();
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn empty(&mut self) -> bool {
        let before = self.rest;
        if self.word().eq_ignore_ascii_case("EMPTY") {
            return true;
        }
        self.rest = before;
        false
    }

    fn number(&mut self) -> Result<f64> {
        self.spaces();
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E')))
            .unwrap_or(self.rest.len());
        match self.rest[..end].parse::<f64>() {
            Ok(v) => {
                self.rest = &self.rest[end..];
                Ok(v)
            }
            Err(_) => self.invalid(),
        }
    }

    fn point(&mut self) -> Result<Point> {
        let point = (self.number()?, self.number()?);
        check_point(point, "ST_GeogFromText")?;
        Ok(point)
    }

    fn list<T>(&mut self, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        if self.empty() {
            return Ok(Vec::new());
        }
        if !self.eat('(') {
            return self.invalid();
        }
        let mut out = Vec::new();
        loop {
            out.push(item(self)?);
            if self.eat(')') {
                return Ok(out);
            }
            if !self.eat(',') {
                return self.invalid();
            }
        }
    }

    fn line(&mut self) -> Result<Vec<Point>> {
        let points = self.list(Self::point)?;
        if points.len() == 1 {
            return fail("ST_GeogFromText failed: a LINESTRING needs at least two points");
        }
        Ok(points)
    }

    fn polygon(&mut self) -> Result<Vec<Vec<Point>>> {
        let rings = self.list(|r| r.list(Self::point))?;
        for (i, ring) in rings.iter().enumerate() {
            check_ring(ring, i > 0)?;
        }
        Ok(rings)
    }

    fn geometry(&mut self, depth: usize) -> Result<Geometry> {
        if depth > 50 {
            return fail("ST_GeogFromText failed: geography collections are nested too deeply");
        }
        let word = self.word().to_ascii_uppercase();
        Ok(match word.as_str() {
            "POINT" => match self.list(Self::point)?.as_slice() {
                [] => Geometry::Collection(Vec::new()),
                [p] => Geometry::Point(*p),
                _ => return self.invalid(),
            },
            "LINESTRING" => match self.line()? {
                points if points.is_empty() => Geometry::Collection(Vec::new()),
                points => Geometry::LineString(points),
            },
            "POLYGON" => match self.polygon()? {
                rings if rings.is_empty() => Geometry::Collection(Vec::new()),
                rings => Geometry::Polygon(rings),
            },
            "MULTIPOINT" => {
                let points = self.list(|r| {
                    let wrapped = r.eat('(');
                    let point = r.point()?;
                    if wrapped && !r.eat(')') {
                        return r.invalid();
                    }
                    Ok(point)
                })?;
                match points.as_slice() {
                    [] => Geometry::Collection(Vec::new()),
                    [p] => Geometry::Point(*p),
                    _ => Geometry::MultiPoint(points),
                }
            }
            "MULTILINESTRING" => {
                let mut lines = self.list(Self::line)?;
                match lines.len() {
                    0 => Geometry::Collection(Vec::new()),
                    1 => Geometry::LineString(lines.remove(0)),
                    _ => Geometry::MultiLineString(lines),
                }
            }
            "MULTIPOLYGON" => {
                let mut polygons = self.list(Self::polygon)?;
                match polygons.len() {
                    0 => Geometry::Collection(Vec::new()),
                    1 => Geometry::Polygon(polygons.remove(0)),
                    _ => Geometry::MultiPolygon(polygons),
                }
            }
            "GEOMETRYCOLLECTION" => {
                let mut parts = self.list(|r| r.geometry(depth + 1))?;
                if parts.len() == 1 {
                    parts.remove(0)
                } else {
                    Geometry::Collection(parts)
                }
            }
            _ => return self.invalid(),
        })
    }
}

/// Longitudes within 180 and latitudes within 90 degrees.
pub(crate) fn check_point((x, y): Point, function: &str) -> Result<()> {
    if !(-90.0..=90.0).contains(&y) {
        return fail(format!(
            "{function} failed: Latitude must be between -90 and 90 degrees. Actual value: {}",
            general(y, 15)
        ));
    }
    if !(-180.0..=180.0).contains(&x) {
        return fail(format!(
            "{function} failed: Longitude must be between -180 and 180 degrees. Actual value: {}",
            general(x, 15)
        ));
    }
    Ok(())
}

fn check_ring(ring: &[Point], hole: bool) -> Result<()> {
    if ring.len() < 4 || ring.first() != ring.last() {
        return fail(
            "ST_GeogFromText failed: a polygon's ring is closed and has at least four points",
        );
    }
    let area: f64 = ring
        .windows(2)
        .map(|w| w[0].0 * w[1].1 - w[1].0 * w[0].1)
        .sum();
    // The service turns rings so that the smaller area lies to the left; only
    // rings that lie so already come back as they were written.
    let left = if hole { area < 0.0 } else { area > 0.0 };
    let wide = ring.windows(2).any(|w| (w[0].0 - w[1].0).abs() >= 180.0);
    if !left || wide {
        return Err(ServiceError::unsupported(
            "A polygon whose rings must be turned or that spans half the globe",
        ));
    }
    Ok(())
}

fn write_points(points: &[Point], out: &mut String) {
    out.push('(');
    for (i, (x, y)) in points.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        out.push_str(&format!("{} {}", coordinate(*x), coordinate(*y)));
    }
    out.push(')');
}

/// A coordinate as it is printed: 15 digits.
pub(crate) fn coordinate(v: f64) -> String {
    general(if v == 0.0 { 0.0 } else { v }, 15)
}

fn write_all<T>(items: &[T], out: &mut String, write: impl Fn(&T, &mut String)) {
    out.push('(');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write(item, out);
    }
    out.push(')');
}

impl Geometry {
    /// Reads well-known text.
    pub(crate) fn parse(text: &str) -> Result<Geometry> {
        let mut reader = Reader { text, rest: text };
        let geometry = reader.geometry(0)?;
        reader.spaces();
        if reader.rest.is_empty() {
            Ok(geometry)
        } else {
            reader.invalid()
        }
    }

    /// Well-known text.
    pub(crate) fn to_text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Geometry::Point(p) => {
                out.push_str("POINT");
                write_points(&[*p], out);
            }
            Geometry::LineString(points) => {
                out.push_str("LINESTRING");
                write_points(points, out);
            }
            Geometry::Polygon(rings) => {
                out.push_str("POLYGON");
                write_all(rings, out, |r, out| write_points(r, out));
            }
            Geometry::MultiPoint(points) => {
                out.push_str("MULTIPOINT");
                write_points(points, out);
            }
            Geometry::MultiLineString(lines) => {
                out.push_str("MULTILINESTRING");
                write_all(lines, out, |l, out| write_points(l, out));
            }
            Geometry::MultiPolygon(polygons) => {
                out.push_str("MULTIPOLYGON");
                write_all(polygons, out, |rings, out| {
                    write_all(rings, out, |r, out| write_points(r, out));
                });
            }
            Geometry::Collection(parts) if parts.is_empty() => {
                out.push_str("GEOMETRYCOLLECTION EMPTY");
            }
            Geometry::Collection(parts) => {
                out.push_str("GEOMETRYCOLLECTION");
                write_all(parts, out, |p, out| p.write(out));
            }
        }
    }

    /// The points and lines and polygons that this consists of.
    pub(crate) fn parts(&self) -> Vec<Geometry> {
        match self {
            Geometry::MultiPoint(p) => p.iter().map(|p| Geometry::Point(*p)).collect(),
            Geometry::MultiLineString(l) => l.iter().cloned().map(Geometry::LineString).collect(),
            Geometry::MultiPolygon(p) => p.iter().cloned().map(Geometry::Polygon).collect(),
            Geometry::Collection(parts) => parts.iter().flat_map(Geometry::parts).collect(),
            single => vec![single.clone()],
        }
    }

    /// Every vertex, a ring's last one included.
    pub(crate) fn points(&self) -> Vec<Point> {
        match self {
            Geometry::Point(p) => vec![*p],
            Geometry::LineString(p) | Geometry::MultiPoint(p) => p.clone(),
            Geometry::Polygon(rings) | Geometry::MultiLineString(rings) => rings.concat(),
            Geometry::MultiPolygon(polygons) => {
                polygons.iter().flatten().flatten().copied().collect()
            }
            Geometry::Collection(parts) => parts.iter().flat_map(Geometry::points).collect(),
        }
    }

    /// 0 for points, 1 for lines, 2 for polygons, −1 for nothing.
    pub(crate) fn dimension(&self) -> i64 {
        match self {
            Geometry::Point(_) | Geometry::MultiPoint(_) => 0,
            Geometry::LineString(_) | Geometry::MultiLineString(_) => 1,
            Geometry::Polygon(_) | Geometry::MultiPolygon(_) => 2,
            Geometry::Collection(parts) => {
                parts.iter().map(Geometry::dimension).max().unwrap_or(-1)
            }
        }
    }

    /// The type's name.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Geometry::Point(_) => "ST_Point",
            Geometry::LineString(_) => "ST_LineString",
            Geometry::Polygon(_) => "ST_Polygon",
            Geometry::MultiPoint(_) => "ST_MultiPoint",
            Geometry::MultiLineString(_) => "ST_MultiLineString",
            Geometry::MultiPolygon(_) => "ST_MultiPolygon",
            Geometry::Collection(_) => "ST_GeometryCollection",
        }
    }
}

/// Metres of a radian on the sphere that the service computes on.
const RADIUS: f64 = 6_371_010.0;

/// The great-circle distance of two points in metres.
pub(crate) fn distance(a: Point, b: Point) -> f64 {
    let vector = |(x, y): Point| {
        let (x, y) = (x.to_radians(), y.to_radians());
        [y.cos() * x.cos(), y.cos() * x.sin(), y.sin()]
    };
    let (p, q) = (vector(a), vector(b));
    let cross = [
        p[1] * q[2] - p[2] * q[1],
        p[2] * q[0] - p[0] * q[2],
        p[0] * q[1] - p[1] * q[0],
    ];
    let norm = cross.iter().map(|c| c * c).sum::<f64>().sqrt();
    let dot: f64 = p.iter().zip(&q).map(|(x, y)| x * y).sum();
    norm.atan2(dot) * RADIUS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back_canonical() {
        let t = |s: &str| Geometry::parse(s).map(|g| g.to_text());
        assert_eq!(t("point( -122.40  37.8)").unwrap(), "POINT(-122.4 37.8)");
        assert_eq!(t("POINT EMPTY").unwrap(), "GEOMETRYCOLLECTION EMPTY");
        assert_eq!(
            t("MULTIPOINT((0 0), (1 1))").unwrap(),
            "MULTIPOINT(0 0, 1 1)"
        );
        assert_eq!(
            t("POLYGON((0 0, 4 0, 4 4, 0 4, 0 0))").unwrap(),
            "POLYGON((0 0, 4 0, 4 4, 0 4, 0 0))"
        );
        for bad in [
            "",
            "POINT",
            "POINT(1)",
            "POINT(1 2",
            "POINT(1 91)",
            "POLYGON((0 0, 1 1))",
        ] {
            assert!(t(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn distances_are_the_recorded_ones() {
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
        near(
            distance((-73.9857, 40.7580), (-73.9857, 40.8480)),
            10_007.559105973656,
        );
        near(distance((0.0, 80.0), (10.0, 80.0)), 192_850.64753185026);
        near(distance((0.0, 0.0), (1.0, 1.0)), 157_249.6280925079);
    }
}
