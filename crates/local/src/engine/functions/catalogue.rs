//! Every GoogleSQL function name, and what this server does with it.

use super::scalar::Definition;

/// What a function name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FunctionKind {
    /// A scalar function.
    Scalar,
    /// An aggregate function, which is an analytic function too when it has an
    /// OVER clause.
    Aggregate,
    /// An analytic function, which needs an OVER clause.
    Window,
    /// Call syntax that the planner turns into something else (CAST, IF, …).
    Syntax,
    /// A function of GoogleSQL that this server lacks.
    Refused,
}

/// Functions that are syntax of the planner's own.
const SYNTAX: &[&str] = &[
    "cast",
    "collate",
    "safe_cast",
    "if",
    "ifnull",
    "coalesce",
    "nullif",
    "array",
    "unnest",
    "exists",
    "struct",
    "grouping",
    "offset",
    "ordinal",
    "safe_offset",
    "safe_ordinal",
    "rollup",
    "cube",
    "range_sessionize",
    "interval",
    "table",
    "with",
];

/// Functions that GoogleSQL has and this server does not.
const REFUSED: &[&str] = &[
    "aead.decrypt_bytes",
    "aead.decrypt_string",
    "aead.encrypt",
    "ai.agg",
    "ai.classify",
    "ai.embed",
    "ai.forecast",
    "ai.generate",
    "ai.generate_bool",
    "ai.generate_double",
    "ai.generate_int",
    "ai.generate_table",
    "ai.if",
    "ai.score",
    "ai.similarity",
    "appends",
    "array_filter",
    "array_find",
    "array_find_all",
    "array_transform",
    "array_zip",
    "bag_of_words",
    "bit_cast_to_int64",
    "bool_array",
    "changes",
    "contains_substr",
    "current_user",
    "date_bucket",
    "datetime_bucket",
    "deterministic_decrypt_bytes",
    "deterministic_decrypt_string",
    "deterministic_encrypt",
    "dlp_deterministic_decrypt",
    "dlp_deterministic_encrypt",
    "dlp_key_chain",
    "external_object_transform",
    "external_query",
    "float64_array",
    "gap_fill",
    "hll_count.extract",
    "hll_count.init",
    "hll_count.merge",
    "hll_count.merge_partial",
    "hop",
    "int64_array",
    "json_contains",
    "json_flatten",
    "keys.add_key_from_raw_bytes",
    "keys.keyset_chain",
    "keys.keyset_from_json",
    "keys.keyset_length",
    "keys.keyset_to_json",
    "keys.new_keyset",
    "keys.new_wrapped_keyset",
    "keys.rewrap_keyset",
    "keys.rotate_keyset",
    "keys.rotate_wrapped_keyset",
    "kll_quantiles.extract_float64",
    "kll_quantiles.extract_int64",
    "kll_quantiles.extract_point_float64",
    "kll_quantiles.extract_point_int64",
    "kll_quantiles.init_float64",
    "kll_quantiles.init_int64",
    "kll_quantiles.merge_float64",
    "kll_quantiles.merge_int64",
    "kll_quantiles.merge_partial",
    "kll_quantiles.merge_point_float64",
    "kll_quantiles.merge_point_int64",
    "lax_bool_array",
    "lax_float64_array",
    "lax_int64_array",
    "lax_string_array",
    "ml.evaluate",
    "ml.forecast",
    "ml.generate_embedding",
    "ml.generate_text",
    "ml.predict",
    "net.public_suffix",
    "net.reg_domain",
    "obj.fetch_metadata",
    "obj.get_access_url",
    "obj.get_read_url",
    "obj.make_ref",
    "s2_cellidfrompoint",
    "s2_coveringcellids",
    "search",
    "session",
    "session_user",
    "st_angle",
    "st_area",
    "st_asbinary",
    "st_azimuth",
    "st_boundary",
    "st_boundingbox",
    "st_buffer",
    "st_bufferwithtolerance",
    "st_centroid",
    "st_centroid_agg",
    "st_closestpoint",
    "st_clusterdbscan",
    "st_contains",
    "st_convexhull",
    "st_coveredby",
    "st_covers",
    "st_difference",
    "st_extent",
    "st_exteriorring",
    "st_geogfrom",
    "st_geogpointfromgeohash",
    "st_geohash",
    "st_hausdorffdistance",
    "st_hausdorffdwithin",
    "st_interiorrings",
    "st_intersection",
    "st_intersectsbox",
    "st_isring",
    "st_isvalid",
    "st_lineinterpolatepoint",
    "st_linelocatepoint",
    "st_linesubstring",
    "st_makepolygon",
    "st_makepolygonoriented",
    "st_perimeter",
    "st_regionstats",
    "st_simplify",
    "st_snaptogrid",
    "st_touches",
    "st_union",
    "st_union_agg",
    "st_within",
    "string_array",
    "text_analyze",
    "tf_idf",
    "timestamp_bucket",
    "tumble",
    "typeof",
    "vector_search",
];

