//! Page tokens: opaque to clients, and refused when they are not ours.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::request::Params;
use crate::error::{Result, ServiceError};

/// Makes a token that says where the next page begins.
pub fn token(kind: &str, position: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{kind}:{position}"))
}

/// The position in the request's `pageToken`, which [`token`] made for the same
/// kind of list.
pub fn position(params: &Params, kind: &str) -> Result<Option<String>> {
    let Some(text) = params.get("pageToken") else {
        return Ok(None);
    };
    BASE64_URL_SAFE_NO_PAD
        .decode(text)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .and_then(|t| t.strip_prefix(kind)?.strip_prefix(':').map(str::to_string))
        .map(Some)
        .ok_or_else(|| ServiceError::invalid("Invalid page token.").at("pageToken"))
}

/// One page of a list that is ordered by a unique key.
#[derive(Debug)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Token of the next page, if there is one.
    pub next: Option<String>,
    /// Items on all pages.
    pub total: usize,
}

/// Cuts the page that the request asks for out of items in order of their key.
/// The token names the last key, so that items which come and go between two
/// requests move no others across a page's edge.
pub fn of<T>(
    all: impl Iterator<Item = (String, T)>,
    params: &Params,
    kind: &str,
    default_size: usize,
) -> Result<Page<T>> {
    let after = position(params, kind)?;
    let size = params
        .number::<usize>("maxResults")?
        .unwrap_or(default_size);
    let mut page = Page {
        items: Vec::new(),
        next: None,
        total: 0,
    };
    let mut last = String::new();
    let mut more = false;
    for (key, item) in all {
        page.total += 1;
        if after.as_ref().is_some_and(|after| key <= *after) {
            continue;
        }
        if page.items.len() < size {
            page.items.push(item);
            last = key;
        } else {
            more = true;
        }
    }
    if more && size > 0 {
        page.next = Some(token(kind, &last));
    }
    Ok(page)
}
