//! What plan nodes have in common: how they show themselves, in EXPLAIN and to the
//! engine's rules, and what they do with other children.

use std::fmt::{self, Display};
use std::sync::Arc;

use datafusion::common::internal_datafusion_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};

/// Text is cut beyond this many characters.
const LONG: usize = 1_000;

/// A node by its name and what `write` writes with a separator between two facts.
pub(crate) fn node(
    t: DisplayFormatType,
    f: &mut fmt::Formatter<'_>,
    name: &str,
    write: impl FnOnce(&mut fmt::Formatter<'_>, &str) -> fmt::Result,
) -> fmt::Result {
    match t {
        DisplayFormatType::Default | DisplayFormatType::Verbose => {
            write!(f, "{name}: ")?;
            write(f, ", ")
        }
        DisplayFormatType::TreeRender => write(f, "\n"),
    }
}

/// A list under its name, or nothing when it is empty.
pub(crate) fn write_list<T: Display>(
    f: &mut fmt::Formatter<'_>,
    separator: &str,
    name: &str,
    items: impl IntoIterator<Item = T>,
) -> fmt::Result {
    let items: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    match items.is_empty() {
        true => Ok(()),
        false => write!(f, "{separator}{name}=[{}]", short(&items.join(", "))),
    }
}

/// `text`, cut where it gets long.
pub(crate) fn short(text: &str) -> String {
    match text.char_indices().nth(LONG) {
        None => text.to_string(),
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
    }
}

/// A statement on one line, cut where it gets long.
pub(crate) fn one_line(sql: &str) -> String {
    short(&sql.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The only one of the children that the node `name` is given.
pub(crate) fn only(
    name: &str,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let [input] = <[_; 1]>::try_from(children).map_err(|children| {
        internal_datafusion_err!("{name} has one input, and got {}", children.len())
    })?;
    Ok(input)
}

/// Calls `f` with each expression of a node until it has seen enough.
pub(crate) fn apply<'a>(
    expressions: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>,
    f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    for expression in expressions {
        if f(expression)? == TreeNodeRecursion::Stop {
            return Ok(TreeNodeRecursion::Stop);
        }
    }
    Ok(TreeNodeRecursion::Continue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(short("a"), "a");
        let long = "é".repeat(LONG + 1);
        assert!(short(&long).ends_with("… (2002 bytes)"));
        assert_eq!(one_line("SELECT 1\n  FROM t"), "SELECT 1 FROM t");
    }
}
