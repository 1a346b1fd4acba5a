//! A page of objects: prefixes, delimiters, continuation.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::object::Object;

/// What is listed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query {
    pub(crate) prefix: String,
    /// Names that have it behind the prefix are listed up to it, once.
    pub(crate) delimiter: String,
    /// Names up to this one were listed before, and those that begin with it when it
    /// is such a common beginning.
    pub(crate) after: Option<String>,
    /// First name, and the name behind the last.
    pub(crate) start: Option<String>,
    pub(crate) end: Option<String>,
    /// Most entries of the page.
    pub(crate) limit: usize,
}

/// A page.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) objects: Vec<Arc<Object>>,
    pub(crate) prefixes: Vec<String>,
    /// `after` of the next page, if there is one.
    pub(crate) next: Option<String>,
}

pub(super) fn list(objects: &BTreeMap<String, Arc<Object>>, query: &Query) -> Listing {
    let mut page = Listing::default();
    let mut last: Option<String> = None;
    let first = query
        .start
        .iter()
        .chain(Some(&query.prefix))
        .max()
        .cloned()
        .unwrap_or_default();
    let mut from = match &query.after {
        Some(after) if *after >= first => Bound::Excluded(after.clone()),
        _ => Bound::Included(first),
    };
    // A common beginning that was listed before is passed over as a whole.
    let mut passed = query
        .after
        .as_ref()
        .filter(|after| !query.delimiter.is_empty() && after.ends_with(&query.delimiter))
        .cloned();
    loop {
        let found = objects.range((from.clone(), Bound::Unbounded)).next();
        let Some((name, object)) = found.filter(|(name, _)| {
            name.starts_with(&query.prefix) && query.end.as_ref().is_none_or(|end| *name < end)
        }) else {
            return page;
        };
        from = Bound::Excluded(name.clone());
        if passed
            .as_ref()
            .is_some_and(|passed| name.starts_with(passed.as_str()))
        {
            continue;
        }
        passed = None;
        if page.objects.len() + page.prefixes.len() >= query.limit.max(1) {
            page.next = last;
            return page;
        }
        let rest = &name[query.prefix.len()..];
        let cut = if query.delimiter.is_empty() {
            None
        } else {
            rest.find(&query.delimiter)
        };
        if let Some(at) = cut {
            let end = query.prefix.len() + at + query.delimiter.len();
            let common = name[..end].to_string();
            page.prefixes.push(common.clone());
            last = Some(common.clone());
            passed = Some(common);
        } else {
            page.objects.push(Arc::clone(object));
            last = Some(name.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::content::Content;
    use super::super::object::{Attributes, ObjectMeta};
    use super::*;

    fn objects(names: &[&str]) -> BTreeMap<String, Arc<Object>> {
        let object = |name: &str| Object {
            meta: ObjectMeta {
                name: name.into(),
                generation: 1,
                metageneration: 1,
                size: 0,
                crc32c: 0,
                md5: None,
                components: None,
                created: 0,
                updated: 0,
                attributes: Attributes::default(),
                upload: None,
            },
            content: Content::Memory(bytes::Bytes::new()),
        };
        names
            .iter()
            .map(|name| ((*name).to_string(), Arc::new(object(name))))
            .collect()
    }

    /// Everything, page by page.
    fn pages(all: &BTreeMap<String, Arc<Object>>, mut query: Query) -> Vec<Vec<String>> {
        let mut pages = Vec::new();
        loop {
            let page = list(all, &query);
            let names = page.objects.iter().map(|o| o.meta.name.clone());
            pages.push(names.chain(page.prefixes).collect());
            match page.next {
                Some(next) => query.after = Some(next),
                None => return pages,
            }
        }
    }

    #[test]
    fn names_up_to_a_delimiter_are_listed_once() {
        let all = objects(&["a", "b/", "b/1", "b/2/x", "c/1", "c1", "d"]);
        let query = |prefix: &str, delimiter: &str, limit| Query {
            prefix: prefix.into(),
            delimiter: delimiter.into(),
            limit,
            ..Query::default()
        };
        assert_eq!(
            pages(&all, query("", "/", 100)),
            [["a", "c1", "d", "b/", "c/"]]
        );
        assert_eq!(
            pages(&all, query("", "/", 2)),
            [vec!["a", "b/"], vec!["c1", "c/"], vec!["d"]]
        );
        assert_eq!(pages(&all, query("b/", "/", 9)), [["b/", "b/1", "b/2/"]]);
        assert_eq!(pages(&all, query("c", "", 1)), [["c/1"], ["c1"]]);
        assert_eq!(pages(&all, query("x", "", 1)), [[""; 0]]);
        let between = Query {
            start: Some("b/1".into()),
            end: Some("c1".into()),
            ..query("", "", 9)
        };
        assert_eq!(pages(&all, between), [["b/1", "b/2/x", "c/1"]]);
    }
}
