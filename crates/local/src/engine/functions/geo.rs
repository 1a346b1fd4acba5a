//! GEOGRAPHY functions that need no geometry on the sphere beyond distances of
//! points; the rest is refused.

use super::geometry::{Geometry, check_point, coordinate, distance};
use super::json_value::Json;
use super::scalar::{Definition, row};
use super::value::{Answer, Value, fail};
use crate::error::{Result, ServiceError};

fn geometry(value: &Value<'_>) -> Result<Geometry> {
    Geometry::parse(value.str()?)
}

fn geography(g: &Geometry) -> Value<'static> {
    Value::text(g.to_text())
}

/// The points of a geography that consists of points alone.
fn points_only(value: &Value<'_>, function: &str) -> Result<Vec<(f64, f64)>> {
    let g = geometry(value)?;
    match g.dimension() {
        -1 | 0 => Ok(g.points()),
        _ => Err(ServiceError::unsupported(format!(
            "{function} of {}",
            g.type_name()
        ))),
    }
}

/// The least or greatest distance between points of two geographies.
fn between(a: &[Value<'_>], function: &str, pick: fn(f64, f64) -> f64) -> Result<Option<f64>> {
    let (p, q) = (points_only(&a[0], function)?, points_only(&a[1], function)?);
    Ok(p.iter()
        .flat_map(|p| q.iter().map(|q| distance(*p, *q)))
        .reduce(pick))
}

fn line(value: &Value<'_>, function: &str) -> Result<Vec<(f64, f64)>> {
    match geometry(value)? {
        Geometry::LineString(points) => Ok(points),
        other => fail(format!(
            "{function} failed: the argument must be a linestring, not {}",
            other.type_name()
        )),
    }
}

fn number(doc: &Json) -> Option<f64> {
    match doc {
        Json::Number(n) => n.parse().ok(),
        _ => None,
    }
}

fn from_geojson(text: &str) -> Answer {
    let invalid = || {
        fail(format!(
            "ST_GeogFromGeoJSON failed: Invalid GeoJSON: {text}"
        ))
    };
    let Some(Json::Object(members)) = Json::parse(text) else {
        return invalid();
    };
    let member = |name: &str| members.iter().find(|(n, _)| n == name).map(|(_, v)| v);
    match (member("type"), member("coordinates")) {
        (Some(Json::String(kind)), Some(Json::Array(c))) if kind == "Point" => {
            match c
                .iter()
                .map(number)
                .collect::<Option<Vec<f64>>>()
                .as_deref()
            {
                Some([x, y]) => {
                    check_point((*x, *y), "ST_GeogFromGeoJSON")?;
                    Ok(geography(&Geometry::Point((*x, *y))))
                }
                _ => invalid(),
            }
        }
        (Some(Json::String(kind)), _) => Err(ServiceError::unsupported(format!(
            "ST_GEOGFROMGEOJSON of a {kind}"
        ))),
        _ => invalid(),
    }
}

fn from_wkb(bytes: &[u8]) -> Answer {
    let invalid = || fail("ST_GeogFromWKB failed: Invalid WKB");
    let little = match bytes.first() {
        Some(0) => false,
        Some(1) => true,
        _ => return invalid(),
    };
    let Some(kind) = bytes.get(1..5).and_then(|b| <[u8; 4]>::try_from(b).ok()) else {
        return invalid();
    };
    let kind = if little {
        u32::from_le_bytes(kind)
    } else {
        u32::from_be_bytes(kind)
    };
    let double = |at: usize| {
        let b = <[u8; 8]>::try_from(bytes.get(at..at + 8)?).ok()?;
        Some(if little {
            f64::from_le_bytes(b)
        } else {
            f64::from_be_bytes(b)
        })
    };
    match (kind, double(5), double(13)) {
        (1, Some(x), Some(y)) if bytes.len() == 21 => {
            check_point((x, y), "ST_GeogFromWKB")?;
            Ok(geography(&Geometry::Point((x, y))))
        }
        (2..=7, ..) => Err(ServiceError::unsupported(
            "ST_GEOGFROMWKB of anything but a point",
        )),
        _ => invalid(),
    }
}

fn to_geojson(g: &Geometry) -> Result<String> {
    match g {
        Geometry::Point((x, y)) => Ok(format!(
            "{{ \"type\": \"Point\", \"coordinates\": [{}, {}] }} ",
            coordinate(*x),
            coordinate(*y)
        )),
        Geometry::Collection(parts) if parts.is_empty() => {
            Ok("{ \"type\": \"GeometryCollection\", \"geometries\": [ ] } ".into())
        }
        // The service adds points to edges, so that they follow the sphere.
        other => Err(ServiceError::unsupported(format!(
            "ST_ASGEOJSON of {}",
            other.type_name()
        ))),
    }
}

fn same(a: &[Value<'_>]) -> Result<bool> {
    let (x, y) = (geometry(&a[0])?, geometry(&a[1])?);
    if x == y {
        return Ok(true);
    }
    match (&x, &y) {
        (Geometry::Point(_), Geometry::Point(_)) => Ok(false),
        _ if x.dimension() != y.dimension() => Ok(false),
        _ => Err(ServiceError::unsupported(
            "ST_EQUALS of geographies that are written differently",
        )),
    }
}

/// The functions of this family.
pub(crate) fn definitions() -> Vec<Definition> {
    let counts: fn(&[Value<'_>]) -> Answer =
        |a| Ok(Value::Int64(geometry(&a[0])?.points().len() as i64));
    let meters: &[&'static str] = &["GEOGRAPHY, GEOGRAPHY, BOOL? -> FLOAT64"];
    let tests: &[&'static str] = &["GEOGRAPHY, GEOGRAPHY -> BOOL"];
    vec![
        row("st_geogpoint", &["FLOAT64, FLOAT64 -> GEOGRAPHY"], |a| {
            let point = (a[0].float()?, a[1].float()?);
            check_point(point, "ST_GeogPoint")?;
            Ok(geography(&Geometry::Point(point)))
        }),
        row("st_geogfromtext", &["STRING -> GEOGRAPHY"], |a| {
            Ok(geography(&geometry(&a[0])?))
        }),
        row("st_geogfromgeojson", &["STRING -> GEOGRAPHY"], |a| {
            from_geojson(a[0].str()?)
        }),
        row("st_geogfromwkb", &["BYTES -> GEOGRAPHY"], |a| {
            from_wkb(a[0].bytes()?)
        }),
        row("st_astext", &["GEOGRAPHY -> STRING"], |a| {
            Ok(a[0].to_owned_value())
        }),
        row("st_asgeojson", &["GEOGRAPHY -> STRING"], |a| {
            to_geojson(&geometry(&a[0])?).map(Value::text)
        }),
        row("st_x", &["GEOGRAPHY -> FLOAT64"], |a| {
            match geometry(&a[0])? {
                Geometry::Point((x, _)) => Ok(Value::Float64(x)),
                g if g.dimension() < 0 => Ok(Value::Null),
                _ => fail("ST_X failed: the argument must be a single point"),
            }
        }),
        row("st_y", &["GEOGRAPHY -> FLOAT64"], |a| {
            match geometry(&a[0])? {
                Geometry::Point((_, y)) => Ok(Value::Float64(y)),
                g if g.dimension() < 0 => Ok(Value::Null),
                _ => fail("ST_Y failed: the argument must be a single point"),
            }
        }),
        row("st_geometrytype", &["GEOGRAPHY -> STRING"], |a| {
            Ok(Value::text(geometry(&a[0])?.type_name()))
        }),
        row("st_npoints", &["GEOGRAPHY -> INT64"], counts),
        row("st_numpoints", &["GEOGRAPHY -> INT64"], counts),
        row("st_numgeometries", &["GEOGRAPHY -> INT64"], |a| {
            Ok(Value::Int64(geometry(&a[0])?.parts().len() as i64))
        }),
        row("st_dimension", &["GEOGRAPHY -> INT64"], |a| {
            Ok(Value::Int64(geometry(&a[0])?.dimension()))
        }),
        row("st_isempty", &["GEOGRAPHY -> BOOL"], |a| {
            Ok(Value::Bool(geometry(&a[0])?.points().is_empty()))
        }),
        row("st_iscollection", &["GEOGRAPHY -> BOOL"], |a| {
            Ok(Value::Bool(geometry(&a[0])?.parts().len() > 1))
        }),
        row("st_isclosed", &["GEOGRAPHY -> BOOL"], |a| {
            let g = geometry(&a[0])?;
            let closed = g.parts().iter().all(|part| match part {
                Geometry::LineString(points) => points.first() == points.last(),
                _ => true,
            });
            Ok(Value::Bool(closed && g.dimension() >= 0))
        }),
        row("st_startpoint", &["GEOGRAPHY -> GEOGRAPHY"], |a| {
            Ok(geography(&Geometry::Point(
                line(&a[0], "ST_StartPoint")?[0],
            )))
        }),
        row("st_endpoint", &["GEOGRAPHY -> GEOGRAPHY"], |a| {
            let points = line(&a[0], "ST_EndPoint")?;
            Ok(geography(&Geometry::Point(points[points.len() - 1])))
        }),
        row("st_pointn", &["GEOGRAPHY, INT64 -> GEOGRAPHY"], |a| {
            let points = line(&a[0], "ST_PointN")?;
            let n = a[1].int()?;
            let at = if n < 0 {
                points.len() as i64 + n
            } else {
                n - 1
            };
            let point = usize::try_from(at).ok().and_then(|at| points.get(at));
            Ok(point.map_or(Value::Null, |p| geography(&Geometry::Point(*p))))
        }),
        row("st_makeline", &["GEOGRAPHY, GEOGRAPHY -> GEOGRAPHY"], |a| {
            let mut points = Vec::new();
            for value in a {
                match geometry(value)? {
                    Geometry::Point(p) => points.push(p),
                    Geometry::LineString(p) => points.extend(p),
                    other => {
                        return fail(format!(
                            "ST_MakeLine failed: {} is neither a point nor a linestring",
                            other.type_name()
                        ));
                    }
                }
            }
            if points.windows(2).any(|w| w[0] == w[1]) {
                return Err(ServiceError::unsupported(
                    "ST_MAKELINE with repeated points",
                ));
            }
            Ok(geography(&Geometry::LineString(points)))
        }),
        row("st_dump", &["GEOGRAPHY -> ARRAY<GEOGRAPHY>"], |a| {
            Ok(Value::Array(
                geometry(&a[0])?.parts().iter().map(geography).collect(),
            ))
        }),
        row("st_distance", meters, |a| {
            Ok(between(a, "ST_DISTANCE", f64::min)?.map_or(Value::Null, Value::Float64))
        }),
        row("st_maxdistance", meters, |a| {
            Ok(between(a, "ST_MAXDISTANCE", f64::max)?.map_or(Value::Null, Value::Float64))
        }),
        row(
            "st_dwithin",
            &["GEOGRAPHY, GEOGRAPHY, FLOAT64, BOOL? -> BOOL"],
            |a| {
                let limit = a[2].float()?;
                Ok(Value::Bool(
                    between(a, "ST_DWITHIN", f64::min)?.is_some_and(|d| d <= limit),
                ))
            },
        ),
        row("st_length", &["GEOGRAPHY, BOOL? -> FLOAT64"], |a| {
            let length = |part: &Geometry| match part {
                Geometry::LineString(points) => {
                    points.windows(2).map(|w| distance(w[0], w[1])).sum::<f64>()
                }
                _ => 0.0,
            };
            Ok(Value::Float64(
                geometry(&a[0])?.parts().iter().map(length).sum(),
            ))
        }),
        row("st_equals", tests, |a| same(a).map(Value::Bool)),
        row("st_intersects", tests, |a| {
            Ok(Value::Bool(
                between(a, "ST_INTERSECTS", f64::min)?.is_some_and(|d| d == 0.0),
            ))
        }),
        row("st_disjoint", tests, |a| {
            Ok(Value::Bool(
                between(a, "ST_DISJOINT", f64::min)?.is_none_or(|d| d > 0.0),
            ))
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_forms() {
        assert_eq!(
            from_geojson(r#"{"type":"Point","coordinates":[3,4]}"#).unwrap(),
            Value::text("POINT(3 4)")
        );
        let wkb = [
            1u8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0x40,
        ];
        assert_eq!(from_wkb(&wkb).unwrap(), Value::text("POINT(1 2)"));
        assert!(from_wkb(&wkb[..20]).is_err());
        assert_eq!(
            to_geojson(&Geometry::Collection(Vec::new())).unwrap(),
            "{ \"type\": \"GeometryCollection\", \"geometries\": [ ] } "
        );
    }

    #[test]
    fn distances_and_equality() {
        let g = |s: &str| Value::text(s);
        let (a, b) = (g("POINT(0 0)"), g("POINT(0 1)"));
        assert!(same(&[a.clone(), a.clone()]).unwrap());
        assert!(!same(&[a.clone(), b.clone()]).unwrap());
        assert!(
            between(&[a.clone(), g("GEOMETRYCOLLECTION EMPTY")], "F", f64::min)
                .unwrap()
                .is_none()
        );
        assert!(between(&[a, g("LINESTRING(0 0, 1 1)")], "F", f64::min).is_err());
        assert_eq!(
            line(&b, "F").unwrap_err().message,
            "F failed: the argument must be a linestring, not ST_Point"
        );
    }
}
