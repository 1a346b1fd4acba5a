//! What tells one statement from another.

use std::fmt::Write as _;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use sha2::{Digest, Sha256};

/// A digest of what a statement does with the rows of a plan: equal for statements that
/// say the same, in this process and in others, and different where the operation, a
/// table, an expression or a value differs.
pub(super) fn digest(operation: &str, plan: &LogicalPlan) -> Result<String> {
    let mut text = format!("{operation}\n");
    let mut add = |more: &str| text.push_str(more);
    plan.apply_with_subqueries(|node| {
        add(&format!("{} {}\n", node.inputs().len(), node.display()));
        node.apply_expressions(|expression| {
            // Long lists and values are cut where they are displayed.
            add(&format!("  {expression}\n"));
            expression.apply(|part| {
                if let Expr::Literal(value, _) = part {
                    add(&format!("    {value:?}\n"));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut hex = String::new();
    for byte in Sha256::digest(text.as_bytes()) {
        // Writing to a string succeeds.
        let _ = write!(hex, "{byte:02x}");
    }
    Ok(hex)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::SessionContext;

    async fn digest_of(sql: &str) -> String {
        let context = SessionContext::new();
        let create = "CREATE TABLE t AS VALUES (1, 'x'), (2, 'y')";
        context.sql(create).await.unwrap().collect().await.unwrap();
        let plan = context.sql(sql).await.unwrap();
        digest("Insert Into", plan.logical_plan()).unwrap()
    }

    #[tokio::test]
    async fn it_is_that_of_the_statement_and_not_of_its_layout() {
        let one = digest_of("SELECT column1 FROM t WHERE column2 = 'x'").await;
        let same = digest_of("select column1\n from t\n where column2 = 'x'").await;
        assert_eq!(one, same);
        assert_eq!(one.len(), 64);
    }

    #[tokio::test]
    async fn every_value_counts() {
        let eight = |last: &str| {
            let values: Vec<_> = (1..8)
                .map(|n| format!("({n}, X'0011223344556677889900')"))
                .collect();
            format!("VALUES {}, (8, X'{last}')", values.join(", "))
        };
        let texts = [
            "SELECT column1 FROM t".to_string(),
            "SELECT column1 FROM t WHERE column2 = 'x'".to_string(),
            "SELECT column1 FROM t WHERE column2 IN (SELECT 'x')".to_string(),
            "SELECT column1 FROM t WHERE column2 IN (SELECT 'y')".to_string(),
            "SELECT column1 FROM t WHERE column2 = 'y'".to_string(),
            "SELECT column1 FROM t LIMIT 1".to_string(),
            "SELECT now()".to_string(),
            eight("001122334455667788990011"),
            eight("001122334455667788990022"),
        ];
        let mut seen = std::collections::HashSet::new();
        for text in &texts {
            assert!(seen.insert(digest_of(text).await), "{text}");
        }
    }
}