/// What GoogleSQL and this server know of a function name; `name` is in lower case.
pub(crate) fn kind(name: &str) -> Option<FunctionKind> {
    let has = |names: &[&str]| names.contains(&name);
    if super::SCALARS.contains_key(name) {
        Some(FunctionKind::Scalar)
    } else if name == "count" || super::AGGREGATES.contains_key(name) {
        Some(FunctionKind::Aggregate)
    } else if super::WINDOWS.contains_key(name) {
        Some(FunctionKind::Window)
    } else if has(SYNTAX) {
        Some(FunctionKind::Syntax)
    } else if has(REFUSED) {
        Some(FunctionKind::Refused)
    } else {
        None
    }
}

/// Whether `argument => value` may stand as a call's argument at `position`
/// (from 0): named arguments follow the others, in the order of the signature.
pub(crate) fn takes_named(function: &str, argument: &str, position: usize) -> bool {
    match (function, argument.to_ascii_lowercase().as_str()) {
        ("parse_json" | "float64" | "double", "wide_number_mode")
        | ("to_json", "stringify_wide_numbers")
        | ("to_json_string", "pretty_print")
        | ("json_keys", "max_depth") => position == 1,
        ("json_keys", "mode")
        | ("json_strip_nulls", "include_arrays")
        | ("edit_distance", "max_distance") => position == 2,
        ("json_strip_nulls", "remove_empty") => position == 3,
        ("json_set", "create_if_missing")
        | ("json_array_append", "append_each_element")
        | ("json_array_insert", "insert_each_element") => position >= 3 && position % 2 == 1,
        _ => false,
    }
}

/// Every scalar function and operator that is implemented.
pub(crate) fn scalars() -> Vec<Definition> {
    [
        super::arrays::definitions(),
        super::dates::definitions(),
        super::format::definitions(),
        super::geo::definitions(),
        super::hash::definitions(),
        super::interval::definitions(),
        super::json::definitions(),
        super::math::definitions(),
        super::net::definitions(),
        super::operators::definitions(),
        super::regexp::definitions(),
        super::strings::definitions(),
        super::times::definitions(),
        super::words::definitions(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_arguments_stand_in_their_places() {
        assert!(takes_named("parse_json", "Wide_Number_Mode", 1));
        assert!(!takes_named("parse_json", "wide_number_mode", 0));
        assert!(takes_named("json_set", "create_if_missing", 3));
        assert!(!takes_named("json_set", "create_if_missing", 2));
        assert!(!takes_named("upper", "x", 0));
    }

    #[test]
    fn every_name_is_one_thing() {
        let scalars: Vec<&str> = scalars().iter().map(|d| d.name).collect();
        let mut seen = std::collections::HashSet::new();
        let others = super::super::AGGREGATES
            .keys()
            .chain(super::super::WINDOWS.keys())
            .chain(SYNTAX)
            .chain(REFUSED);
        for name in scalars.iter().chain(others) {
            assert!(seen.insert(*name), "{name} is listed twice");
            assert_eq!(*name, name.to_ascii_lowercase());
            assert!(kind(name).is_some());
        }
        assert_eq!(kind("no_such_function"), None);
        assert_eq!(kind("count"), Some(FunctionKind::Aggregate));
    }
}
